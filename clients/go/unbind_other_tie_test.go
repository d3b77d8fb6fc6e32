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
		ctx := context.Background()
		s := newSimServer(rand.New(rand.NewPCG(1, 1)), 2)
		s.rate = 1
		for _, n := range s.nodes {
			n.limits = simLimits
		}
		s.leaders = []string{"n0", "n1", "n0", "n0"}
		p := &simProxy{
			s: s, name: "c", rnd: rand.New(rand.NewPCG(2, 2)), mute: make(map[string]bool), links: make(map[*simLink]struct{}),
		}
		c := dial(t, "n0:1", WithDialer(p.dial), WithName("c"))
		for range 3 { // it opens its lanes when it first has a use for them
			l, err := c.Lock(ctx, in(1)+"/warm")
			mustLock(t, l, err)
			must(t, l.Unlock())
			pass(time.Second)
		}
		l, err := c.Lock(ctx, in(1), Owner("o"), TTL(5*time.Minute))
		mustLock(t, l, err)
		if l.in == &c.home.session {
			t.Fatal("it was asked at the home lane, and this shows nothing")
		}
		_, err = c.Bind(ctx, "o", DefaultGrace, 0)
		must(t, err)
		pass(105 * time.Second) // it is renewed at a third of its TTL
		must(t, l.Err())
		must(t, c.Unbind(ctx, "o"))
		s.mu.Lock()
		s.refusing = refused
		s.mu.Unlock()
		pass(time.Second)
		must(t, l.Err())
		s.mu.Lock()
		var far []*simConn
		for one := range s.nodes[1].conns {
			if one.hello.Client == c.opt.name {
				far = append(far, one)
			}
		}
		s.mu.Unlock()
		if len(far) != 1 {
			t.Fatalf("%d connections to n1", len(far))
		}
		far[0].stop() // both sides see that
		t.Logf("unbound: the lock counts as held for %v more", time.Until(l.Deadline()))
		pass(5 * time.Second)
		s.mu.Lock()
		t.Logf("%d connections to n1, %q", len(s.nodes[1].conns), s.notes[max(0, len(s.notes)-12):])
		s.mu.Unlock()
		for range 400 {
			pass(100 * time.Millisecond)
			if s.holds("o", Path{Path: in(1)}) {
				continue
			}
			if err := l.Err(); err == nil {
				t.Errorf("%s is nobody's, and counts as held for %v yet", in(1), time.Until(l.Deadline()))
			} else if !refused {
				t.Errorf("one of two connections broke, and the client has lost a lock: %v", err)
			}
			break
		}
		s.mu.Lock()
		s.refusing = false
		s.mu.Unlock()
		_ = l.Unlock()
		must(t, c.Close())
		for _, n := range s.nodes {
			n.crash()
		}
	})
}
