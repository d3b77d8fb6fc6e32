package pathlockd

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestCloseGivesBack: what is held is released and what is waited for cancelled, after
// nobody believes in it any more.
func TestCloseGivesBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p := f.client()
		l := lockWith(t, c, p, Owner("o"))
		work := l.Context()
		failed := make(chan error, 1)
		go func() {
			_, err := c.Lock(context.Background(), "a:/b/d", Owner("p"))
			failed <- err
		}()
		wait := p.want(wire.OpAcquire)
		closed := make(chan struct{})
		began := time.Now()
		go func() {
			c.Close()
			close(closed)
		}()
		cancelled, released := false, false
		for !cancelled || !released {
			a := p.next()
			switch a.req.Op {
			case wire.OpCancel:
				cancelled = a.req.Target == wait.id
				p.refuse(wait, wire.Cancelled)
			case wire.OpRelease:
				released = a.req.Owner == "o" && len(a.req.Releases) == 1 && a.req.Releases[0].Path == "a:/b/c"
				if work.Err() == nil || l.Err() == nil {
					t.Error("it is given back, and believed in")
				}
			default:
				t.Fatalf("the fake server got %v", a.req.Op)
			}
			p.ok(a)
		}
		go p.serve(func(*asked) *wire.Result { return nil })
		<-closed
		if d := time.Since(began); d > 10*time.Millisecond {
			t.Errorf("Close took %v", d)
		}
		if err := <-failed; !errors.Is(err, ErrClosed) {
			t.Errorf("who waits got %v", err)
		}
		if err := context.Cause(work); !errors.Is(err, ErrClosed) || !IsLost(err) {
			t.Errorf("cause: %v", err)
		}
	})
}

// TestCloseDoesNotWaitForTheDeaf: a server that answers nothing holds Close up for a
// moment, one that is not there not at all.
func TestCloseDoesNotWaitForTheDeaf(t *testing.T) {
	for name, want := range map[string]time.Duration{"deaf": closeWithin, "gone": 0} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFake(t)
				c, p, way := onLine(f)
				lockWith(t, c, p)
				go p.serve(func(*asked) *wire.Result { return nil })
				if name == "gone" {
					way.cut(errUnreachable)
					pass(0)
				}
				began := time.Now()
				must(t, c.Close())
				if d := time.Since(began); d != want {
					t.Fatalf("Close took %v, want %v", d, want)
				}
			})
		})
	}
}

// TestCloseAtADrainingNode: a release that is refused as surely not done is asked again, and of
// another server when that one goes, or goes on refusing.
func TestCloseAtADrainingNode(t *testing.T) {
	for name, goodbye := range map[string]bool{"that goes": true, "that stays": false} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFake(t)
				f.addr = "fake:1,fake:2"
				c, p := f.client()
				l := lockWith(t, c, p, TTL(time.Hour))
				released := make(chan *asked, 1)
				f.serveNext(func(a *asked) *wire.Result {
					if a.req.Op == wire.OpRelease {
						released <- a
					}
					return granted(a.req)
				})
				closed := make(chan struct{})
				began := time.Now()
				go func() {
					_ = c.Close()
					close(closed)
				}()
				refused := p.want(wire.OpRelease)
				p.refuse(refused, wire.Unavailable)
				if goodbye {
					p.send(wire.AppendGoodbye(nil, wire.Errorf(wire.Unavailable, "the node is shutting down")))
					p.Close()
				} else {
					go p.serve(func(*asked) *wire.Result {
						return &wire.Result{Code: wire.Unavailable,
							Message: "it drains"}
					})
				}
				<-closed
				if d := time.Since(began); d >= closeWithin {
					t.Errorf("Close took %v", d)
				}
				select {
				case a := <-released:
					if a.id == refused.id || a.req.Owner != l.Owner() || a.req.Token != l.Token() {
						t.Errorf("asked as %d after %d: %+v", a.id, refused.id, a.req)
					}
				default:
					t.Error("nobody gives the lock back")
				}
			})
		})
	}
}

// TestASuspensionCounts: what the machine slept through is gone of every lease.
func TestASuspensionCounts(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		var slept atomic.Int64
		c, p := f.client(withClock(func() time.Duration { return bubbleClock() + time.Duration(slept.Load()) }))
		p.serveAll()
		take := func() *Lock {
			l, err := c.Lock(context.Background(), "a:/b/c")
			return mustLock(t, l, err)
		}
		l := take()
		slept.Add(int64(time.Hour))
		if err := l.Err(); !errors.Is(err, ErrUncertain) {
			t.Fatalf("after the machine slept for an hour: %v", err)
		}
		l = take()
		work := l.Context()
		slept.Add(int64(time.Hour))
		pass(lookEvery + time.Millisecond) // nobody asks
		if err := context.Cause(work); !errors.Is(err, ErrUncertain) {
			t.Fatalf("a second after the machine slept for an hour: %v", err)
		}
	})
}

// TestALockThatTimesOutSaysSo, whoever notices first, and that it does not matter what
// became of its requests.
func TestALockThatTimesOutSaysSo(t *testing.T) {
	const limit = 100 * time.Millisecond
	for name, answer := range map[string]func(p *peer, a *asked){
		"as the server": func(p *peer, a *asked) {
			if a.req.Op == wire.OpAcquire {
				time.Sleep(limit) // by the bubble's clock
				p.refuse(a, wire.DeadlineExceeded)
			}
		},
		"as nobody leads": func(p *peer, a *asked) {
			if a.req.Op == wire.OpAcquire {
				p.refuse(a, wire.Unavailable)
			}
		},
		"as its lease is confirmed": func(p *peer, a *asked) {
			if a.req.Op == wire.OpAcquire {
				time.Sleep(limit / 2)
				p.ok(a)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			for range 20 { // who is first is drawn
				bubble(t, func(t *testing.T) {
					f := newFake(t)
					c, p := f.client()
					go func() {
						for {
							a, err := p.read()
							if err != nil {
								return
							}
							answer(p, a)
						}
					}()
					ctx, cancel := context.WithTimeout(context.Background(), limit)
					defer cancel()
					_, err := c.Lock(ctx, "a:/b/c", TTL(minTTL))
					if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrOutcomeUnknown) {
						t.Fatalf("got %v", err)
					}
				})
			}
		})
	}
}

// TestMadeUpOwnersAreTheirClients: 128 random bits tell them from those of others.
func TestMadeUpOwnersAreTheirClients(t *testing.T) {
	random := func() string {
		all := strings.Split(ownerPrefix(), "-")
		return all[len(all)-2]
	}
	const many = 400_000 // of 32 bits, some twenty would be alike
	seen := make(map[string]bool, many)
	for range many {
		s := random()
		if seen[s] || len(s) != 32 {
			t.Fatalf("%q after %d others", s, len(seen))
		}
		seen[s] = true
	}
}
