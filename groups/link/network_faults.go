package link

import (
	"hash/fnv"
	"math/rand/v2"
	"sync"
	"time"
)

// Any stands for every node in the rules of NetworkFaults.
const Any = "*"

// Rule is what happens between two nodes, one way.
type Rule struct {
	Block bool // nothing passes, no connection is made; what exists stays open and silent
	// Chances, 0 to 1, for each thing sent.
	Drop, Cut, Duplicate, Delay float64
	// DelayMin and DelayMax bound the delay of those that are delayed.
	DelayMin, DelayMax time.Duration
}

// maxWays bounds the pairs of nodes whose passages are counted apart; the passages of
// further pairs share one count.
const maxWays = 4096

type way struct {
	from, to string
	kind     Kind
}

// NetworkFaults is a Faults by rules that may be changed at any time, from any goroutine.
// What becomes of the n-th passage of a kind from one node to another is a function of
// the seed, of that n and of the rule at that time, whatever the goroutines do.
type NetworkFaults struct {
	seed uint64
	mu   struct {
		sync.Mutex
		rules map[way]Rule // of kind 0
		count map[way]uint64
	}
}

// NewNetworkFaults returns one without a rule.
func NewNetworkFaults(seed uint64) *NetworkFaults {
	w := &NetworkFaults{seed: seed}
	w.mu.rules = make(map[way]Rule)
	w.mu.count = make(map[way]uint64)
	return w
}

// Set sets the rule from one node to another. Either may be Any; of several rules the
// one that names both counts, then the one that names the sender, then the receiver.
func (w *NetworkFaults) Set(from, to string, r Rule) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.rules[way{from: from, to: to}] = r
}

// Clear takes every rule away.
func (w *NetworkFaults) Clear() {
	w.mu.Lock()
	defer w.mu.Unlock()
	clear(w.mu.rules)
}

// Partition lets nothing pass between the two sides, either way.
func (w *NetworkFaults) Partition(one, other []string) {
	for _, a := range one {
		for _, b := range other {
			w.Set(a, b, Rule{Block: true})
			w.Set(b, a, Rule{Block: true})
		}
	}
}

// Sent answers how many passages of a kind it decided, all ways together.
func (w *NetworkFaults) Sent(k Kind) (n uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for way, count := range w.mu.count {
		if way.kind == k {
			n += count
		}
	}
	return n
}

func (w *NetworkFaults) rule(from, to string) Rule {
	for _, k := range [...]way{{from: from, to: to}, {from: from, to: Any}, {from: Any, to: to}, {from: Any, to: Any}} {
		if r, ok := w.mu.rules[k]; ok {
			return r
		}
	}
	return Rule{}
}

// Outgoing decides. See Faults.
func (w *NetworkFaults) Outgoing(p Passage) Fate {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := w.rule(p.From, p.To)
	k := way{p.From, p.To, p.Kind}
	if _, known := w.mu.count[k]; !known && len(w.mu.count) >= maxWays {
		k = way{}
	}
	w.mu.count[k]++
	return decide(r, rand.New(rand.NewPCG(w.seed, k.hash(w.mu.count[k]))))
}

// decide draws the same numbers in the same order whatever the rule is, so that a change
// of one chance does not change the others' luck.
func decide(r Rule, luck *rand.Rand) Fate {
	drop, cut, twice, late, how := luck.Float64(), luck.Float64(), luck.Float64(), luck.Float64(), luck.Float64()
	switch {
	case r.Block || drop < r.Drop:
		return Fate{Drop: true}
	case cut < r.Cut:
		return Fate{Cut: true}
	}
	var f Fate
	if twice < r.Duplicate {
		f.Copies = 1
	}
	if late < r.Delay {
		f.Delay = r.DelayMin + time.Duration(how*float64(max(r.DelayMax-r.DelayMin, 0)))
	}
	return f
}

func (k way) hash(n uint64) uint64 {
	h := fnv.New64a()
	for _, s := range [...]string{k.from, "\x00", k.to, "\x00", string(rune(k.kind))} {
		_, _ = h.Write([]byte(s))
	}
	return h.Sum64() + n*0x9e3779b97f4a7c15
}
