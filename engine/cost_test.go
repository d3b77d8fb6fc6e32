package engine

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/internal/testkit/cputime"
	"github.com/pathlockd/pathlockd/wire"
)

// Sizes of what a request must not pay for, and what it may cost with many of it.
// Work in proportion would cost many/few, 256 times as much. A deeper tree and
// colder caches cost something.
const (
	few, many   = 32, 8192
	costTrials  = 300
	costlier    = 10 // times as long at most
	moreAllocs  = 2  // times as many at most,
	spareAllocs = 8  // and these
	changedRows = 6  // of an acquire and a release: hold, lease, fence, what goes, and the state's own
	costNS      = "bench:/t"
	costMutex   = costNS + "/mutex"
)

// costs are the situations: with makes one in which something is there n times, and
// answers a step that leaves it as it was.
var costs = []struct {
	name string
	with func(p *costPlayer, n int) (step func())
}{
	{"a write above the owner's own locks", func(p *costPlayer, n int) func() {
		p.each(n, func(i int) { p.take("me", fmt.Sprintf("%s/a/d%02d/f%d", costNS, i%64, i)) })
		return func() { p.take("me", costNS+"/a"); p.release("me", costNS+"/a") }
	}},
	{"a write beside the locks of others", func(p *costPlayer, n int) func() {
		p.each(n, func(i int) { p.take(fmt.Sprintf("o%d", i), fmt.Sprintf("%s/a/f%d", costNS, i)) })
		return func() { p.take("me", costNS+"/b"); p.release("me", costNS+"/b") }
	}},
	{"a conflict with the one foreign lock among own ones", func(p *costPlayer, n int) func() {
		p.each(n, func(i int) { p.take("me", fmt.Sprintf("%s/a/d%02d/f%d", costNS, i%64, i)) })
		p.take("other", costNS+"/a/d31/g")
		return func() { p.refused("me", costNS+"/a", wire.ReasonDescendantWriteLocked) }
	}},
	{"a conflict with readers", func(p *costPlayer, n int) func() {
		p.acq.Locks[0].Mode = wire.ModeRead
		p.each(n, func(i int) { p.take(fmt.Sprintf("o%d", i), costMutex) })
		p.acq.Locks[0].Mode = wire.ModeWrite
		return func() { p.refused("me", costMutex, wire.ReasonReadLocked) }
	}},
	{"a page of an owner's locks", func(p *costPlayer, n int) func() {
		path := func(i int) string { return fmt.Sprintf("%s/a/d%02d/f%06d", costNS, i%64, i) }
		p.each(n, func(i int) { p.take("me", path(i)) })
		return p.page("me", path(n/2))
	}},
	{"a page of an owner's locks, each in a namespace of its own", func(p *costPlayer, n int) func() {
		path := func(i int) string { return fmt.Sprintf("bench:/t%06d/a", i) }
		p.each(n, func(i int) { p.takeIn(fmt.Sprintf("bench:/t%06d", i), "me", path(i)) })
		return p.page("me", path(n/2))
	}},
	{"the hand-over of a mutex", func(p *costPlayer, n int) func() {
		return p.handOver(n)
	}},
	{"the hand-over of a semaphore", func(p *costPlayer, n int) func() {
		p.policy(wire.Semaphore)
		p.acq.Locks[0].Permits = 1
		return p.handOver(n)
	}},
	{"a request behind a long queue", func(p *costPlayer, n int) func() {
		p.handOver(n)
		return func() { p.refused("me", costMutex, wire.ReasonQueued) }
	}},
	{"a waiter that comes and goes in a long queue", func(p *costPlayer, n int) func() {
		p.handOver(n)
		return func() { p.wait("me", costMutex); p.cancel(p.calls) }
	}},
	{"a release below a long queue", func(p *costPlayer, n int) func() {
		p.take("o", costNS+"/a/x")
		p.take("o", costNS+"/a/y")
		p.each(n, func(i int) { p.wait(fmt.Sprintf("w%d", i), costNS+"/a") })
		return func() {
			p.release("o", costNS+"/a/y")
			if len(p.out.Events) > 0 {
				p.t.Fatal("a waiter was granted below whose path is a lock")
			}
			p.wait("o", costNS+"/a/y")
			p.cancel(p.calls)
		}
	}},
	{"a move of what lies around a namespace of its own", func(p *costPlayer, n int) func() {
		p.policy(wire.RecursiveRW)
		p.each(n, func(i int) { p.take(fmt.Sprintf("o%d", i), fmt.Sprintf("%s/f%d", costNS, i)) })
		p.each(n, func(i int) { p.wait(fmt.Sprintf("w%d", i), fmt.Sprintf("%s/f%d", costNS, i)) })
		attempt := uint64(0)
		return func() {
			attempt++
			p.apply(&Command{Req: &wire.Request{Op: wire.OpFreeze, Namespace: "bench", Attempt: attempt, Target: 1}})
			p.apply(&Command{Req: &wire.Request{Op: wire.OpLeave, Namespace: "bench", Attempt: attempt, Target: 1}})
		}
	}},
	{"one of many leases that runs out", func(p *costPlayer, n int) func() {
		p.each(n, func(i int) { p.take(fmt.Sprintf("o%d", i), fmt.Sprintf("%s/f%d", costNS, i)) })
		return func() {
			p.acq.TTLMillis = 1
			p.take("me", costMutex)
			p.acq.TTLMillis = wire.MaxTTLMillis
			p.now++
			p.s.Expire(Clock{Now: p.now}, &p.out)
		}
	}},
	{"one of many sessions that is cut off", func(p *costPlayer, n int) func() {
		session := func(i int) Session { return Session{byte(i), byte(i >> 8), byte(i >> 16), 1} }
		p.each(n, func(i int) { p.tied(session(i), fmt.Sprintf("o%d", i), fmt.Sprintf("%s/f%d", costNS, i)) })
		return func() {
			p.tied(session(n), "me", costMutex)
			p.apply(&Command{Req: &wire.Request{Op: wire.OpDetach}, Caller: Caller{Session: session(n)}})
			if p.s.View().Alive("me", nil) {
				p.t.Fatal("a lease without grace outlived its connection")
			}
		}
	}},
	{"a conflict, and a look, while many are cut off", func(p *costPlayer, n int) func() {
		p.s.cfg.DepartAtOnce = 1
		session := func(i int) Session { return Session{byte(i), byte(i >> 8), byte(i >> 16), 1} }
		p.tied(session(n), "other", costMutex)
		p.each(n, func(i int) {
			p.tied(session(i), fmt.Sprintf("o%d", i), fmt.Sprintf("%s/f%d", costNS, i))
			p.tied(session(i), fmt.Sprintf("p%d", i), fmt.Sprintf("%s/g%d", costNS, i))
			p.apply(&Command{Req: &wire.Request{Op: wire.OpDetach}, Caller: Caller{Session: session(i)}})
		})
		if got := int(p.s.departing.Sum().Count[classWait]); got != n {
			p.t.Fatalf("%d are being cut off", got)
		}
		return func() {
			p.refused("me", costMutex, wire.ReasonWriteLocked)
			if !p.s.View().Alive("other", nil) {
				p.t.Fatal("who is not cut off is not alive")
			}
		}
	}},
	{"a checkpoint after one change", func(p *costPlayer, n int) func() {
		p.each(n, func(i int) { p.take(fmt.Sprintf("o%d", i), fmt.Sprintf("%s/f%d", costNS, i)) })
		p.checkpoint()
		return func() {
			p.take("me", costMutex)
			if rows := p.checkpoint(); rows > changedRows {
				p.t.Fatalf("%d rows were written of one change", rows)
			}
			p.release("me", costMutex)
		}
	}},
}

