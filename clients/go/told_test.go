package pathlockd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// telling is client, of a server that tells what happens to leases.
func (f *fake) telling(opts ...Option) (*Client, *peer) {
	f.t.Helper()
	first := make(chan *peer, 1)
	go func() { first <- f.tells() }()
	return dial(f.t, f.addr, append([]Option{WithDialer(f.dial), WithGrace(longGrace), WithKeepAlive(time.Hour)},
		opts...)...), <-first
}

// tells accepts a connection, and welcomes it as such a server.
func (f *fake) tells() *peer {
	f.t.Helper()
	p := f.accept()
	p.tells = wire.FeatureLeases
	p.welcome(testLimits)
	return p
}

// called is what an acquire that came on a connection is called.
func (p *peer) called(a *asked) uint64 {
	return wire.AcquireMark([wire.SessionBytes]byte(p.hello.Session), a.id)
}

// tell says that something happened to a lease.
func (p *peer) tell(kind wire.EventKind, owner string, marks ...uint64) {
	p.t.Helper()
	p.send(wire.AppendLeaseEvent(nil, &wire.LeaseEvent{Kind: kind, Owner: owner, Namespace: "a:/b", Acquires: marks}))
}

// taking takes a:/b/c and answers the mark of what took it.
func taking(t *testing.T, c *Client, p *peer, opts ...LockOption) (*Lock, uint64) {
	t.Helper()
	got := make(chan *Lock, 1)
	go func() {
		l, err := c.Lock(context.Background(), "a:/b/c", append([]LockOption{TTL(time.Hour)}, opts...)...)
		if err != nil {
			t.Error(err)
		}
		got <- l
	}()
	a := p.want(wire.OpAcquire)
	p.reply(a.id, wire.OpAcquire, granted(a.req))
	return <-got, p.called(a)
}

// TestToldOfALease: what the server says of a lease ends the locks that it names, and has the client ask about others;
// and no subscription is asked for.
func TestToldOfALease(t *testing.T) {
	for name, one := range map[string]struct {
		say     func(p *peer, owner string, mark uint64)
		lost    error
		revoked bool
		renews  bool
	}{
		"nothing": {say: func(*peer, string, uint64) {}},
		"killed": {say: func(p *peer, o string, m uint64) { p.tell(wire.EventKilled, o, 7, m) },
			lost: ErrKilled},
		"expired": {say: func(p *peer, o string, m uint64) { p.tell(wire.EventExpired, o, m) },
			lost: ErrExpired},
		"another is killed": {say: func(p *peer, o string, m uint64) { p.tell(wire.EventKilled, o, m+1) },
			renews: true},
		"killed, not by what": {say: func(p *peer, o string, _ uint64) { p.tell(wire.EventKilled, o) }, renews: true},
		"another owner's":     {say: func(p *peer, _ string, m uint64) { p.tell(wire.EventKilled, "else", m) }},
		"asked to let go": {say: func(p *peer, o string, m uint64) { p.tell(wire.EventRevoke, o, m) },
			revoked: true},
		"another is asked": {say: func(p *peer, o string, m uint64) { p.tell(wire.EventRevoke, o, m+1) }, renews: true},
		"some were missed": {say: func(p *peer, _ string, _ uint64) { p.tell(0, "") }, renews: true},
		"of a newer kind":  {say: func(p *peer, o string, m uint64) { p.tell(99, o, m) }, renews: true},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFake(t)
				c, p := f.telling()
				l, mark := taking(t, c, p)
				pass(10 * watchAfter)
				one.say(p, l.Owner(), mark)
				pass(0)
				if err := l.Err(); !errors.Is(err, one.lost) || (err == nil) != (one.lost == nil) {
					t.Fatalf("got %v, want %v", err, one.lost)
				}
				select {
				case <-l.Revoked():
					if !one.revoked {
						t.Error("it is asked to let go")
					}
				default:
					if one.revoked {
						t.Error("it is not asked to let go")
					}
				}
				if one.renews {
					p.ok(p.want(wire.OpRenew)) // and maybe another one, once the server has said what is held
					return
				}
				p.quiet(time.Minute)
			})
		})
	}
}

