package pathlockd

import (
	"context"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestAReleaseThatItsWayHoldsBack: a lock of an owner that the program names is unlocked while its namespace has just
// got another leader, so that the release is held back, until it is too late to give it back by its path. It goes by
// its request then: it is not taken for one of a client that is closed.
func TestAReleaseThatItsWayHoldsBack(t *testing.T) {
	for name, paths := range map[string][]Path{
		"a read":                {{Path: in(0), Mode: Read}},
		"a read beside a write": {{Path: in(0), Mode: Read}, {Path: in(0) + "/w"}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFakeCluster(t, 2, 0, 0, 1, 1)
				c := f.client()
				f.warm(c)
				var open *asked
				var at *peer
				var back []arrival
				f.serve = func(p *peer, a *asked) *wire.Result {
					switch {
					case a.req.Op == wire.OpRelease && a.req.Owner == "slow":
						open, at = a, p
						return nil
					case a.req.Op == wire.OpRelease && a.req.Owner == "me":
						back = append(back, arrival{p.node, "", a})
					case a.req.Op == wire.OpAcquire && len(a.req.Locks) == 1: // of reads, which have no token
						return &wire.Result{Namespace: namespaceOf(a.req.Locks[0].Path)}
					}
					return granted(a.req)
				}
				l, err := c.TryLockAll(context.Background(), paths, Owner("me"), TTL(slowWay/2))
				mustLock(t, l, err)
				by := f.last(wire.OpAcquire).id

				c.Go(&wire.Request{Op: wire.OpRelease, Owner: "slow", Releases: []wire.ReleaseRequest{{Path: in(0)}}},
					func(*wire.Result, error) {})
				pass(0)
				f.lead(1, 1, 1, 1)
				f.tell()
				pass(0)
				freed := make(chan error, 1)
				go func() { freed <- l.UnlockContext(context.Background()) }()
				pass(slowWay * 3 / 4) // the old leader takes its time
				at.ok(open)
				pass(time.Second)

				select {
				case err := <-freed:
					if err != nil {
						t.Errorf("Unlock of a client that is open: %v", err)
					}
				default:
					t.Error("Unlock goes on")
				}
				free := make(map[wire.ReleaseRequest]bool)
				for _, r := range back {
					for _, p := range r.req.Releases {
						if p.Mode == wire.ModeWrite || r.req.Target == by {
							free[p] = true
						}
					}
				}
				if len(free) != len(paths) {
					t.Errorf("of %d paths %d were released, by %d requests", len(paths), len(free), len(back))
				}
			})
		})
	}
}