// TestCostsWhatItTouches is promise 8: a request does not pay for the locks below its
// path, for the waiters behind it, for other owners. The time is the least of many
// trials, and a view is taken before each, so that every part of a tree that is
// changed is an allocation.
func TestCostsWhatItTouches(t *testing.T) {
	for _, c := range costs {
		t.Run(c.name, func(t *testing.T) {
			measure := func(n int) (least time.Duration, allocs float64) {
				p := newCostPlayer(t)
				step := c.with(p, n)
				trial := func() {
					p.out.Reset()
					p.s.View()
					step()
				}
				allocs = testing.AllocsPerRun(costTrials/10, trial)
				least = time.Hour
				for range costTrials {
					least = min(least, spent(trial))
				}
				return least, allocs
			}
			t1, a1 := measure(few)
			t2, a2 := measure(many)
			t.Logf("%v and %.0f allocations with %d, %v and %.0f with %d", t1, a1, few, t2, a2, many)
			if t2 > costlier*t1 {
				t.Errorf("%v with %d, and %v with %d", t1, few, t2, many)
			}
			if a2 > moreAllocs*a1+spareAllocs {
				t.Errorf("%.0f allocations with %d, and %.0f with %d", a1, few, a2, many)
			}
		})
	}
}

// spent is what a step takes of a processor: on a busy machine a long one is put aside for others, and by the wall's
// clock is never seen at its shortest.
func spent(step func()) time.Duration {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	began := cputime.Thread()
	step()
	return cputime.Thread() - began
}

// costPlayer plays what is measured, and checks that it is what it seems.
type costPlayer struct {
	*player
	t     *testing.T
	calls uint64
}

func newCostPlayer(t *testing.T) *costPlayer {
	cfg := DefaultConfig()
	cfg.MaxQueued = 8 * many
	p := &costPlayer{player: newPlayer(cfg), t: t}
	p.acq.QueueTTLMillis = wire.MaxTTLMillis
	return p
}

