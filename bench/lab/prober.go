package lab

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/pathlockd/pathlockd/bench/lab/history"
	"github.com/pathlockd/pathlockd/bench/session"
	"github.com/pathlockd/pathlockd/wire"
)

const (
	// depth and width are how many paths a request of the prober names, one below the other or
	// side by side: what is walked in vain for one path is walked so often, and shows beside
	// what it takes to ask.
	depth = 48
	width = 256
	// turns is how often each of a pair is asked. The shorter time counts: the first may have
	// waited for what was asked before.
	turns = 2
	// page is how much of a listing is asked for.
	page = 32
	// probeWithin is how long an answer is waited for.
	probeWithin = 3 * time.Second
	// probesEvery is between two rounds, and probesLater once there are manyPairs: the clients
	// want the machine, too.
	probesEvery = 100 * time.Millisecond
	probesLater = 400 * time.Millisecond
	manyPairs   = 40
)

// probes are what is asked in both namespaces, each a few requests that leave everything as
// it was.
var probes = []struct {
	kind  string
	steps func(h hoard) []*wire.Request
}{
	{"a write above the owner's own locks", func(h hoard) []*wire.Request {
		return []*wire.Request{take(holder, h.slope()...), free(holder, h.slope()...)}
	}},
	{"a write beside locks and waiters of others", func(h hoard) []*wire.Request {
		return []*wire.Request{take(passer, h.wide(h.name+"/b")...), free(passer, h.wide(h.name+"/b")...)}
	}},
	{"a waiter that comes and goes in a long queue", func(h hoard) []*wire.Request {
		return []*wire.Request{
			queue(passer, h.wide(h.mutex())...),
			{Op: wire.OpReleaseAll, Owner: passer, Domains: []string{h.name}},
		}
	}},
	{"a look", func(h hoard) []*wire.Request {
		return []*wire.Request{
			{Op: wire.OpDescribe, Path: h.slope()[0], Page: page},
			{Op: wire.OpDescribe, Path: h.mutex(), Page: page},
		}
	}},
	{"a page of a listing", func(h hoard) []*wire.Request {
		return []*wire.Request{{Op: wire.OpScanLocks, Path: h.slope()[0], Page: page}}
	}},
}

// wide lists paths side by side.
func (h hoard) wide(below string) (paths []string) {
	for i := range width {
		paths = append(paths, fmt.Sprintf("%s/%d", below, i))
	}
	return paths
}

// prober asks the same where there is much and where there is little, all through an
// episode.
type prober struct {
	e     *episode
	of    *ballast
	asker asker
	rng   *rand.Rand
	asks  [][2][]*wire.Request // by probe: much, little
	costs []history.Cost
}

// probe does so until the episode settles.
func (e *episode) probe() {
	b := e.ballast
	p := &prober{e: e, of: b, asker: asker{cluster: e.cluster, s: session.New()}, rng: rngOf(e.cfg.Seed, 3, e.number)}
	for _, x := range probes {
		p.asks = append(p.asks, [2][]*wire.Request{x.steps(b.much), x.steps(b.little)})
		p.costs = append(p.costs, history.Cost{Kind: x.kind})
	}
	defer func() {
		p.asker.hangUp()
		for _, c := range p.costs {
			e.rec.Cost(c)
		}
	}()
	for n := 0; !e.settling(); n++ {
		if !b.whole() {
			b.load(e.ctx, e.settling)
			continue
		}
		p.asker.hangUp()
		p.asker.node = n % e.cluster.Nodes()
		if err := p.round(); errors.Is(err, errNotWhole) {
			e.cfg.Logf("episode %d: %v; it is loaded again", e.number, err)
			b.loaded.Store(-1)
		}
		if len(p.costs[0].Pairs) < manyPairs {
			e.pass(probesEvery)
		} else {
			e.pass(probesLater)
		}
	}
}

// round asks one pair of each kind. A pair that is not answered does not count, as it says
// what a fault costs.
func (p *prober) round() error {
	restores := p.of.restores.Load()
	pairs := make([]history.Pair, len(probes))
	for i := range probes {
		pair := history.Pair{At: p.e.rec.Now()}
		best := [2]*time.Duration{&pair.Much, &pair.Little}
		for turn, first := 0, p.rng.IntN(2); turn < 2*turns; turn++ {
			side := (first + turn) % 2
			took, err := p.time(p.asks[i][side], side == 0)
			if err != nil {
				return err
			}
			if b := best[side]; turn < 2 || took < *b {
				*b = took
			}
		}
		pairs[i] = pair
	}
	if p.of.restores.Load() == restores && p.of.whole() {
		for i, pair := range pairs {
			p.costs[i].Pairs = append(p.costs[i].Pairs, pair)
		}
	}
	return nil
}

var (
	errNotWhole = errors.New("the ballast is not whole")
	errOther    = errors.New("another answer than that of those who are in nobody's way")
)

// time asks and says how long it took. Who looks at where there is much sees whether that is
// so.
func (p *prober) time(steps []*wire.Request, much bool) (took time.Duration, err error) {
	if err := p.asker.dial(p.e.ctx); err != nil {
		return 0, err
	}
	for _, req := range steps {
		began := time.Now()
		res, err := p.asker.ask(p.e.ctx, req)
		if took += time.Since(began); err != nil {
			return 0, err
		}
		if res.Status != wanted(req) {
			return 0, fmt.Errorf("%w: %v %v", errOther, req.Op, res.Status)
		}
		if much && req.Op == wire.OpDescribe {
			if err := p.of.much.seen(req.Path, res); err != nil {
				return 0, err
			}
		}
	}
	return took, nil
}
