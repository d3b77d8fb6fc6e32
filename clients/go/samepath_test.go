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

// TestLocksOfOnePathEndTogether: two locks of one owner on one path are one, which either gives back. The other
// is lost before the release is sent. One that holds the path under a later token keeps it, and
// so does one in another mode, or that the lock was lost before.
func TestLocksOfOnePathEndTogether(t *testing.T) {
	p, q, r := Path{Path: "a:/b/p"}, Path{Path: "a:/b/q"}, Path{Path: "a:/b/r"}
	reads := Path{Path: p.Path, Mode: Read}
	const later = 9
	for name, one := range map[string]struct {
		first, second []Path
		token         int64 // of the second lock
		unlocked      int   // which is, of the two
		stays         bool  // the other
	}{
		"the second of two":              {[]Path{p}, []Path{p}, 7, 1, false},
		"the first of two":               {[]Path{p}, []Path{p}, 7, 0, false},
		"one of several paths":           {[]Path{q, p}, []Path{p}, 7, 1, false},
		"several paths":                  {[]Path{p}, []Path{r, p, q}, 7, 1, false},
		"other paths":                    {[]Path{p}, []Path{q, r}, 7, 1, true},
		"another mode":                   {[]Path{reads}, []Path{p}, 7, 1, true},
		"reads":                          {[]Path{reads}, []Path{reads}, later, 0, false},
		"the second has a later token":   {[]Path{p}, []Path{p, q}, later, 0, true},
		"the first has an earlier token": {[]Path{p}, []Path{p, q}, later, 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFake(t)
				c, p := f.client(WithKeepAlive(time.Hour))
				var locks []*Lock
				var sent, early atomic.Bool
				go p.serve(func(a *asked) *wire.Result {
					res := granted(a.req)
					switch {
					case a.req.Op == wire.OpAcquire && len(locks) == 1:
						res.Token = one.token
					case a.req.Op == wire.OpRelease:
						sent.Store(true)
						early.Store(locks[1-one.unlocked].Err() == nil)
					}
					return res
				})
				for _, paths := range [][]Path{one.first, one.second} {
					l, err := c.LockAll(context.Background(), paths, Owner("me"))
					locks = append(locks, mustLock(t, l, err))
				}
				must(t, locks[one.unlocked].Unlock())
				if !sent.Load() || early.Load() != one.stays {
					t.Errorf("the other lock is believed in when the release is sent: %v, want %v",
						early.Load(), one.stays)
				}
				other := locks[1-one.unlocked]
				if one.stays {
					must(t, other.Err())
					must(t, other.Unlock())
					return
				}
				lostBy(t, other, ErrExpired)
				if err := other.Unlock(); !IsLost(err) {
					t.Errorf("Unlock of the other one: %v", err)
				}
			})
		})
	}
}

// TestALostLockTakesNoOther: what a lock that was lost in part gives back is what no other lock of its owner has,
// neither an earlier nor a later one.
func TestALostLockTakesNoOther(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p := f.client()
		p.lists = true
		var has atomic.Pointer[[]string]
		has.Store(&[]string{"a:/b/p", "a:/b/q"})
		go p.serve(func(a *asked) *wire.Result {
			if a.req.Op == wire.OpListLocks {
				return holding(*has.Load()...)
			}
			return granted(a.req)
		})
		take := func(paths ...Path) *Lock {
			t.Helper()
			l, err := c.LockAll(context.Background(), paths, Owner("me"))
			return mustLock(t, l, err)
		}
		p1, q := Path{Path: "a:/b/p"}, Path{Path: "a:/b/q"}
		earlier, both := take(p1), take(p1, q)
		pass(2 * watchAfter)
		has.Store(&[]string{"a:/b/p"})
		pass(DefaultTTL)
		lostBy(t, both, ErrExpired)
		later := take(p1)
		must(t, earlier.Err())
		if err := both.Unlock(); !errors.Is(err, ErrExpired) {
			t.Errorf("Unlock: %v", err)
		}
		must(t, earlier.Err())
		must(t, later.Err())
	})
}

