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
		p.send(wire.AppendProgress(nil, wire.PushGap, &wire.Progress{Subscription: 1, Cursor: []wire.Position{{Log: 2, Index: 9000}}}))
		pass(time.Second)
		var lost *LostError
		if !errors.As(l.Err(), &lost) || !errors.Is(lost, ErrExpired) || lost.Path != "a:/b/c" {
			t.Fatalf("after the gap: %v", l.Err())
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
