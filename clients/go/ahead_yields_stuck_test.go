package pathlockd

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// stuckUsers has the program ask more of a log without a leader than its window takes, which is answered after 30 s.
func stuckUsers(t *testing.T, code wire.Code) (*Client, *Lock) {
	f := newFake(t)
	c, p := f.telling(WithGrace(longGrace), WithBacklog(1024))
	go p.serve(func(a *asked) *wire.Result {
		if a.req.Owner == "sick" {
			time.AfterFunc(30*time.Second, func() { p.refuse(a, code) })
			return nil
		}
		return granted(a.req)
	})
	l, err := c.TryLock(t.Context(), "a:/well/mine", Owner("me"), TTL(time.Hour))
	mustLock(t, l, err)
	pass(2 * time.Second)
	return c, l
}

// asksSick has the program ask that log, so many times.
func asksSick(c *Client, n int) {
	for range n {
		c.Go(&wire.Request{Op: wire.OpRelease, Owner: "sick", Releases: []wire.ReleaseRequest{{Path: "a:/sick/y"}}},
			nil)
	}
}

// releaseOf is a release of a path by an owner.
func releaseOf(owner, path string) wire.Request {
	return wire.Request{Op: wire.OpRelease, Owner: owner, Releases: []wire.ReleaseRequest{{Path: path}}}
}

// waitFor is an acquire of a path by an owner, which waits.
func waitFor(owner, path string) *wire.Request {
	return &wire.Request{
		Op: wire.OpAcquire, Owner: owner, TTLMillis: 60_000, Flags: wire.FlagWait,
		Locks: []wire.LockRequest{{Path: path}},
	}
}

// keeps has the program keep so many requests under way: each that is answered is asked again, until
// end is called, which waits for the last answers.
func keeps(c *Client, n int, req wire.Request) (end func()) {
	var stop atomic.Bool
	var again func(*wire.Result, error)
	asks := func() {
		one := req
		c.Go(&one, again)
	}
	again = func(*wire.Result, error) {
		if !stop.Load() {
			asks()
		}
	}
	for range n {
		asks()
	}
	return func() {
		stop.Store(true)
		pass(time.Minute)
	}
}

// renewsMine is a renewal of the owner "me" in a namespace.
func renewsMine(ns string) wire.Request {
	return wire.Request{Op: wire.OpRenew, Owner: "me", TTLMillis: 3_600_000, Domains: []string{ns}}
}

// TestRenewalsYieldToStuckUsers: users' requests to a log without a leader fill their part of the window, and one more
// waits. The program renews the owner of a lock of another log, where all is well: after a window of such renewals they
// yield to what can not be sent.
func TestRenewalsYieldToStuckUsers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c, l := stuckUsers(t, wire.Unavailable)
		asksSick(c, 600)
		for i := range 500 {
			began := time.Now()
			_, err := c.Renew(t.Context(), "me", 3*time.Second, "", 0, "a:/well")
			if took := time.Since(began); err != nil || took > time.Second {
				t.Errorf("renewal %d: %v after %v", i, err, took)
				break
			}
			pass(20 * time.Millisecond)
		}
		if err := l.Err(); err != nil {
			t.Errorf("the lock of the log where all is well is lost: %v", err)
		}
		pass(time.Minute)
	})
}

// TestRenewalsBehindARepeatedRequest: likewise, and one of those requests, of which the server says that nobody knows
// what became of it, is asked again under its id while there is no room.
func TestRenewalsBehindARepeatedRequest(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c, l := stuckUsers(t, wire.DeadlineExceeded)
		go c.Release(t.Context(), "sick", []wire.ReleaseRequest{{Path: "a:/sick/x"}}, false, "")
		pass(time.Microsecond)
		asksSick(c, 600)
		for i := range 60 {
			began := time.Now()
			_, err := c.Renew(t.Context(), "me", 3*time.Second, "", 0, "a:/well")
			if took := time.Since(began); err != nil || took > time.Second {
				t.Errorf("renewal %d: %v after %v", i, err, took)
				break
			}
			pass(time.Second)
		}
		if err := l.Err(); err != nil {
			t.Errorf("the lock of the log where all is well is lost: %v", err)
		}
		pass(time.Minute)
	})
}
