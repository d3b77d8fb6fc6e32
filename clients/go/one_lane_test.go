package pathlockd

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/wire"
)

// engineCluster is the rules of package engine behind a fake cluster: what is tied to a connection ends with it.
type engineCluster struct {
	t     testing.TB
	f     *fakeCluster
	start time.Time

	mu     sync.Mutex
	state  *engine.State
	out    engine.Output
	routes *wire.Routes
	by     map[engine.Session]*peer
	waits  map[engine.Session][]uint64
	notes  []string
}

func newEngineCluster(t testing.TB, f *fakeCluster) *engineCluster {
	e := &engineCluster{
		t: t, f: f, start: time.Now(), state: engine.New(engine.DefaultConfig(), nil, nil),
		routes: wire.NewRoutes(1, 1, nil),
		by:     make(map[engine.Session]*peer), waits: make(map[engine.Session][]uint64),
	}
	f.serve, f.closed = e.serve, e.closed
	return e
}

func (e *engineCluster) tick() engine.Clock {
	now := time.Since(e.start).Milliseconds()
	at := engine.Clock{Now: now, Wall: 1 + now}
	for e.state.Expire(at, &e.out) {
	}
	return at
}

func (e *engineCluster) note(format string, args ...any) {
	e.notes = append(e.notes, fmt.Sprintf("%8.3fs ", time.Since(e.start).Seconds())+fmt.Sprintf(format, args...))
}

func (e *engineCluster) told() {
	for i := range e.out.Answers {
		a := &e.out.Answers[i]
		e.note("wait of request %d ends: %v %v", a.Caller.ID, a.Result.Code, a.Result.Status)
		if p := e.by[a.Caller.Session]; p != nil {
			frame := wire.AppendReply(nil, a.Caller.ID, wire.OpAcquire, &a.Result)
			go p.send(frame)
		}
	}
	e.out.Reset()
}

func (e *engineCluster) serve(p *peer, a *asked) *wire.Result {
	e.mu.Lock()
	defer e.mu.Unlock()
	at, req := e.tick(), a.req
	session := engine.Session(p.hello.Session)
	e.by[session] = p
	var res wire.Result
	switch req.Op {
	case wire.OpPing, wire.OpUnsubscribe:
		return &wire.Result{}
	case wire.OpSubscribe:
		return &wire.Result{Count: a.id, List: &wire.List{Positions: []wire.Position{{Log: 2, Index: 1}}}}
	case wire.OpListLocks:
		res = pageOwned(e.state, req, int(req.Page))
	case wire.OpCancel:
		e.state.Apply(at, &engine.Command{Req: &wire.Request{Op: wire.OpCancelWait, Target: req.Target},
			Caller: engine.Caller{Session: session, ID: a.id}, Epoch: p.hello.Epoch}, &e.out)
	default:
		ns := namespaceAsked(e.routes, req)
		if req.Op == wire.OpRenew && len(req.Domains) == 1 {
			ns = req.Domains[0]
		}
		res = e.state.Apply(at, &engine.Command{
			Req: req, NS: ns, Version: 1, Caller: engine.Caller{Session: session, ID: a.id}, Epoch: p.hello.Epoch,
			Bound: req.Flags&wire.FlagBind != 0, Grace: int64(p.hello.Grace),
		}, &e.out)
	}
	e.note("%s: request %d, %v of %q%s flags %v: %v %v", p.node, a.id, req.Op, req.Owner, about(req), req.Flags,
		res.Code, res.Status)
	e.told()
	if req.Op == wire.OpAcquire && req.Flags&wire.FlagWait != 0 && res.Status == wire.StatusQueued {
		e.waits[session] = append(e.waits[session], a.id)
		go p.send(wire.AppendQueued(nil, &wire.Queued{ID: a.id, Result: res}))
		return nil
	}
	return &res
}

