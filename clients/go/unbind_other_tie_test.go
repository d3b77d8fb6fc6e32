package pathlockd

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"
)

// TestAnUnbindLeavesAnotherTie: a lock is taken by the lane of the node that leads its group, whose connection the
// lease is tied to. Its owner is bound to the home lane's connection: the lease is tied to both, is renewed by the home
// lane as everything is, and the owner is unbound again. From then on the lease hangs on the first connection alone,
// until it is renewed by that. That connection breaks.
func TestAnUnbindLeavesAnotherTie(t *testing.T) {
	for name, refused := range map[string]bool{"renewed": false, "nothing is taken for a while": true} {
		t.Run(name, func(t *testing.T) { unbindLeavesAnotherTie(t, refused) })
	}
}

func unbindLeavesAnotherTie(t *testing.T, refused bool) {
	bubble(t, func(t *testing.T) {
		defer pass(2 * simSilent)
		w := tieTwice(t)
		must(t, w.c.Unbind(context.Background(), "o"))
		w.s.mu.Lock()
		w.s.refusing = refused
		w.s.mu.Unlock()
		pass(time.Second)
		must(t, w.l.Err())
		if w.breakFar(t) {
			if err := w.l.Err(); err == nil {
				t.Errorf("%s is nobody's, and counts as held for %v yet", in(1), time.Until(w.l.Deadline()))
			} else if !refused {
				t.Errorf("one of two connections broke, and the client has lost a lock: %v", err)
			}
		}
		w.s.mu.Lock()
		w.s.refusing = false
		w.s.mu.Unlock()
		w.end(t)
	})
}

// twoTies is a lock of owner o on in(1) whose lease hangs on two connections: that of the lane by which it was taken,
// to n1, and the home lane's, to n0, as its owner is bound. It was renewed since, by the home lane as everything is.
type twoTies struct {
	s *simServer
	p *simProxy // of c
	c *Client
	l *Lock
}

func tieTwice(t *testing.T, opts ...Option) *twoTies {
	t.Helper()
	ctx := context.Background()
	w := twoLanes(t, opts...)
	l, err := w.c.Lock(ctx, in(1), Owner("o"), TTL(5*time.Minute))
	mustLock(t, l, err)
	if w.l = l; l.in == &w.c.home.session {
		t.Fatal("it was asked at the home lane, and this shows nothing")
	}
	_, err = w.c.Bind(ctx, "o", w.c.opt.grace, 0)
	must(t, err)
	pass(105 * time.Second) // it is renewed at a third of its TTL
	must(t, l.Err())
	return w
}

// twoLanes is what there is before the lock is taken: a client with a lane to n1, which leads the group of in(1),
// beside its home lane, to n0.
func twoLanes(t *testing.T, opts ...Option) *twoTies {
	t.Helper()
	s := newSimServer(rand.New(rand.NewPCG(1, 1)), 2)
	s.rate = 1
	for _, n := range s.nodes {
		n.limits = simLimits
	}
	s.leaders = []string{"n0", "n1", "n0", "n0"}
	w := &twoTies{s: s, p: newSimProxy(s, "c", 2)}
	w.c = dial(t, "n0:1", append([]Option{WithDialer(w.p.dial), WithName("c")}, opts...)...)
	for range 3 { // it opens its lanes when it first has a use for them
		l, err := w.c.Lock(context.Background(), in(1)+"/warm")
		mustLock(t, l, err)
		must(t, l.Unlock())
		pass(time.Second)
	}
	return w
}

func (w *twoTies) client(t *testing.T, name string, seed uint64) *Client {
	return dial(t, "n0:1", WithDialer(newSimProxy(w.s, name, seed).dial), WithName(name))
}

// far is the connection that the lock was taken by.
func (w *twoTies) far(t *testing.T) *simConn {
	t.Helper()
	w.s.mu.Lock()
	var far []*simConn
	for one := range w.s.nodes[1].conns {
		if one.hello.Client == w.c.opt.name {
			far = append(far, one)
		}
	}
	w.s.mu.Unlock()
	if len(far) != 1 {
		t.Fatalf("%d connections to n1", len(far))
	}
	return far[0]
}

// breakFar ends that, which both sides see, and waits until the lock is nobody's at the servers. It says whether that
// came to pass.
func (w *twoTies) breakFar(t *testing.T) bool {
	t.Helper()
	w.far(t).stop()
	for range 450 {
		pass(100 * time.Millisecond)
		if !w.s.holds("o", Path{Path: in(1)}) {
			return true
		}
	}
	return false
}

// end gives everything back.
func (w *twoTies) end(t *testing.T, clients ...*Client) {
	t.Helper()
	_ = w.l.Unlock()
	for _, c := range append(clients, w.c) {
		must(t, c.Close())
	}
	for _, n := range w.s.nodes {
		n.crash()
	}
}
