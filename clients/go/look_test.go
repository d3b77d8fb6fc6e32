package pathlockd

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestGapIsLookedInto: after events of its owner were missed, that it was killed maybe, a lock is
// believed in when the server has said that its owner holds it. A renewal says only that the owner
// has a lease in the namespace, as it also has when another client of it took something since.
func TestGapIsLookedInto(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p := f.client()
		p.lists = true
		var killed atomic.Bool // a:/b/c is somebody else's, and "me" has a:/b/d by another client
		l := held(t, c, p, func(a *asked) (*wire.Result, bool) {
			if a.req.Op != wire.OpListLocks {
				return nil, false
			}
			has := "a:/b/c"
			if killed.Load() {
				has = "a:/b/d"
			}
			return holding(has), true
		}, Owner("me"), TTL(time.Minute))
		pass(time.Minute)
		must(t, l.Err())
		killed.Store(true)
		p.send(wire.AppendProgress(nil, wire.PushGap,
			&wire.Progress{Subscription: 1, Cursor: []wire.Position{{Log: 2, Index: 9000}}}))
		pass(time.Second)
		var lost *LostError
		if !errors.As(l.Err(), &lost) || !errors.Is(lost, ErrExpired) || lost.Path != "a:/b/c" {
			t.Fatalf("after the gap: %v", l.Err())
		}
	})
}

// TestKilledOwnerOfTwoClients: what was taken away from an owner is lost to the client that had it,
// also if that was not told yet, and another client has taken something for it in the namespace
// since, so that renewals find a lease.
func TestKilledOwnerOfTwoClients(t *testing.T) {
	t.Parallel()
	ctx := within(t, patience)
	first, second, other := untold(t), dial(t, server(t)), dial(t, server(t))
	p, owner := path(t, "/a/p"), Owner(t.Name())
	l, err := first.Lock(ctx, p, owner, TTL(time.Hour))
	mustLock(t, l, err)
	must(t, other.ForceRelease(ctx, t.Name(), "")) // before the client hears of events
	more, err := second.Lock(ctx, path(t, "/a/q"), owner)
	mustLock(t, more, err)
	taken, err := other.TryLock(ctx, p)
	mustLock(t, taken, err)
	if lost := lostBy(t, l, ErrExpired); lost.Path != p {
		t.Fatalf("lost is %v", lost)
	}
	must(t, more.Err())
}

// TestUnwatchedOwnerIsLookedAt: while no events are told of an owner that the program names, as there
// are too many, a renewal counts once the server has said what the owner holds.
func TestUnwatchedOwnerIsLookedAt(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		peers := make(chan *peer, 1)
		go func() {
			p := f.accept()
			limits := testLimits
			limits.Subscriptions = 0
			p.welcome(limits)
			peers <- p
		}()
		c := dial(t, f.addr, WithDialer(f.dial), WithGrace(longGrace))
		p := <-peers
		p.lists = true
		var killed atomic.Bool
		var looks, renewals atomic.Int64
		l := held(t, c, p, func(a *asked) (*wire.Result, bool) {
			switch a.req.Op {
			case wire.OpSubscribe:
				t.Error("the owner is watched")
			case wire.OpRenew:
				renewals.Add(1)
			case wire.OpListLocks:
				if looks.Add(1); killed.Load() {
					return holding("a:/b/d"), true
				}
				return holding("a:/b/d", "a:/b/c"), true
			}
			return nil, false
		}, Owner("me"))
		pass(5 * time.Minute)
		must(t, l.Err())
		const least = int64(5 * time.Minute / (DefaultTTL / renewAt))
		if n, r := looks.Load(), renewals.Load(); n < least || r > 2*n+1 {
			t.Fatalf("looked %d times and renewed %d times, want at least %d looks, and twice as many renewals",
				n, r, least)
		}
		killed.Store(true)
		pass(DefaultTTL/renewAt + time.Second)
		if err := l.Err(); !errors.Is(err, ErrExpired) {
			t.Fatalf("held by somebody else, and %v", err)
		}
	})
}

// TestKillDuringALook: what the server is telling when the owner is killed may be older.
func TestKillDuringALook(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p := f.client()
		p.lists = true
		var looks atomic.Int64
		l := held(t, c, p, func(a *asked) (*wire.Result, bool) {
			if a.req.Op != wire.OpListLocks {
				return nil, false
			}
			if looks.Add(1) > 1 {
				return holding("a:/b/d"), true
			}
			gap := wire.AppendProgress(nil, wire.PushGap, &wire.Progress{Subscription: 1})
			p.send(append(gap, wire.AppendReply(nil, a.id, a.req.Op, holding("a:/b/c"))...))
			return nil, true
		}, Owner("me"))
		pass(watchAfter + DefaultTTL/renewAt + time.Second) // the gap may be heard after the answer
		if err, n := l.Err(), looks.Load(); n < 2 || !errors.Is(err, ErrExpired) {
			t.Fatalf("looked %d times: %v", n, err)
		}
	})
}

// TestOwnerOfManyLocks: an owner that holds more than is told in one answer keeps its locks, and
// loses those that are on no page.
func TestOwnerOfManyLocks(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p := f.client()
		p.lists = true
		pages := [][]string{{"a:/b/a", "a:/b/b"}, {"a:/b/c"}, {"a:/b/e"}}
		var paged, whole atomic.Int64
		l := held(t, c, p, func(a *asked) (*wire.Result, bool) {
			switch {
			case a.req.Op != wire.OpListLocks:
				return nil, false
			case a.req.Page == 0:
				whole.Add(1)
			}
			at := 0
			if len(a.req.Cursor) > 0 {
				at = int(a.req.Cursor[0])
			} else {
				paged.Add(1)
			}
			res := holding(pages[at]...)
			if res.Done = at == len(pages)-1; !res.Done {
				res.List.Cursor = []byte{byte(at + 1)}
			}
			return res, true
		}, Owner("me"))
		more, err := c.Lock(t.Context(), "a:/b/e", Owner("me"))
		mustLock(t, more, err)
		gone, err := c.Lock(t.Context(), "a:/b/d", Owner("me"))
		mustLock(t, gone, err)
		pass(2 * DefaultTTL)
		must(t, l.Err())
		must(t, more.Err())
		if err := gone.Err(); !errors.Is(err, ErrExpired) {
			t.Errorf("a lock that is on no page: %v", err)
		}
		if w, p := whole.Load(), paged.Load(); w != 0 || p == 0 {
			t.Errorf("all was asked for at once %d times, and in pages %d times", w, p)
		}
	})
}

// holding is an answer that says what an owner holds.
func holding(paths ...string) *wire.Result {
	res := &wire.Result{Flag: len(paths) > 0, Done: true, List: new(wire.List)}
	for _, p := range paths {
		res.List.Infos = append(res.List.Infos, wire.LockInfo{Owner: "me", Path: p})
	}
	return res
}