// TestToldLate: what is said late of a lock that was lost, and taken again by the same owner, does not end the later
// one.
func TestToldLate(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p := f.telling()
		owner := Owner("me")
		first, was := taking(t, c, p, owner)
		p.tell(wire.EventKilled, "me", was)
		pass(0)
		if err := first.Err(); !errors.Is(err, ErrKilled) {
			t.Fatal(err)
		}
		second, is := taking(t, c, p, owner)
		go p.serve(func(*asked) *wire.Result { return &wire.Result{} })
		p.tell(wire.EventKilled, "me", was)
		pass(time.Minute)
		must(t, second.Err())
		p.tell(wire.EventKilled, "me", is)
		pass(0)
		if err := second.Err(); !errors.Is(err, ErrKilled) {
			t.Fatal(err)
		}
	})
}

// TestToldEarly: what is said of an acquire before its answer is taken is not lost on its lock: it is asked about at
// once.
func TestToldEarly(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p := f.telling()
		got := make(chan *Lock, 1)
		go func() {
			l, _ := c.Lock(context.Background(), "a:/b/c", TTL(time.Hour))
			got <- l
		}()
		a := p.want(wire.OpAcquire)
		p.tell(wire.EventKilled, a.req.Owner, p.called(a))
		p.reply(a.id, wire.OpAcquire, granted(a.req))
		l := <-got
		r := p.want(wire.OpRenew)
		p.reply(r.id, wire.OpRenew, &wire.Result{Status: wire.RenewLost, Reason: wire.ReasonMissingAlive})
		pass(0)
		if err := l.Err(); !errors.Is(err, ErrKilled) {
			t.Fatal(err)
		}
	})
}

// TestToldOfWhatWasAskedTwice: an acquire that was asked again on a later connection may have been granted anew after
// what it got first was lost: what is said of it is a reason to ask.
func TestToldOfWhatWasAskedTwice(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p := f.telling()
		got := make(chan *Lock, 1)
		go func() {
			l, err := c.Lock(context.Background(), "a:/b/c", TTL(time.Hour))
			if err != nil {
				t.Error(err)
			}
			got <- l
		}()
		a := p.want(wire.OpAcquire)
		mark := p.called(a)
		p.Close()
		p = f.tells()
		go p.serve(func(a *asked) *wire.Result {
			if a.req.Op == wire.OpAcquire {
				return granted(a.req)
			}
			return &wire.Result{}
		})
		l := <-got
		p.tell(wire.EventKilled, l.Owner(), mark)
		pass(time.Minute)
		must(t, l.Err())
	})
}

// TestToldByNoOtherServer: on a connection to a server that does not tell, leases are watched as they were before.
func TestToldByNoOtherServer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p := f.telling()
		l, _ := taking(t, c, p)
		pass(10 * watchAfter)
		p.Close()
		p = f.open()
		subscribed := 0
		go p.serve(func(a *asked) *wire.Result {
			if a.req.Op == wire.OpSubscribe {
				subscribed++
				return &wire.Result{Count: 1, List: &wire.List{}}
			}
			return &wire.Result{}
		})
		pass(time.Minute)
		must(t, l.Err())
		if subscribed != 1 {
			t.Errorf("%d subscriptions, want one", subscribed)
		}
	})
}