func (e *engineCluster) closed(p *peer) {
	e.mu.Lock()
	defer e.mu.Unlock()
	at := e.tick()
	session := engine.Session(p.hello.Session)
	for _, id := range e.waits[session] {
		e.state.Apply(at, &engine.Command{
			Req:    &wire.Request{Op: wire.OpCancelWait, Target: id, GraceMillis: p.hello.Grace},
			Caller: engine.Caller{Session: session}, Epoch: p.hello.Epoch,
		}, &e.out)
	}
	e.state.Apply(at, &engine.Command{
		Req: &wire.Request{Op: wire.OpDetach}, Caller: engine.Caller{Session: session}, Epoch: p.hello.Epoch,
	}, &e.out)
	e.note("%s: connection %d of session %x closed", p.node, p.hello.Epoch, session[:2])
	e.told()
}

func (e *engineCluster) holds(owner, path string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.tick()
	return holdsPath(e.state, e.routes, owner, Path{Path: path})
}

func (e *engineCluster) other(req *wire.Request) wire.Result {
	e.mu.Lock()
	defer e.mu.Unlock()
	res := e.state.Apply(e.tick(), &engine.Command{Req: req, NS: namespaceAsked(e.routes, req), Version: 1}, &e.out)
	e.told()
	return res
}

// healthy fails if the path is not held for the whole span, during which nothing breaks.
func (e *engineCluster) healthy(owner, path string, span time.Duration) {
	e.t.Helper()
	for began := time.Now(); time.Since(began) < span; pass(time.Second) {
		if !e.holds(owner, path) {
			e.mu.Lock()
			defer e.mu.Unlock()
			n := max(0, len(e.notes)-20)
			e.t.Errorf("%v before its TTL is over %s does not hold %s any more; nothing broke\n%s",
				span-time.Since(began), owner, path, strings.Join(e.notes[n:], "\n"))
			return
		}
	}
}

func takesFor(owner, path string, ttl time.Duration, flags wire.Flags) *wire.Request {
	return &wire.Request{
		Op: wire.OpAcquire, Owner: owner, TTLMillis: millis(ttl), Flags: flags, Locks: []wire.LockRequest{{Path: path}},
	}
}

func startEngine(t *testing.T) (*fakeCluster, *engineCluster, *Client) {
	f := newFakeCluster(t, 2, 1, 0, 0, 0)
	e := newEngineCluster(t, f)
	c := f.client()
	f.warm(c)
	return f, e, c
}

func leadsElsewhere(f *fakeCluster) {
	f.lead(0, 0, 0, 0)
	f.tell()
	pass(time.Second)
}

func byN1(t *testing.T, f *fakeCluster) {
	if by := f.last(wire.OpAcquire); by.node != "n1" {
		t.Fatal("this shows nothing: it was taken by way of", by.node)
	}
}

// TestTiedLeaseRenewedWithoutTheFlag: the program ties a lease once, and renews it without flag 8, which does not untie
// it. The connection that it hangs on stays for as long as the lease.
func TestTiedLeaseRenewedWithoutTheFlag(t *testing.T) {
	for name, renews := range map[string]func(c *Client) error{
		"by Renew": func(c *Client) error {
			_, err := c.Renew(context.Background(), "me", 10*time.Minute, "", 0, namespaceOf(in(0)))
			return err
		},
		"by Acquire": func(c *Client) error {
			_, err := c.Acquire(context.Background(), takesFor("me", in(0), 10*time.Minute, wire.FlagNoQueue))
			return err
		},
		"by Renew with the flag": func(c *Client) error {
			_, err := c.Renew(context.Background(), "me", 10*time.Minute, "", wire.FlagBind, namespaceOf(in(0)))
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f, e, c := startEngine(t)
				_, err := c.Acquire(context.Background(),
					takesFor("me", in(0), 10*time.Minute, wire.FlagNoQueue|wire.FlagBind))
				must(t, err)
				leadsElsewhere(f)
				for range 3 {
					pass(200 * time.Second)
					if err := renews(c); err != nil {
						t.Fatal(err)
					}
				}
				e.healthy("me", in(0), 590*time.Second)
			})
		})
	}
}

