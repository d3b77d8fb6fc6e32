package pathlockd

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"time"
)

// TestAnUnbindIsLeft: TestAnUnbindLeavesAnotherTie, but that the Unbind takes a second (an acquire of its owner in
// another namespace is ahead of it, or a log has no leader for the moment), and its caller does not wait for so long: it
// is told that nobody knows (ErrOutcomeUnknown). The client renews the lease by the home lane at once, which is answered
// before the Unbind is carried out: "nothing else is ordered" (PROTOCOL.md, Order). From then on the lease hangs on the
// connection of the other lane alone, and the client counts it as tied to the home lane's.
func TestAnUnbindIsLeft(t *testing.T) {
	bubble(t, func(t *testing.T) {
		defer pass(2 * simSilent)
		ctx := context.Background()
		s := newSimServer(rand.New(rand.NewPCG(1, 1)), 2)
		s.rate = 1
		for _, n := range s.nodes {
			n.limits = simLimits
		}
		s.leaders = []string{"n0", "n1", "n0", "n0"}
		client := func(name string, seed uint64) *Client {
			p := &simProxy{s: s, name: name, rnd: rand.New(rand.NewPCG(seed, seed)), mute: make(map[string]bool), links: make(map[*simLink]struct{})}
			return dial(t, "n0:1", WithDialer(p.dial), WithName(name))
		}
		c, other := client("c", 2), client("other", 3)
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
		s.mu.Lock()
		s.unbinds = time.Second
		s.mu.Unlock()
		short, leave := context.WithTimeout(ctx, 500*time.Millisecond)
		defer leave()
		if err := c.Unbind(short, "o"); !errors.Is(err, ErrOutcomeUnknown) {
			t.Fatal(err)
		}
		pass(5 * time.Second)
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
			theirs, err := other.TryLock(ctx, in(1))
			mustLock(t, theirs, err)
			if l.Err() == nil {
				t.Errorf("two hold %s: one of them for %v yet, the other under token %d", in(1), time.Until(l.Deadline()), theirs.Token())
			} else {
				t.Errorf("one of two connections broke, and the client has lost a lock: %v", l.Err())
			}
			must(t, theirs.Unlock())
			break
		}
		_ = l.Unlock()
		must(t, c.Close())
		must(t, other.Close())
		for _, n := range s.nodes {
			n.crash()
		}
	})
}
