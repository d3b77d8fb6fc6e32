package groups

import (
	"bytes"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// slowWay is one end of a connection between two nodes on which frames take a while, in order.
type slowWay struct {
	own   *Node
	other *slowWay
	in    chan slowFrame
}

type slowFrame struct {
	at    time.Time
	frame []byte
}

func (w *slowWay) Send(frame []byte) bool {
	w.other.in <- slowFrame{time.Now(), bytes.Clone(frame)}
	return true
}

func (w *slowWay) Unsent() int { return 0 }
func (w *slowWay) Close(error) {}

// slows has all that a node forwards to another one take so long each way.
func slows(t *testing.T, n, to *Node, takes time.Duration) {
	var wait sync.WaitGroup
	over := make(chan struct{})
	near := &slowWay{own: n, in: make(chan slowFrame, 10_000)}
	far := &slowWay{own: to, other: near, in: make(chan slowFrame, 10_000)}
	near.other = far
	for _, end := range []*slowWay{near, far} {
		wait.Go(func() {
			for {
				select {
				case f := <-end.in:
					time.Sleep(time.Until(f.at.Add(takes)))
					end.own.forwarded(end, end.other.own.id.HostID, f.frame)
				case <-over:
					return
				}
			}
		})
	}
	dial := func(host string) peerConn {
		if host != to.id.HostID {
			return nil
		}
		return near
	}
	n.forwards.dial.Store(&dial)
	t.Cleanup(func() { close(over); wait.Wait() })
}

// TestRoundsEndWithTheirCall: a node takes one request of a group at a time (max_inflight_per_group), so a keyed
// release of paths in many namespaces of one group goes in rounds, each of which takes as long as the way to the
// leader. It ends with its time, and does not go on until the time of its parts' keys is over, when it would carry them
// out anew. When it is asked again at the leader's node, which answers OK soon, the first call is answered as soon.
func TestRoundsEndWithTheirCall(t *testing.T) {
	const (
		kept    = 6 * time.Second
		timeout = 2400 * time.Millisecond // as 120 s are to 300 s, the most that the configuration takes
		many    = 40
	)
	for name, again := range map[string]bool{"alone": false, "asked again": true} {
		t.Run(name, func(t *testing.T) {
			f := apart(t, func(i int, c *Config) {
				c.RequestTimeout = timeout
				if i == 0 {
					keysFor(int(kept.Milliseconds()))(c)
				} else {
					c.MaxInflight = 1
				}
			})
			n := f.nodes[0]
			near, far := f.rigOn(0), f.rigOn(1)
			group := n.groupOf("h:/a")
			req := &wire.Request{Op: wire.OpRelease, Owner: "o", Key: "k"}
			for i := 0; len(req.Releases) < many; i++ {
				if ns := fmt.Sprint("h:/s", i); n.groupOf(ns) == group {
					req.Releases = append(req.Releases, wire.ReleaseRequest{Path: ns + "/x"})
				}
			}
			for wire.HomeOf(req.Key, n.cfg.GroupCount) == group {
				req.Key += "k"
			}
			first, last := req.Releases[0].Path, req.Releases[many-1].Path
			other := near.session()
			other.must(write("o", first, time.Hour))
			other.must(write("o", last, time.Hour))
			slows(t, f.nodes[1], n, 75*time.Millisecond)

			began, want := time.Now(), wire.DeadlineExceeded
			slow := far.session().start(far.next.Add(1), req)
			eventually(t, "its first part is carried out", func() bool { return other.inspect(first).Owner == "" })
			if again {
				want = wire.OK
				quick := near.session().start(near.next.Add(1), req)
				if res := quick.get(t, "the quick one"); res.Code != wire.OK {
					t.Fatalf("the quick one is answered %v %s", res.Code, res.Message)
				}
				other.must(write("o", last, time.Hour))
			}
			res := slow.get(t, "the slow one")
			if d := time.Since(began); res.Code != want || d > timeout+time.Second {
				t.Errorf("the slow one is answered %v %s after %v", res.Code, res.Message, d)
			}
			if owner := other.inspect(last).Owner; owner != "o" {
				t.Errorf("what is behind its time or another's OK was taken away: held by %q", owner)
			}
		})
	}
}

// TestRepeatsOnASlowWay: a client asks a node whose way to the leaders takes 0.2 s for a keyed release_all of what an
// owner holds in several groups, and asks again with the key every so often, much sooner than that takes. It is
// answered all the same.
func TestRepeatsOnASlowWay(t *testing.T) {
	f := apart(t, func(_ int, c *Config) { c.RequestTimeout = 30 * time.Second })
	near, far := f.rigOn(0), f.rigOn(1)
	other := near.session()
	for _, ns := range near.apart("h", 4) {
		other.must(write("o", ns+"/x", time.Hour))
	}
	slows(t, f.nodes[1], f.nodes[0], 200*time.Millisecond)
	answered := make(chan wire.Result, 100)
	ask := func() {
		o := far.session().start(far.next.Add(1), &wire.Request{Op: wire.OpReleaseAll, Owner: "o", Key: "k"})
		go func() { answered <- <-o.done }()
	}
	began := time.Now()
	again := time.NewTicker(300 * time.Millisecond)
	defer again.Stop()
	for ask(); ; {
		select {
		case <-again.C:
			if time.Since(began) > 15*time.Second {
				t.Fatal("nobody is answered OK for 15 s")
			}
			ask()
		case res := <-answered:
			if res.Code != wire.OK {
				t.Fatalf("%v %s", res.Code, res.Message)
			}
			return
		}
	}
}

// TestAttemptByOlderRoutes: a keyed request of two paths (or domains) is asked at a node that forwards, whose way to
// the log of the key stands still: it has resolved the paths by then. One of the paths comes to a namespace of its own.
// The request is asked again at another node, which claims it first, and is slow behind its claim. The forwarded claim
// comes. It is a later attempt, and must not leave the path out, as the routes of before the move would have it: what
// the owner takes there after its answer stays.
func TestAttemptByOlderRoutes(t *testing.T) {
	for _, op := range []wire.Op{wire.OpRelease, wire.OpReleaseAll} {
		t.Run(op.String(), func(t *testing.T) {
			h, clock := newHeldCall(), &testClock{start: time.Now()}
			f := apart(t, func(i int, c *Config) {
				if c.Clock = clock; i == 0 {
					briefKeys(c)
					c.stated = nil // keys are kept for 300 s
					c.seams.claimed = h.claimed
				}
			})
			near, far := f.rigOn(0), f.rigOn(1)
			n := f.nodes[0]
			group := n.groupOf("h:/a")
			nested := firstName("h:/a/b%d", func(ns string) bool { return n.groupOf(ns) != group })
			there := n.groupOf(nested)
			beside := firstName("g:/s%d", func(ns string) bool { return n.groupOf(ns) == there })
			third := firstName("g:/f%d", func(ns string) bool {
				return n.groupOf(ns) != group &&
					n.groupOf(ns) != there
			})
			x, y := nested+"/x", third+"/y"
			req := &wire.Request{Op: op, Owner: "o", Key: "k"}
			if op == wire.OpRelease {
				req.Releases = []wire.ReleaseRequest{{Path: x}, {Path: y}}
			} else {
				req.Domains = []string{nested, third}
			}
			other := near.session()
			other.must(write("o", beside+"/z", time.Hour))
			other.must(write("o", y, time.Hour))

			l := f.nodes[1].logOf(wire.HomeOf("k", n.cfg.GroupCount))
			l.drive.Lock() // its way to the leader stands still
			forwarded := far.session().start(far.next.Add(1), req)
			queues(t, "its claim is queued", l)
			other.must(setPolicy(nested, wire.RecursiveRW))
			slow := h.holds(func() *outcome { return near.session().start(near.next.Add(1), req) })
			clock.hurry(600 * time.Millisecond) // the turn of its attempt is over
			l.drive.Unlock()
			l.kick()
			if res := forwarded.get(t, "the forwarded one"); res.Code != wire.OK {
				t.Fatalf("the forwarded one is answered %v %s", res.Code, res.Message)
			}
			other.must(write("o", x, time.Hour))
			close(h.goOn)
			res := slow.get(t, "the slow one")
			if owner := other.inspect(x).Owner; owner != "o" || res.Code != wire.OK {
				t.Errorf("the slow one is answered %v %s, and %s is held by %q", res.Code, res.Message, x, owner)
			}
		})
	}
}