// TestTiedPlaceIsPolled: an acquire with flag 8 keeps a place in the queue, without waiting, and is granted minutes
// later.
func TestTiedPlaceIsPolled(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f, e, c := startEngine(t)
		e.other(takesFor("rival", in(0), time.Hour, wire.FlagNoQueue))
		req := takesFor("me", in(0), 3*time.Minute, wire.FlagBind)
		req.QueueTTLMillis = millis(time.Hour)
		res, err := c.Acquire(context.Background(), req)
		must(t, err)
		if res.Status != wire.StatusQueued {
			t.Fatal("this shows nothing:", res.Status)
		}
		leadsElsewhere(f)
		pass(10 * time.Minute)
		e.other(&wire.Request{Op: wire.OpRelease, Owner: "rival", Releases: []wire.ReleaseRequest{{Path: in(0)}}})
		if !e.holds("me", in(0)) {
			t.Fatal("this shows nothing: it was not granted")
		}
		e.healthy("me", in(0), 179*time.Second)
	})
}

// TestTiedWaitOutlastsItsQueueTime: a wait with flag 8 and the default queue time (60 s) lasts longer than that by the
// client's clock, as its log has no leader for some minutes, in which the clock of leases and places stands.
func TestTiedWaitOutlastsItsQueueTime(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f, e, c := startEngine(t)
		e.other(takesFor("rival", in(0), time.Hour, wire.FlagNoQueue))
		req := takesFor("me", in(0), 10*time.Minute, wire.FlagBind|wire.FlagWait)
		done := make(chan error, 1)
		go func() {
			res, err := c.Acquire(context.Background(), req)
			if err == nil && res.Status != wire.StatusOK {
				err = fmt.Errorf("%v", res.Status)
			}
			done <- err
		}()
		pass(time.Second)
		leadsElsewhere(f)
		stood := 5 * time.Minute
		pass(stood)
		e.mu.Lock()
		e.start = e.start.Add(stood)
		e.mu.Unlock()
		e.other(&wire.Request{Op: wire.OpRelease, Owner: "rival", Releases: []wire.ReleaseRequest{{Path: in(0)}}})
		pass(time.Second)
		must(t, <-done)
		e.healthy("me", in(0), 590*time.Second)
	})
}

// TestProgramsPathInALocksLease: a Lock is taken in an owner's name, and the program takes another path itself, not
// tied, for an hour. That is in the Lock's lease, which the client has tied to its lane. Unlock gives back the Lock's
// path alone, and the lane stays. Nor does it matter which of the two the program did first.
func TestProgramsPathInALocksLease(t *testing.T) {
	own := strings.TrimSuffix(in(0), "x") + "y"
	ask := takesFor("me", own, time.Hour, wire.FlagNoQueue)
	locks := func(t *testing.T, c *Client) func() error {
		l, err := c.Lock(context.Background(), in(0), Owner("me"), TTL(time.Minute))
		mustLock(t, l, err)
		return l.Unlock
	}
	for name, one := range map[string]func(t *testing.T, f *fakeCluster, c *Client) (owner string){
		"the Lock first": func(t *testing.T, f *fakeCluster, c *Client) string {
			unlock := locks(t, c)
			byN1(t, f)
			_, err := c.Acquire(context.Background(), ask)
			must(t, err)
			must(t, unlock())
			return "me"
		},
		"the Lock first, and Go": func(t *testing.T, f *fakeCluster, c *Client) string {
			unlock := locks(t, c)
			byN1(t, f)
			c.Go(ask, nil)
			must(t, unlock())
			return "me"
		},
		"the request first": func(t *testing.T, f *fakeCluster, c *Client) string {
			_, err := c.Acquire(context.Background(), ask)
			must(t, err)
			byN1(t, f)
			must(t, locks(t, c)())
			return "me"
		},
		"in a Batch": func(t *testing.T, f *fakeCluster, c *Client) string {
			b := c.Batch()
			must(t, b.Add(ask, nil))
			must(t, b.Send(context.Background()))
			pass(time.Second)
			byN1(t, f)
			must(t, locks(t, c)())
			return "me"
		},
		"an owner that was made up, and told by a conflict": func(t *testing.T, f *fakeCluster, c *Client) string {
			l, err := c.Lock(context.Background(), in(0), TTL(time.Minute))
			mustLock(t, l, err)
			byN1(t, f)
			_, err = c.TryLock(context.Background(), in(0))
			var conflict *ConflictError
			if !errors.As(err, &conflict) {
				t.Fatal(err)
			}
			_, err = c.Acquire(context.Background(), takesFor(conflict.Owner, own, time.Hour, wire.FlagNoQueue))
			must(t, err)
			must(t, l.Unlock())
			return conflict.Owner
		},
		"an owner that was made up": func(t *testing.T, f *fakeCluster, c *Client) string {
			l, err := c.Lock(context.Background(), in(0), TTL(time.Minute))
			mustLock(t, l, err)
			byN1(t, f)
			_, err = c.Acquire(context.Background(), takesFor(l.Owner(), own, time.Hour, wire.FlagNoQueue))
			must(t, err)
			must(t, l.Unlock())
			return l.Owner()
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f, e, c := startEngine(t)
				owner := one(t, f, c)
				pass(time.Second)
				leadsElsewhere(f)
				e.healthy(owner, own, 59*time.Minute)
			})
		})
	}
}