func (p *costPlayer) each(n int, f func(i int)) {
	for i := range n {
		if f(i); i%100 == 99 {
			p.out.Reset()
		}
	}
}

func (p *costPlayer) apply(cmd *Command) wire.Result {
	return p.s.Apply(Clock{Now: p.now}, cmd, &p.out)
}

// ask asks for a path with the request as it is set up.
func (p *costPlayer) ask(owner, path string, status wire.Status) wire.Result {
	p.calls++
	p.acq.Owner, p.acq.Locks[0].Path = owner, path
	res := p.apply(&Command{Req: &p.acq, NS: costNS, Caller: Caller{ID: p.calls}})
	if res.Code != wire.OK || res.Status != status {
		p.t.Fatalf("%s asked for %s: %+v", owner, path, res)
	}
	return res
}

func (p *costPlayer) take(owner, path string) { p.ask(owner, path, wire.StatusOK) }

// takeIn takes a path of another namespace.
func (p *costPlayer) takeIn(ns, owner, path string) {
	p.acq.Owner, p.acq.Locks[0].Path = owner, path
	if res := p.apply(&Command{Req: &p.acq, NS: ns}); res.Code != wire.OK || res.Status != wire.StatusOK {
		p.t.Fatalf("%s asked for %s: %+v", owner, path, res)
	}
}

// page lists what comes after a path that an owner holds.
func (p *costPlayer) page(owner, after string) (step func()) {
	const locks = 8
	return func() {
		if got := p.s.View().Owned(owner, nil, Owned{Path: after}, locks); len(got) != locks {
			p.t.Fatalf("%d locks after %s", len(got), after)
		}
	}
}

func (p *costPlayer) wait(owner, path string) {
	p.acq.Flags = wire.FlagWait
	p.ask(owner, path, wire.StatusQueued)
	p.acq.Flags = 0
}

func (p *costPlayer) refused(owner, path string, why wire.Reason) {
	p.acq.Flags = wire.FlagNoQueue
	if res := p.ask(owner, path, wire.StatusConflict); res.Reason != why {
		p.t.Fatalf("%s was refused %s: %+v", owner, path, res)
	}
	p.acq.Flags = 0
}

// tied takes a path on a connection, without grace.
func (p *costPlayer) tied(session Session, owner, path string) {
	p.acq.Owner, p.acq.Locks[0].Path = owner, path
	p.apply(&Command{Req: &p.acq, NS: costNS, Caller: Caller{Session: session}, Bound: true})
}

func (p *costPlayer) cancel(call uint64) {
	p.apply(&Command{Req: &wire.Request{Op: wire.OpCancelWait, Target: call}})
	if len(p.out.Answers) == 0 {
		p.t.Fatal("no call was cancelled")
	}
}

func (p *costPlayer) policy(alg wire.Algorithm) {
	p.apply(&Command{Req: &wire.Request{Op: wire.OpSetRow, Namespace: costNS, Algorithm: alg, Explicit: true}})
}

// handOver lets n wait for a mutex. A step passes it on, and who had it waits again.
func (p *costPlayer) handOver(n int) (step func()) {
	name := func(i int) string { return fmt.Sprintf("w%d", i%(n+1)) }
	p.take(name(0), costMutex)
	for i := 1; i <= n; i++ {
		p.wait(name(i), costMutex)
	}
	holder := 0
	return func() {
		p.release(name(holder), costMutex)
		if e := p.out.Events; len(e) != 1 || e[0].Owner != name(holder+1) {
			p.t.Fatalf("%s passed the mutex on: %+v", name(holder), e)
		}
		p.wait(name(holder), costMutex)
		holder++
	}
}

// checkpoint answers how many rows were written.
func (p *costPlayer) checkpoint() (rows int) {
	v := p.s.Checkpoint()
	if err := v.Rows(v.Since(), func([]byte, []byte) error { rows++; return nil }); err != nil {
		p.t.Fatal(err)
	}
	p.s.Written(v.Mark())
	return rows
}

// TestEndsOfManyWaitsOfOne: an owner waits very many times for what another one has, and gives that up. The end of a
// wait costs no more for those of its owner behind it: they lack what it lacked.
func TestEndsOfManyWaitsOfOne(t *testing.T) {
	const some, more, trials = 200, 1600, 50
	measure := func(n int) (least time.Duration) {
		p := newCostPlayer(t)
		p.take("other", costMutex)
		first := p.calls + 1
		p.each(n, func(int) { p.wait("me", costMutex) })
		least = time.Hour
		for i := range trials {
			p.out.Reset()
			least = min(least, spent(func() { p.cancel(first + uint64(i)) }))
		}
		return least
	}
	t1, t2 := measure(some), measure(more)
	t.Logf("%v with %d, %v with %d", t1, some, t2, more)
	if t2 > costlier*t1 {
		t.Errorf("%v with %d, and %v with %d", t1, some, t2, more)
	}
}
