package pathlockd

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestRenewedWhileHomeIsSilent: the node of the home lane, which tells of the owner's events, hangs. The owner is
// killed, and takes something else by another client. A renewal that goes by another lane and is carried out then
// counts for nothing: home is given up ten seconds later, and what the owner holds is asked about, whatever becomes
// of the subscription in place of the one that was lost. A lock that is held stays, and little is asked about it.
func TestRenewedWhileHomeIsSilent(t *testing.T) {
	for _, how := range []string{"exhausted", "unavailable", "silent", "no connection"} {
		for _, fate := range []string{"killed", "held"} {
			t.Run(how+", "+fate, func(t *testing.T) {
				bubble(t, func(t *testing.T) { renewedWhileHomeIsSilent(t, how, fate) })
			})
		}
	}
}

// renewedWhileHomeIsSilent has the next subscription refused, for good or for now, or not answered; or there is no
// connection to ask for it on, and the lane alone that keeps the lock goes on.
func renewedWhileHomeIsSilent(t *testing.T, how, fate string) {
	const ttl = time.Hour
	f := newFakeCluster(t, 2, 1, 1, 1, 1)
	c := f.client(WithKeepAlive(DefaultKeepAlive))
	f.warm(c)
	for _, p := range f.hellos {
		p.lists = true
	}
	var held atomic.Pointer[wire.Result] // what was told
	var armed, hung atomic.Bool
	var questions atomic.Int64
	f.serve = func(p *peer, a *asked) *wire.Result {
		p.lists = true
		res := granted(a.req)
		switch {
		case hung.Load() && p.node == "n0":
			return nil
		case a.req.Op == wire.OpRenew && armed.Load() && p.node == "n1" && !hung.Load():
			hung.Store(true)
			f.mu.Lock()
			f.dead["n0"] = true
			f.dead["n1"] = how == "no connection" // takes no further ones
			f.mu.Unlock()
		case a.req.Op == wire.OpSubscribe && hung.Load():
			switch how {
			case "silent":
				return nil
			case "exhausted":
				res = &wire.Result{Code: wire.ResourceExhausted, Message: "too many"}
			case "unavailable":
				res = &wire.Result{Code: wire.Unavailable, Message: "no leader"}
			}
		case a.req.Op == wire.OpListLocks && hung.Load():
			if res = held.Load(); fate == "killed" {
				res = &wire.Result{Done: true, Flag: true, List: &wire.List{}}
			}
		case a.req.Op == wire.OpListLocks:
			res = p.taken.of(a.req.Owner)
			held.Store(res)
		}
		if hung.Load() && (a.req.Op == wire.OpListLocks || a.req.Op == wire.OpRenew) {
			questions.Add(1)
		}
		if a.req.Op != wire.OpPing {
			time.AfterFunc(50*time.Millisecond, func() { p.reply(a.id, a.req.Op, res) })
			return nil
		}
		return res
	}
	if f.goes(c, 0) != "n1" {
		t.Fatal("requests do not go by the lane")
	}
	l, err := c.TryLock(t.Context(), in(0), Owner("me"), TTL(ttl))
	mustLock(t, l, err)
	pass(time.Minute)
	if !l.lease.watched {
		t.Fatal("not watched")
	}
	pass(ttl)
	armed.Store(true)
	for !hung.Load() {
		pass(time.Second)
	}
	at := time.Now()
	pass(time.Minute)
	if fate == "held" {
		if l.Err() != nil {
			t.Errorf("it is lost though it is held: %v", l.Err())
		}
		// Home goes elsewhere each time that it was refused for now three times, and with it what hangs on it.
		if n := questions.Load(); how != "unavailable" && n > 8 {
			t.Errorf("%d questions about it in a minute", n)
		}
		return
	}
	for l.Err() == nil {
		pass(time.Second)
	}
	if d := time.Since(at); d > time.Minute {
		t.Errorf("it is believed in for %v after its owner was killed", d)
	}
}