// TestAllByHome: once the program has tied something to its session itself, all goes by the home lane.
func TestAllByHome(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f, _, c := startEngine(t)
		if by := f.goes(c, 0); by != "n1" {
			t.Fatal("this shows nothing:", by)
		}
		_, err := c.Acquire(context.Background(), takesFor("me", in(1), time.Minute, wire.FlagNoQueue|wire.FlagBind))
		must(t, err)
		for _, leader := range []int{1, 0, 1} {
			if by := f.goes(c, 0); by != "n0" {
				t.Errorf("it goes by %s", by)
			}
			f.lead(leader, 1, 0, 0)
			f.tell()
			pass(time.Second)
		}
	})
}

// TestOwnersApart: who takes locks in one owner's name and sends requests in another's has a lane to each leader.
func TestOwnersApart(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f, _, c := startEngine(t)
		names := 0
		unlike := func(s *ownerSet) (name string) { // two of so many names share a hash now and then
			for name == "" || s.has(maphash.String(ownersSeed, name)) {
				names++
				name = fmt.Sprint("owner ", names)
			}
			return name
		}
		for i := range 8 {
			l, err := c.TryLock(context.Background(), in(0), Owner(unlike(&c.used.requests)))
			mustLock(t, l, err)
			byN1(t, f)
			must(t, l.Unlock())
			_, err = c.Acquire(context.Background(), takesFor(unlike(&c.used.locks), fmt.Sprint(in(0), i), time.Hour,
				wire.FlagNoQueue))
			must(t, err)
			byN1(t, f)
		}
	})
}

// TestLanesDoNotPile: nothing is held at all: what was tied is released at once. The node is restarted once a minute.
func TestLanesDoNotPile(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f, _, c := startEngine(t)
		ctx := context.Background()
		for range 60 {
			_, err := c.Acquire(ctx, takesFor("me", in(0), 24*time.Hour, wire.FlagNoQueue|wire.FlagBind))
			must(t, err)
			must(t, c.Release(ctx, "me", []wire.ReleaseRequest{{Path: in(0)}}, false, ""))
			f.kill("n1")
			pass(30 * time.Second)
			f.revive("n1")
			f.lead(0, 0, 0, 0)
			f.tell()
			pass(30 * time.Second)
			f.lead(1, 0, 0, 0)
			f.tell()
			pass(time.Second)
			f.goes(c, 0)
			pass(time.Second)
		}
		pass(10 * time.Minute)
		if n := len(c.router.all()); n > 3 {
			t.Errorf("%d connections, though nothing is held or asked", n)
		}
	})
}

// TestUsedLaneIsClosedAtLast: a lane that looks idle is used for a moment, and then no more. It is closed a minute
// later.
func TestUsedLaneIsClosedAtLast(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f, _, c := startEngine(t)
		x, err := c.TryLock(context.Background(), in(1), TTL(2*time.Second)) // so that the keeper has many turns
		mustLock(t, x, err)
		leadsElsewhere(f)
		pass(20 * time.Second)
		f.lead(1, 0, 0, 0)
		f.tell()
		pass(2 * time.Millisecond)
		c.Go(takesFor("me", in(0), time.Second, wire.FlagNoQueue), nil)
		pass(2 * time.Millisecond)
		byN1(t, f)
		leadsElsewhere(f)
		pass(10 * time.Minute)
		if n := len(c.router.all()); n != 1 {
			t.Errorf("%d lanes", n)
		}
	})
}
