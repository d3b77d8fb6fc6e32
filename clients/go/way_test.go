package pathlockd

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestAMoveKeepsTheOrder: nothing of a namespace goes by the new lane before what went
// by the old one is settled; other groups do not wait.
func TestAMoveKeepsTheOrder(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFakeCluster(t, 2, 0, 0, 1, 1)
		c := f.client()
		f.warm(c)
		var open *asked
		var at *peer
		f.serve = func(p *peer, a *asked) *wire.Result {
			if a.req.Owner == "slow" {
				open, at = a, p
				return nil
			}
			return granted(a.req)
		}
		answers := make(chan error, 8)
		ask := func(owner string, group int) {
			c.Go(&wire.Request{Op: wire.OpRelease, Owner: owner, Releases: []wire.ReleaseRequest{{Path: in(group)}}},
				func(_ *wire.Result, err error) { answers <- err })
		}
		ask("slow", 0)
		pass(0)
		f.lead(1, 1, 1, 1)
		f.tell()
		pass(0)
		ask("next", 0)
		ctx, cancel := context.WithCancel(context.Background())
		gone := doing(ctx, c, &wire.Request{Op: wire.OpRelease, Owner: "gone",
			Releases: []wire.ReleaseRequest{{Path: in(0)}}})
		pass(0)
		cancel() // it was not sent, and never will be
		if err := (<-gone).err; err == nil {
			t.Fatal("an ended context is no error")
		}
		if n := f.goes(c, 1); n != "n1" {
			t.Fatalf("another group went to %s", n)
		}
		if last := f.last(wire.OpRelease); last.req.Owner == "next" || last.req.Owner == "gone" {
			t.Fatalf("%s overtook the request before it", last.req.Owner)
		}
		at.ok(open)
		must(t, <-answers)
		must(t, <-answers)
		last := f.last(wire.OpRelease)
		if last.req.Owner != "next" || last.node != "n1" {
			t.Fatalf("then %s went to %s", last.req.Owner, last.node)
		}
	})
}

// TestWhatIsUnderWayGoesFirst: the client learns of other leaders while a request is
// under way. Nothing of any namespace goes by another lane before that is settled.
func TestWhatIsUnderWayGoesFirst(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFakeCluster(t, 2, 0, 0, 0, 0)
		c := f.client()
		pass(0)
		var open *asked
		var at *peer
		f.serve = func(p *peer, a *asked) *wire.Result {
			if a.req.Owner == "slow" {
				open, at = a, p
				return nil
			}
			return granted(a.req)
		}
		slow := doing(context.Background(), c, &wire.Request{Op: wire.OpRelease, Owner: "slow",
			Releases: []wire.ReleaseRequest{{Path: in(1)}}})
		pass(0)
		f.lead(1, 1, 1, 1)
		f.tell()
		for range 3 {
			pass(time.Second)
			if n := f.goes(c, 1); n != "n0" {
				t.Fatalf("a request went to %s past the one before it", n)
			}
		}
		at.ok(open)
		must(t, (<-slow).err)
		pass(0)
		f.goes(c, 1)
		pass(0)
		if n := f.goes(c, 1); n != "n1" {
			t.Fatalf("then it went to %s", n)
		}
	})
}

// TestWaitsStayWhereTheyAre: a waiting acquire does not hold a move up once it is in
// the queue, and its cancel goes where it went.
func TestWaitsStayWhereTheyAre(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFakeCluster(t, 2, 0, 0, 1, 1)
		c := f.client()
		f.warm(c)
		f.serve = func(p *peer, a *asked) *wire.Result {
			if a.req.Op == wire.OpAcquire {
				p.send(wire.AppendQueued(nil,
					&wire.Queued{ID: a.id, Result: wire.Result{Status: wire.StatusQueued, Position: 1}}))
				return nil
			}
			return granted(a.req)
		}
		ctx, cancel := context.WithCancel(context.Background())
		waits := doing(ctx, c, &wire.Request{Op: wire.OpAcquire, Owner: "w", TTLMillis: 1000, Flags: wire.FlagWait,
			Locks: []wire.LockRequest{{Path: in(0)}}})
		pass(0)
		f.lead(1, 1, 1, 1)
		f.tell()
		pass(0)
		if n := f.goes(c, 0); n != "n1" {
			t.Fatalf("the group went to %s", n)
		}
		cancel()
		<-waits
		pass(0)
		if a := f.last(wire.OpCancel); a.node != "n0" || a.req.Target != f.last(wire.OpAcquire).id {
			t.Fatalf("the cancel of %d went to %s", a.req.Target, a.node)
		}
	})
}

// TestOrderUnderMoves pipelines numbered requests of several namespaces while leaders
// change and connections break: they arrive in order, each of them once.
func TestOrderUnderMoves(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			bubble(t, func(t *testing.T) { orderUnderMoves(t, rand.New(rand.NewPCG(seed, 1))) })
		})
	}
}

func orderUnderMoves(t *testing.T, rng *rand.Rand) {
	const requests, steps = 400, 200
	f := newFakeCluster(t, 3, 0, 1, 2, 0)
	var mu sync.Mutex
	delay := rand.New(rand.NewPCG(rng.Uint64(), 2))
	f.serve = func(_ *peer, a *asked) *wire.Result {
		mu.Lock()
		d := time.Duration(delay.IntN(300)) * time.Microsecond
		mu.Unlock()
		time.Sleep(d) // the server takes its time, by the bubble's clock
		return granted(a.req)
	}
	c := f.client()
	f.warm(c)
	f.arrived = nil
	var done sync.WaitGroup
	for g := range groupsOfFakeCluster {
		done.Go(func() {
			var answered sync.WaitGroup
			for i := range requests {
				answered.Add(1)
				c.Go(&wire.Request{Op: wire.OpRelease, Owner: fmt.Sprint(g), Key: fmt.Sprint(i),
					Releases: []wire.ReleaseRequest{{Path: in(g)}}},
					func(_ *wire.Result, err error) {
						if err != nil {
							t.Error(err)
						}
						answered.Done()
					})
				if i%4 == 0 {
					time.Sleep(4 * time.Millisecond) // so that they last as long as the moves do
				}
			}
			answered.Wait()
		})
	}
	for range steps {
		pass(time.Duration(rng.IntN(6)) * time.Millisecond)
		switch rng.IntN(8) {
		case 0:
			f.cut(fmt.Sprintf("n%d", rng.IntN(3)))
		default:
			f.lead(rng.IntN(4)-1, rng.IntN(4)-1, rng.IntN(4)-1, rng.IntN(4)-1)
			f.tell()
		}
	}
	done.Wait()
	next := make(map[string]int)
	seen := make(map[string]bool)
	byNode := make(map[string]int)
	for _, a := range f.arrived {
		id := fmt.Sprintf("%x/%d", a.session, a.id)
		if seen[id] {
			continue // asked again by its session
		}
		seen[id] = true
		byNode[a.node]++
		if want := fmt.Sprint(next[a.req.Owner]); a.req.Key != want {
			t.Fatalf("group %s: request %s came where %s was due", a.req.Owner, a.req.Key, want)
		}
		next[a.req.Owner]++
	}
	for g := range groupsOfFakeCluster {
		if n := next[fmt.Sprint(g)]; n != requests {
			t.Errorf("group %d: %d requests came, want %d", g, n, requests)
		}
	}
	if len(byNode) != 3 {
		t.Errorf("requests came to %v, want to every node", byNode)
	}
}
