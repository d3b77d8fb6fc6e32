package pathlockd

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

func listsOf(i int) *wire.Request {
	return &wire.Request{Op: wire.OpListLocks, Owner: fmt.Sprint("o", i), Domains: []string{"a:/b"}}
}

// TestListedOverBreaks: listings over what a server takes, of Go and of callers that go, over breaks, a smaller window,
// a session that was forgotten, and the client's end: each is answered once, and the backlog is empty in the end.
func TestListedOverBreaks(t *testing.T) {
	for _, end := range []string{"answers", "closes", "forgotten", "smaller"} {
		t.Run(end, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFake(t)
				c, p, way := onLine(f, WithGrace(longGrace), WithKeepAlive(time.Hour), WithBacklog(64))
				p.lists = true
				var reading atomic.Int64
				var answering atomic.Bool
				serve := func(p *peer) {
					go p.serve(func(a *asked) *wire.Result {
						if a.req.Op == wire.OpListLocks {
							reading.Add(1)
							if !answering.Load() {
								return nil
							}
							return &wire.Result{Flag: true, Done: true, List: &wire.List{}}
						}
						return granted(a.req)
					})
				}
				serve(p)
				const n = 40
				var told [n]int
				var errs [n]error
				for i := range n {
					c.Go(listsOf(i), func(_ *wire.Result, err error) { told[i]++; errs[i] = err })
				}
				ctx, leave := context.WithCancel(context.Background())
				var gone atomic.Int64
				for i := range n {
					go func() {
						_, _, err := c.ListOwnerLocks(ctx, fmt.Sprint("p", i), "a:/b")
						if errors.Is(err, context.Canceled) {
							gone.Add(1)
						}
					}()
				}
				pass(time.Second)
				limits := testLimits
				for range 3 {
					way.cut(errUnreachable)
					pass(time.Second)
					if end == "forgotten" {
						pass(2 * time.Minute)
					}
					way.cut(nil)
					p = f.accept()
					if end == "smaller" {
						limits.InFlight = 4
					}
					p.welcome(limits)
					p.lists = true
					serve(p)
					pass(time.Second)
				}
				leave()
				pass(time.Second)
				if gone.Load() != n {
					t.Errorf("%d of %d callers went", gone.Load(), n)
				}
				if end == "closes" {
					go func() { _ = c.Close() }()
					pass(time.Minute)
				} else {
					answering.Store(true)
					way.cut(errUnreachable)
					pass(time.Second)
					way.cut(nil)
					p = f.accept()
					p.welcome(limits)
					p.lists = true
					serve(p)
					pass(5 * time.Second)
				}
				for i, k := range told {
					if k != 1 {
						t.Errorf("number %d was told %d times: %v", i, k, errs[i])
					} else if (errs[i] != nil) != (end == "closes") {
						t.Errorf("number %d: %v", i, errs[i])
					}
				}
				s := &c.home.session
				s.mu.Lock()
				defer s.mu.Unlock()
				lists := s.mu.shares[usersShare].lists
				if s.mu.closed == nil && (s.mu.backlog != 0 || lists != 0 || s.mu.flying != 0 || s.mu.unheard != 0) {
					t.Errorf("backlog %d, lists %d, flying %d, unheard %d", s.mu.backlog, lists, s.mu.flying,
						s.mu.unheard)
				}
			})
		})
	}
}
