package pathlockd

import (
	"context"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// farConn is a connection of which what comes is so late.
type farConn struct {
	net.Conn
	late time.Duration
	came chan farBytes
	rest []byte
}

type farBytes struct {
	b  []byte
	at time.Time
}

// far is a dialer of such connections.
func far(late time.Duration) func(ctx context.Context, network, addr string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		nc, err := new(net.Dialer).DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		c := &farConn{Conn: nc, late: late, came: make(chan farBytes, 1<<16)}
		go func() {
			defer close(c.came)
			for {
				b := make([]byte, 4096)
				n, err := nc.Read(b)
				if n == 0 && err != nil {
					return
				}
				c.came <- farBytes{b[:n], time.Now().Add(late)}
			}
		}()
		return c, nil
	}
}

func (c *farConn) Read(b []byte) (int, error) {
	if len(c.rest) == 0 {
		next, ok := <-c.came
		if !ok {
			return 0, io.EOF
		}
		time.Sleep(time.Until(next.at))
		c.rest = next.b
	}
	n := copy(b, c.rest)
	c.rest = c.rest[n:]
	return n, nil
}

// TestAskedToLetGoOften: somebody asks an owner to let go again and again, more often than the way to the server is
// long. The owner has more locks than a push names. It need not let go, every renewal is carried out and answered,
// and the server holds all of it.
func TestAskedToLetGoOften(t *testing.T) {
	for name, every := range map[string]time.Duration{"never": 0, "often": 50 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			ctx := within(t, patience)
			c, other := dial(t, server(t), WithDialer(far(200*time.Millisecond)), WithGrace(patience)),
				dial(t, server(t))
			const ttl = 3 * time.Second
			locks := make([]*Lock, wire.MaxLeaseAcquires+1)
			got := make(chan error, len(locks))
			for i := range locks {
				go func() {
					l, err := c.Lock(ctx, path(t, fmt.Sprintf("/a/%d", i)), Owner("me"), TTL(ttl))
					locks[i] = l
					got <- err
				}()
			}
			for range locks {
				must(t, <-got)
			}
			for end := time.Now().Add(2 * ttl); time.Now().Before(end); time.Sleep(max(every, 10*time.Millisecond)) {
				if every > 0 {
					must(t, other.RequestRevoke(ctx, "me"))
				}
				for i, l := range locks {
					if err := l.Err(); err != nil {
						t.Fatalf("%v before the end: %v; the server says that %q holds it", time.Until(end), err,
							ownerOf(t, other, path(t, fmt.Sprintf("/a/%d", i))))
					}
				}
			}
		})
	}
}

// TestHintsOften: that the client may have missed something, or that something it does not know was lost, is a hint:
// however often it is told, a lock lasts whose renewals are all answered. The way is 200 ms long.
func TestHintsOften(t *testing.T) {
	for name, say := range map[string]func(p *peer, l *Lock, mark uint64){
		"nothing":            func(*peer, *Lock, uint64) {},
		"some may be missed": func(p *peer, _ *Lock, _ uint64) { p.tell(0, "") },
		"others are asked":   func(p *peer, l *Lock, mark uint64) { p.tell(wire.EventRevoke, l.Owner(), mark+1) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFake(t)
				c, p := f.telling()
				got := make(chan *Lock, 1)
				go func() {
					l, err := c.Lock(context.Background(), "a:/b/c", TTL(30*time.Second))
					if err != nil {
						t.Error(err)
					}
					got <- l
				}()
				a := p.want(wire.OpAcquire)
				p.reply(a.id, wire.OpAcquire, granted(a.req))
				l := <-got
				go p.serve(func(a *asked) *wire.Result {
					time.AfterFunc(200*time.Millisecond, func() { p.ok(a) })
					return nil
				})
				for range 60 * 10 {
					say(p, l, p.called(a))
					pass(100 * time.Millisecond)
					if err := l.Err(); err != nil {
						t.Fatal(err)
					}
				}
			})
		})
	}
}
