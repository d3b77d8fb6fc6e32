package replica

import (
	"maps"
	"testing"

	"github.com/pathlockd/pathlockd/groups/rows"
	"github.com/pathlockd/pathlockd/wire"
)

// noted is a node that counts what it is told.
type noted struct {
	quiet
	told map[string]int
}

func (n noted) CheckpointSoon()     { n.told["checkpoint soon"]++ }
func (n noted) PolicyWork()         { n.told["policy work"]++ }
func (n noted) LookAround()         { n.told["look around"]++ }
func (n noted) LimitsDiffer(string) { n.told["limits differ"]++ }

// TestHostIsTold: a node hears of what it is to look at as it is applied, and not of what does not concern it.
func TestHostIsTold(t *testing.T) {
	b := newBare(t, rows.SystemLog, DefaultLimits())
	n := noted{told: make(map[string]int)}
	b.m.Host = n
	tells := func(what string, want map[string]int, by func()) {
		t.Helper()
		clear(n.told)
		if by(); !maps.Equal(n.told, want) {
			t.Errorf("%s: the node is told %v, want %v", what, n.told, want)
		}
	}
	one := func(req *wire.Request) func() { return func() { b.do(1, bareAsk(nil, 0, req)) } }
	tells("what an operator wants of a node", map[string]int{"look around": 1, "policy work": 1},
		one(&wire.Request{Op: wire.OpMarkNode, Node: "n-2", Drain: wire.DrainLeads}))
	tells("a policy", map[string]int{"policy work": 1},
		one(&wire.Request{Op: wire.OpSetPolicy, Namespace: "h:/a", Algorithm: wire.Semaphore}))
	tells("nothing but time", map[string]int{}, func() { b.do(1) })
	stated := func(l Limits) func() {
		return func() {
			b.own.Term++
			b.number = 0
			b.entry(AppendLeaderEpoch(nil, rows.NewestFormat, b.own, l))
		}
	}
	tells("a leader epoch", map[string]int{"policy work": 1}, stated(DefaultLimits()))
	others := DefaultLimits()
	others.MaxQueued++
	tells("limits that are not its own", map[string]int{"policy work": 1, "limits differ": 1}, stated(others))
}
