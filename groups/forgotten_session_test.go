package groups

import (
	"errors"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/groups/replica"
	"github.com/pathlockd/pathlockd/groups/rows"
	"github.com/pathlockd/pathlockd/internal/tcp"
	"github.com/pathlockd/pathlockd/wire"
)

// TestCopyBehindRepeatTime: a release was carried out, and its copies outlive the time in which its client asks again.
func TestCopyBehindRepeatTime(t *testing.T) {
	b := newBare(t, rows.FirstLog, replica.DefaultLimits())
	s, other := bareSession(1), bareSession(2)
	b.one(bareAsk(s, 1, write("o", "h:/a/x", time.Hour)))
	if res := b.one(bareAsk(s, 2, release("o", "h:/a/x"))); res.Code != wire.OK {
		t.Fatalf("%+v", res)
	}
	again := b.one(bareAsk(other, 1, write("o", "h:/a/x", time.Hour)))
	if again.Status != wire.StatusOK {
		t.Fatalf("%+v", again)
	}
	// the most (rememberMillis)
	b.do(replica.RepeatMillis*9/10 + 3*tcp.GoneWithin.Milliseconds() + 2*(120_000+staleBy.Milliseconds()))
	a := bareAsk(s, 2, release("o", "h:/a/x"))
	a.tried = true
	res := b.one(a)
	thief := b.one(bareAsk(bareSession(3), 1, write("thief", "h:/a/x", time.Hour)))
	if res.Code == wire.OK && thief.Status == wire.StatusOK {
		t.Errorf("the release was carried out twice: its repeat is answered %v, and the lock taken in between went "+
			"to another owner", res.Code)
	}
}

// cutFar is a node that hosts nothing, with a connection to the leader that the test breaks, and mends.
type cutFar struct {
	f     *localCluster
	p     *pipes
	clock *testClock
	thaw  func()

	near, far *rig    // where the leader is, and the node that is cut off
	busy      *caller // asks the leader's log something while time passes, as other clients do
}

func newCutFar(t *testing.T, set func(*Config)) *cutFar {
	c := &cutFar{clock: &testClock{start: time.Now()}}
	c.f = apart(t, func(_ int, cfg *Config) {
		cfg.Clock, cfg.EvictionWindow, cfg.RequestTimeout = c.clock, time.Hour, 30*time.Second
		if set != nil {
			set(cfg)
		}
	})
	c.p = newPipes(c.f, 1, 0)
	c.near, c.far = c.f.rigOn(0), c.f.rigOn(1)
	c.busy = c.near.session()
	c.busy.must(write("busy", "h:/a/busy", time.Hour))
	return c
}

// deaf has the far node hear nothing more from the leader.
func (c *cutFar) deaf() { c.thaw = c.p.freeze(c.f.nodes[1]) }

// cut breaks the connection: what was not heard is lost, and there is no other.
func (c *cutFar) cut() {
	none := func(string) peerConn { return nil }
	c.f.nodes[1].forwards.dial.Store(&none)
	c.p.mu.Lock()
	e := c.p.open[pipeKey{c.f.nodes[1], c.f.nodes[0].id.HostID}]
	c.p.mu.Unlock()
	e.Close(errors.New("cut"))
	c.thaw()
}

func (c *cutFar) mend() {
	far := c.f.nodes[1]
	dial := func(host string) peerConn { return c.p.dial(far, host) }
	far.forwards.dial.Store(&dial)
	for _, l := range far.ordered() {
		l.kick()
	}
}

// passes has time pass.
func (c *cutFar) passes(d time.Duration) {
	for ; d > 0; d -= time.Second {
		c.clock.hurry(time.Second)
		c.busy.must(&wire.Request{Op: wire.OpRenew, Owner: "busy", TTLMillis: 3_600_000})
	}
}

// TestForwardedKillBehindRepeatTime: a node that forwards loses its connection to the leader for 62 s, right when its
// client's force_release was carried out, with the longest request_timeout_ms that there is. The victim has taken a
// lock since.
func TestForwardedKillBehindRepeatTime(t *testing.T) {
	const path = "h:/a/x"
	c := newCutFar(t, func(cfg *Config) { cfg.RequestTimeout = 120 * time.Second })
	near, far := c.near, c.far
	victim := near.session()
	victim.must(write("victim", path, time.Hour))
	l := c.f.nodes[1].logOf(c.f.nodes[1].groupOf("h:/a"))
	l.drive.Lock() // its way to the leader stands still
	o := far.session().start(far.next.Add(1), &wire.Request{Op: wire.OpForceRelease, Owner: "victim"})
	queues(t, "its part is queued", l)
	c.deaf()
	l.drive.Unlock()
	l.kick()
	eventually(t, "it is carried out", func() bool { return victim.inspect(path).Owner == "" })
	c.cut()
	token := victim.must(write("victim", path, time.Hour)).Token
	c.passes(62 * time.Second)
	c.mend()
	res := o.get(t, "the kill")
	if owner := victim.inspect(path).Owner; owner != "victim" {
		t.Errorf("the kill is answered %v and was carried out twice: the lock with token %d, taken 62 s after the "+
			"first, is %q's", res.Code, token, owner)
	}
}

// TestLateRepeatAtCutOffNode: with request_timeout_ms as by default. A client was away for 50 s of the 60 in which it
// may ask again, and asks at a node that reaches the leader 15 s later.
func TestLateRepeatAtCutOffNode(t *testing.T) {
	const path = "h:/a/x"
	c := newCutFar(t, nil)
	near, far := c.near, c.far
	other := near.session()
	s := near.session()
	s.must(write("o", path, time.Hour))
	id := near.next.Add(1)
	// which its client does not hear of
	if res := s.start(id, release("o", path)).get(t, "the release"); res.Code != wire.OK {
		t.Fatalf("%+v", res)
	}
	c.f.nodes[0].Closed(s.session, false, false)
	token := other.must(write("o", path, time.Hour)).Token
	c.passes(50 * time.Second)
	c.deaf()
	// something is under way, so that there is a connection to be cut
	far.session().start(far.next.Add(1), &wire.Request{Op: wire.OpIncrToken})
	eventually(t, "there is a connection", func() bool {
		c.p.mu.Lock()
		defer c.p.mu.Unlock()
		return c.p.open[pipeKey{c.f.nodes[1], c.f.nodes[0].id.HostID}] != nil
	})
	c.cut()
	again := far.session()
	again.session = &wire.Session{ID: s.session.ID, Epoch: 2, Window: 256, First: id + 1}
	o := again.start(id, release("o", path))
	c.passes(15 * time.Second)
	c.mend()
	res := o.get(t, "the repeat")
	thief := near.session().ask(write("thief", path, time.Hour))
	if res.Code != wire.OK || thief.Status == wire.StatusOK {
		t.Errorf("the repeat is answered %v and was carried out twice: the lock with token %d, taken between, went "+
			"to another owner with token %d", res.Code, token, thief.Token)
	}
}
