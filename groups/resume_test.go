package groups

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// follower is a subscriber as clients are: it keeps a cursor, and listens for as many
// events as it is told.
type follower struct {
	want int // events after which it is gone; 0 for as long as there are any

	mu   sync.Mutex
	at   map[uint64]wire.Position
	got  []string
	gaps int
	gone bool
}

func (e *follower) Deliver(_ *wire.Subscription, kind wire.EventKind, path, _ string, token int64, at wire.Position) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.gone {
		return
	}
	e.got = append(e.got, fmt.Sprintf("%s %s %d", kind, path, token))
	e.at[at.Log] = at
	e.gone = len(e.got) == e.want
}

func (e *follower) Progress(_ *wire.Subscription, cursor []wire.Position) { e.set(cursor, 0) }

func (e *follower) Gap(_ *wire.Subscription, cursor []wire.Position) { e.set(cursor, 1) }

func (e *follower) set(cursor []wire.Position, gaps int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.gone {
		return
	}
	e.gaps += gaps
	for _, p := range cursor {
		e.at[p.Log] = p
	}
}

func (e *follower) heard() (events []string, gaps int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.got), e.gaps
}

// cursor is where it stands.
func (e *follower) cursor() (all []wire.Position) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, p := range e.at {
		all = append(all, p)
	}
	return all
}

// follow subscribes at a node, from where the follower stands if it stands anywhere.
func (e *follower) follow(t *testing.T, n *Node, events int) {
	t.Helper()
	e.mu.Lock()
	e.gone, e.want = false, events
	began := e.at == nil
	if began {
		e.at = make(map[uint64]wire.Position)
	}
	e.mu.Unlock()
	sub := &wire.Subscription{Owner: "waiter", Sink: e}
	if !began {
		sub.From = e.cursor()
	}
	from, err := n.Subscribe(sub)
	if err != nil {
		t.Fatal(err)
	}
	if began { // nothing happens yet
		e.set(from, 0)
	}
}

// TestResumeAtAnotherNode: a subscriber of the leader of a log goes on from its cursor at
// another node when the leader was killed. It gets every event once; or, when the node
// keeps fewer of them than it missed, hears that there is a gap. While the node has them
// all, there is none.
func TestResumeAtAnotherNode(t *testing.T) {
	t.Parallel()
	for name, keep := range map[string]int{"all are kept": 8192, "few are kept": 2} {
		t.Run(name, func(t *testing.T) { t.Parallel(); resumeElsewhere(t, keep) })
	}
}

func resumeElsewhere(t *testing.T, keep int) {
	const path, before, while, later = "h:/e0/x", 24, 24, 12
	w := new(network)
	f := newFleet(t, 3, func(_ int, c *Config) {
		c.Faults, c.EventBuffer, c.EvictionWindow = w, keep, time.Hour
	})
	f.settle(3)
	old := f.leader(path)
	next, asks := f.nodes[(old+1)%3], f.nodes[(old+2)%3]
	var all []string // in the order in which they happened
	c := newFleetClient(asks)
	// happen has the waiter get events: of the log of path, and here and there of others.
	happen := func(events int) {
		t.Helper()
		for range events {
			at := path
			if len(all)%3 == 2 {
				at = fmt.Sprintf("h:/e%d/x", len(all))
			}
			c.mustAcquire(t, at, "holder")
			res := c.ask(t, &wire.Request{
				Op: wire.OpAcquire, Owner: "waiter", TTLMillis: 60_000, QueueTTLMillis: 60_000,
				Locks: []wire.LockRequest{{Path: at, Mode: wire.ModeWrite}},
			})
			if res.Status != wire.StatusQueued {
				t.Fatalf("%s: %+v", at, res)
			}
			for _, owner := range []string{"holder", "waiter"} {
				res = c.ask(t, release(owner, at))
				if err := res.Err(); err != nil {
					t.Fatalf("%s is released by %s: %v", at, owner, err)
				}
			}
			all = append(all, at)
		}
	}
	// whole is what a subscriber heard of so many events, each of which is another one.
	whole := func(who string, e *follower, want int) {
		t.Helper()
		f.until(fmt.Sprintf("%s hears of %d events", who, want), func() bool {
			got, _ := e.heard()
			return len(got) >= want
		})
		got, _ := e.heard()
		if once := slices.Compact(slices.Sorted(slices.Values(got))); len(once) != len(got) || len(got) != want {
			t.Fatalf("%s heard %d events, %d different ones, want %d: %q", who, len(got), len(once), want, got)
		}
	}
	stays := new(follower) // all the time at the node that the others go to
	stays.follow(t, next, 0)
	stopped := map[int]*follower{0: new(follower), 7: new(follower), before: new(follower)} // by the events that they got
	for events, e := range stopped {
		e.follow(t, f.nodes[old], events)
	}
	stopped[0].mu.Lock()
	stopped[0].gone = true // it is gone before anything happens
	stopped[0].mu.Unlock()
	happen(before)
	for events, e := range stopped {
		whole(fmt.Sprintf("who goes after %d", events), e, events)
	}
	whole("who stays", stays, before) // so next has come as far
	f.until("the next node is as far as every cursor", func() bool {
		for _, e := range stopped {
			for _, p := range e.cursor() {
				if p.Log != 0 && after(p, next.hub.where(p.Log)) {
					return false
				}
			}
		}
		return true
	})
	f.kill(w, old)
	f.until("every log has a leader again", func() bool { return asks.health().Flag && next.health().Flag })
	happen(while)
	whole("who stays", stays, before+while)
	for events, e := range stopped {
		e.follow(t, next, 0)
		if _, gaps := e.heard(); keep < while && gaps != 1 {
			t.Errorf("who goes after %d of %d events, at a node that keeps %d of each log, is told of %d gaps, want one", events, before+while, keep, gaps)
		}
	}
	happen(later)
	whole("who stays", stays, before+while+later)
	last, _ := stays.heard()
	for events, e := range stopped {
		who := fmt.Sprintf("who went after %d", events)
		if keep > while {
			whole(who, e, before+while+later)
			if _, gaps := e.heard(); gaps != 0 {
				t.Errorf("%s is told of %d gaps, and nothing is missing", who, gaps)
			}
			continue
		}
		// What happened since it is back is all there, after the gap; nothing came twice.
		f.until(who+" hears of the last", func() bool {
			got, _ := e.heard()
			return len(got) > 0 && slices.Contains(got, last[len(last)-1])
		})
		got, gaps := e.heard()
		if once := slices.Compact(slices.Sorted(slices.Values(got))); len(once) != len(got) || gaps != 1 {
			t.Errorf("%s heard %d events, %d different ones, and of %d gaps: %q", who, len(got), len(once), gaps, got)
		}
		for _, event := range last[before+while:] {
			if !slices.Contains(got, event) {
				t.Errorf("%s did not hear %s, which happened after it was back", who, event)
			}
		}
	}
	if _, gaps := stays.heard(); gaps != 0 {
		t.Errorf("who stays is told of %d gaps", gaps)
	}
}
