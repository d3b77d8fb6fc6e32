package pathlockd

import (
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// ownersServer is one owner's holds in one namespace at a server that keeps to the protocol.
type ownersServer struct {
	mu    sync.Mutex
	token int64
	held  map[string]wire.LockInfo
	lease time.Time // until when the owner's lease lasts
	slow  time.Duration
	busy  bool // it refuses renewals: too many writes of the group are under way
	cut   bool // nothing reaches it any more
}

func (s *ownersServer) serve(p *peer) {
	p.lists = true
	p.serve(func(a *asked) *wire.Result {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.cut {
			return nil
		}
		res, late := granted(a.req), time.Millisecond
		if !time.Now().Before(s.lease) {
			clear(s.held)
		}
		switch a.req.Op {
		case wire.OpAcquire:
			s.token++
			path := a.req.Locks[0].Path
			s.held[path] = wire.LockInfo{
				Owner: "me", Path: path, HasFence: true, Fence: s.token, SinceUnixMillis: time.Now().UnixMilli(),
			}
			s.until(a.req.TTLMillis)
			s.busy = s.token == 2
			res = &wire.Result{Token: s.token, Namespace: "a:/b"}
		case wire.OpRenew:
			if s.busy {
				res = &wire.Result{Code: wire.Unavailable, Message: "1024 requests of this group are under way"}
			} else if len(s.held) == 0 {
				res = &wire.Result{Status: wire.RenewLost, Reason: wire.ReasonMissingAlive}
			} else {
				s.until(a.req.TTLMillis)
			}
		case wire.OpListLocks:
			res = &wire.Result{Flag: true, Done: true, List: &wire.List{Infos: slices.Collect(maps.Values(s.held))}}
			late, s.slow = max(late, s.slow), 0
		case wire.OpSubscribe:
			late = 10 * time.Millisecond
		}
		time.AfterFunc(late, func() { p.reply(a.id, a.req.Op, res) })
		return nil
	})
}

func (s *ownersServer) until(ttl uint64) {
	if at := time.Now().Add(time.Duration(ttl) * time.Millisecond); at.After(s.lease) {
		s.lease = at
	}
}

func (s *ownersServer) with(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// TestSureOfAnEarlierLease: "me" is named by the program. A lock of an hour is given back by another client of the
// owner (nobody is told), whose lease so ends, right after the connection was made anew, while the look for that is
// under way; and a second lock, of 3 s, is taken then: in a new lease of 3 s. The look tells that the first lock is
// gone. The second one must be believed in for no longer than its own lease lasts.
func TestSureOfAnEarlierLease(t *testing.T) {
	for _, how := range []string{"reconnect", "two gaps"} {
		t.Run(how, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := &ownersServer{held: make(map[string]wire.LockInfo)}
				f := newFake(t)
				c, p := f.telling(WithGrace(DefaultGrace), WithKeepAlive(DefaultKeepAlive))
				go s.serve(p)
				over := t.Context().Done()
				go func() {
					for {
						select {
						case q := <-f.conns:
							dead := false
							s.with(func() { dead = s.cut })
							if dead {
								q.Close()
								continue
							}
							q.tells = wire.FeatureLeases
							q.welcome(testLimits)
							go s.serve(q)
						case <-over:
							return
						}
					}
				}()
				first, err := c.TryLock(t.Context(), "a:/b/c", Owner("me"), TTL(time.Hour))
				mustLock(t, first, err)
				pass(5 * time.Second)
				if !first.lease.watched {
					t.Fatal("not watched")
				}
				s.with(func() { s.slow = 500 * time.Millisecond }) // the next look
				if how == "reconnect" {
					p.Close()
					pass(150 * time.Millisecond)
				} else {
					p.send(wire.AppendProgress(nil, wire.PushGap, &wire.Progress{Subscription: 1}))
					pass(20 * time.Millisecond)
					p.send(wire.AppendProgress(nil, wire.PushGap, &wire.Progress{Subscription: 1}))
					pass(20 * time.Millisecond)
				}
				s.with(func() { // another client of "me" gives it back: that was all "me" had
					clear(s.held)
					s.lease = time.Now()
				})
				second, err := c.TryLock(t.Context(), "a:/b/d", Owner("me"), TTL(3*time.Second))
				mustLock(t, second, err)
				pass(600 * time.Millisecond)
				s.with(func() { s.busy = false })
				pass(2 * time.Second)
				if first.Err() == nil {
					t.Fatal("the first lock is believed in")
				}
				if err := second.Err(); err != nil {
					t.Fatal(err)
				}
				var lease time.Time
				s.with(func() { lease, s.cut = s.lease, true }) // the way to the servers is lost
				for second.Err() == nil {
					pass(10 * time.Millisecond)
				}
				s.with(func() { lease = s.lease })
				if late := time.Since(lease); late > 0 {
					t.Errorf("it is believed in for %v after its lease was over at the server", late)
				}
			})
		})
	}
}