// TestThousandLeases: a client hears at once what happens to each of a thousand locks, every one of another owner, and
// has no subscription for any.
func TestThousandLeases(t *testing.T) {
	t.Parallel()
	ctx := within(t, patience)
	c, other := dial(t, server(t)), dial(t, server(t))
	const many = 1000
	ns := path(t, "/a")
	asked := make(chan *Lock, many)
	locks := make([]*Lock, many)
	for i := range locks {
		l, err := c.Lock(ctx, fmt.Sprintf("%s/%d", ns, i), TTL(time.Hour), OnRevoke(func(l *Lock) { asked <- l }))
		locks[i] = mustLock(t, l, err)
	}
	began := time.Now()
	eventually(t, "they would be watched by now", func() bool { return time.Since(began) > watchAfter+watchAfter/2 })
	subscriptions := func() int {
		c.subs.mu.Lock()
		defer c.subs.mu.Unlock()
		return len(c.subs.mu.all)
	}
	if n := subscriptions(); n != 0 {
		t.Errorf("%d subscriptions", n)
	}
	for _, i := range []int{0, many / 2, many - 1} {
		must(t, other.RequestRevoke(ctx, locks[i].Owner()))
		select {
		case l := <-asked:
			if l != locks[i] {
				t.Errorf("another lock than %d is asked for", i)
			}
		case <-ctx.Done():
			t.Fatal("nobody is asked to let go")
		}
	}
	must(t, other.ForceRelease(ctx, locks[7].Owner(), ""))
	lostBy(t, locks[7], ErrKilled)
	must(t, locks[8].Err())
	must(t, other.SetNamespacePolicy(ctx, ns, wire.PointRW, ""))
	eventually(t, "all are lost", func() bool {
		return !slices.ContainsFunc(locks,
			func(l *Lock) bool { return l.Err() == nil })
	})
	for _, l := range locks {
		lostBy(t, l, ErrKilled)
	}
	if n := subscriptions(); n != 0 {
		t.Errorf("%d subscriptions", n)
	}
}

// TestToldBeforeItIsKept: what the server says while a lock is granted that is not kept yet is a reason to ask about
// it, as it is of one that is kept: that some may have been missed, that its owner is asked to let go, and that it was
// lost with very many others.
func TestToldBeforeItIsKept(t *testing.T) {
	for name, say := range map[string]func(p *peer, a *asked){
		"some were missed": func(p *peer, _ *asked) { p.tell(0, "") },
		"asked to let go":  func(p *peer, a *asked) { p.tell(wire.EventRevoke, a.req.Owner, p.called(a)) },
		"killed with others": func(p *peer, a *asked) {
			p.tell(wire.EventKilled, a.req.Owner, p.called(a))
			for i := range uint64(2 * unclaimed) {
				p.tell(wire.EventKilled, fmt.Sprint("other", i), i+1)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFake(t)
				c, p := f.telling()
				pass(time.Second)
				got := make(chan *Lock, 1)
				go func() {
					l, _ := c.Lock(context.Background(), "a:/b/c", TTL(time.Hour))
					got <- l
				}()
				a := p.want(wire.OpAcquire)
				pass(time.Millisecond)
				say(p, a)
				pass(time.Millisecond)
				p.reply(a.id, wire.OpAcquire, granted(a.req))
				l := <-got
				began := time.Now()
				p.ok(p.want(wire.OpRenew))
				if late := time.Since(began); late > askedWithin {
					t.Errorf("it is asked about %v later", late)
				}
				must(t, l.Err())
			})
		})
	}
}

// TestToldWhileItIsAsked: the answer to a renewal that was under way says nothing about what the server told meanwhile.
func TestToldWhileItIsAsked(t *testing.T) {
	for name, say := range map[string]func(p *peer, owner string, mark uint64){
		"another is killed": func(p *peer, owner string, mark uint64) { p.tell(wire.EventKilled, owner, mark+1) },
		"some were missed":  func(p *peer, _ string, _ uint64) { p.tell(0, "") },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFake(t)
				c, p := f.telling()
				l, mark := taking(t, c, p)
				pass(time.Hour / renewAt)
				under := p.want(wire.OpRenew)
				say(p, l.Owner(), mark)
				pass(time.Millisecond)
				began := time.Now()
				p.ok(under)
				p.ok(p.want(wire.OpRenew))
				if late := time.Since(began); late > askedWithin {
					t.Errorf("it is asked about %v later", late)
				}
			})
		})
	}
}
