package pathlockd

import (
	"context"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestABindForNothingCostsOthers: the way to the server and back takes 80 ms (or 350), always, and nothing is wrong. A
// program holds a lock with the default grace of 15 s, and binds another owner with a grace of 0 (which PROTOCOL.md and
// Bind take: what it has is to be free as soon as the connection ends). That owner holds nothing.
func TestABindForNothingCostsOthers(t *testing.T) {
	for name, tc := range map[string]struct {
		bind  bool
		grace time.Duration
		way   time.Duration // in one direction
	}{
		"not bound":                       {way: 40 * time.Millisecond},
		"bound for 0":                     {true, 0, 40 * time.Millisecond},
		"bound for 100 ms":                {true, 100 * time.Millisecond, 40 * time.Millisecond},
		"bound for a second":              {true, time.Second, 40 * time.Millisecond},
		"bound for a second on a far way": {true, time.Second, 175 * time.Millisecond},
		"not bound, on a far way":         {way: 175 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				defer pass(2 * simSilent)
				ctx := context.Background()
				s, p := aNode()
				p.late(tc.way)
				c := dial(t, "n0:1", WithDialer(p.dial), WithName("c"))
				l, err := c.Lock(ctx, "a:/0/x", TTL(5*time.Minute))
				mustLock(t, l, err)
				if tc.bind {
					_, err := c.Bind(ctx, "other", tc.grace, 0)
					must(t, err)
				}
				pass(time.Minute)
				s.mu.Lock()
				var sess *simSession
				for _, one := range s.sessions {
					sess = one
				}
				epoch := sess.epoch
				for one := range s.nodes[0].conns {
					epoch = max(epoch, one.epoch)
				}
				s.mu.Unlock()
				if epoch > 1 {
					t.Errorf("nothing is wrong, and the client has made %d connections in a minute", epoch)
				}
				if err := l.Err(); err != nil {
					t.Errorf("nothing is wrong, and a lock with a grace of %v and a TTL of 5 min is lost: %v",
						DefaultGrace, err)
				}
				short, cancel := context.WithTimeout(ctx, 5*time.Second)
				defer cancel()
				other, err := c.TryLock(short, "a:/1/x")
				if err != nil {
					t.Errorf("nothing is wrong, and the client gets no lock in 5 s: %v", err)
				} else {
					_ = other.Unlock()
				}
				_ = l.Unlock()
				must(t, c.Close())
				s.nodes[0].crash()
			})
		})
	}
}

// TestAHiccupEndsWhatABindTies: on a fast way, a server that is slow once for 150 ms (a pause, an fsync). An owner that
// is bound with a grace of 0 has a lease of an hour, taken by Acquire. The client gives its connection up, of which
// nothing was wrong, and that ends the lease.
func TestAHiccupEndsWhatABindTies(t *testing.T) {
	bubble(t, func(t *testing.T) {
		defer pass(2 * simSilent)
		ctx := context.Background()
		s, p := aNode()
		c := dial(t, "n0:1", WithDialer(p.dial), WithName("c"))
		_, err := c.Bind(ctx, "job", 0, 0)
		must(t, err)
		res, err := c.Acquire(ctx, acquireFor("job", "a:/1/x", time.Hour))
		must(t, err)
		if res.Status != 0 {
			t.Fatal(res.Status)
		}
		l, err := c.Lock(ctx, "a:/0/x", TTL(5*time.Minute))
		mustLock(t, l, err)
		pass(10 * time.Second)
		if !s.holds("job", Path{Path: "a:/1/x"}) {
			t.Fatal("it is lost before")
		}
		p.late(75 * time.Millisecond)
		pass(150 * time.Millisecond)
		p.late(0)
		pass(5 * time.Second)
		if !s.holds("job", Path{Path: "a:/1/x"}) {
			t.Errorf("no connection broke, and the client has ended the lease of an hour of an owner that it binds")
		}
		_ = l.Unlock()
		must(t, c.Close())
		s.nodes[0].crash()
	})
}

func acquireFor(owner, path string, ttl time.Duration) *wire.Request {
	return &wire.Request{Owner: owner, TTLMillis: millis(ttl), Locks: []wire.LockRequest{{Path: path}}}
}