// TestPartOfALeaseGoesUntold: nobody is told that a release took a path of a lock while its owner's lease stands, as
// another client of the owner sends one, or an operator. It is found out within a TTL, also of
// an owner whose events are told. That takes no further renewals; and where all would go with the
// lease nothing is asked.
func TestPartOfALeaseGoesUntold(t *testing.T) {
	for name, one := range map[string]struct {
		paths []string
		opts  []LockOption
		asks  bool
	}{
		"an owner that the program names": {[]string{"a:/b/c"}, []LockOption{Owner("me")}, true},
		"several paths":                   {[]string{"a:/b/c", "a:/b/d"}, nil, true},
		"one path":                        {[]string{"a:/b/c"}, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFake(t)
				c, p := f.client()
				p.lists = true
				var gone atomic.Bool
				var looks, renewals atomic.Int64
				go p.serve(func(a *asked) *wire.Result {
					switch a.req.Op {
					case wire.OpRenew:
						renewals.Add(1)
					case wire.OpListLocks:
						looks.Add(1)
						has := one.paths
						if gone.Load() {
							has = append(has[1:len(has):len(has)], "a:/b/e")
						}
						return holding(has...)
					}
					return granted(a.req)
				})
				var paths []Path
				for _, p := range one.paths {
					paths = append(paths, Path{Path: p})
				}
				l, err := c.LockAll(context.Background(), paths, one.opts...)
				mustLock(t, l, err)
				pass(2 * watchAfter) // its events are told
				began, renewed := looks.Load(), renewals.Load()
				const span = 30
				pass(span * DefaultTTL)
				must(t, l.Err())
				if n := renewals.Load() - renewed; n > span*renewAt*10/9+1 {
					t.Errorf("%d renewals in %d TTLs", n, span)
				}
				n := looks.Load() - began
				if one.asks && (n < span-1 || n > span*3/2) || !one.asks && n > 0 {
					t.Errorf("asked %d times in %d TTLs", n, span)
				}
				if !one.asks {
					return
				}
				gone.Store(true)
				pass(DefaultTTL)
				var lost *LostError
				if !errors.As(l.Err(), &lost) || !errors.Is(lost, ErrExpired) || lost.Path != one.paths[0] {
					t.Errorf("a TTL after the path was given back: %v", l.Err())
				}
			})
		})
	}
}

// TestLooksTakeTheirShare: who holds so much that it takes long to tell it is asked seldom.
func TestLooksTakeTheirShare(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p := f.client(WithKeepAlive(time.Hour))
		p.lists = true
		const pages, page, takes = 20, 500 * time.Millisecond, 10 * time.Second
		var looks atomic.Int64
		l := held(t, c, p, func(a *asked) (*wire.Result, bool) {
			if a.req.Op != wire.OpListLocks {
				return nil, false
			}
			res, at := holding("a:/b/c"), 0
			if len(a.req.Cursor) > 0 {
				at = int(a.req.Cursor[0])
			} else {
				looks.Add(1)
			}
			d := 10 * time.Millisecond // the last one is short
			if at < pages {
				d = page
				res = holding()
				for i := range int(page / (10 * time.Millisecond)) {
					res.List.Infos = append(res.List.Infos,
						wire.LockInfo{Owner: "me", Path: fmt.Sprint("a:/b/", at, "/", i)})
				}
				res.Done, res.List.Cursor = false, []byte{byte(at + 1)}
			}
			time.AfterFunc(d, func() { p.reply(a.id, a.req.Op, res) })
			return nil, true
		}, Owner("me"))
		const span = time.Hour
		pass(span)
		must(t, l.Err())
		if n := looks.Load(); n < 2 || n > 1+int64(span/(checkShare*takes)) {
			t.Errorf("asked %d times in %v, which takes %v each time", n, span, takes)
		}
	})
}

// TestAFailedCheckIsADoubt: who is not told what its owner holds does not believe in it for good.
func TestAFailedCheckIsADoubt(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p := f.client()
		p.lists = true
		var fails atomic.Bool
		l := held(t, c, p, func(a *asked) (*wire.Result, bool) {
			switch {
			case a.req.Op != wire.OpListLocks:
				return nil, false
			case fails.Load():
				return &wire.Result{Code: wire.Unavailable, Message: "not now"}, true
			}
			return holding("a:/b/c"), true
		}, Owner("me"))
		pass(2 * watchAfter)
		fails.Store(true)
		pass(DefaultTTL)
		fails.Store(false)
		pass(DefaultTTL)
		must(t, l.Err())
		fails.Store(true)
		pass(2 * DefaultTTL)
		if err := l.Err(); !errors.Is(err, ErrUncertain) {
			t.Errorf("nothing was told for two TTLs: %v", err)
		}
	})
}
