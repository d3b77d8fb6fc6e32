package groups

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// halted is a rig of two logs one of which proposes nothing, while the other does.
type halted struct {
	*rig
	l     *shardLog // that proposes nothing
	in    string    // a path in it
	other string    // a path in the other log
}

func newHalted(t *testing.T, timeout time.Duration, also ...func(*Config)) *halted {
	h := &halted{in: "h:/a/x", rig: newRig(t, func(c *Config) {
		c.RequestTimeout = timeout
		for _, change := range also {
			change(c)
		}
	})}
	h.l = h.node.logOf(h.node.groupOf("h:/a"))
	for _, ns := range []string{"h:/b", "h:/c", "h:/d", "h:/e", "h:/f"} {
		if h.node.logOf(h.node.groupOf(ns)) != h.l {
			h.other = ns + "/x"
		}
	}
	h.l.pauses(true)
	return h
}

// bind asks for a bind, or an unbind.
func (h *halted) bind(c *caller, op wire.Op, owner string) *outcome {
	req := &wire.Request{Op: op, Owner: owner}
	if op == wire.OpBind {
		req.GraceMillis, req.Flags = 100, wire.FlagBind
	}
	return c.start(h.next.Add(1), req)
}

// waits holds that a call is not answered yet.
func (h *halted) waits(o *outcome) {
	h.t.Helper()
	time.Sleep(pause)
	if len(o.done) > 0 {
		h.t.Fatalf("it did not wait for what was sent before it: %+v", <-o.done)
	}
}

// took holds that an acquire took its lock.
func (h *halted) took(o *outcome) {
	h.t.Helper()
	if res := o.get(h.t, "the acquire"); res.Code != wire.OK || res.Status != wire.StatusOK {
		h.t.Fatalf("%+v", res)
	}
}

// TestBindMeetsAcquire: a bind ties what an acquire takes that was sent before it, and an unbind
// unties it, also when that is carried out later.
func TestBindMeetsAcquire(t *testing.T) {
	t.Parallel()
	for _, op := range []wire.Op{wire.OpBind, wire.OpUnbind} {
		t.Run(op.String(), func(t *testing.T) {
			h := newHalted(t, 10*time.Second)
			c := h.session()
			req := write("o", h.in, time.Hour)
			if op == wire.OpUnbind {
				req.Flags |= wire.FlagBind // as a server does for who is bound
			}
			took := c.start(h.next.Add(1), req)
			bound := h.bind(c, op, "o")
			h.waits(bound)
			h.l.pauses(false)
			h.took(took)
			if res := bound.get(t, op.String()); res.Code != wire.OK || res.Status != wire.StatusOK {
				t.Fatalf("the owner has a lease: %+v", res)
			}
			h.node.Closed(c.session, true, false)
			if op == wire.OpBind {
				h.freed(h.in)
				return
			}
			time.Sleep(5 * pause)
			if owner := h.session().inspect(h.in).Owner; owner != "o" {
				t.Errorf("the lease is not tied, and the path is held by %q after the connection closed", owner)
			}
		})
	}
}

// TestBindTiesAtOnce: a bind on a later connection keeps what its owner has, whatever it waits for.
func TestBindTiesAtOnce(t *testing.T) {
	t.Parallel()
	h := newHalted(t, 10*time.Second)
	c := h.session()
	req := write("o", h.other, time.Hour)
	req.Flags |= wire.FlagBind
	c.must(req)
	first := c.session
	c.session = &wire.Session{ID: first.ID, Epoch: 2, Window: first.Window}
	took := c.start(h.next.Add(1), write("o", h.in, time.Hour))
	bound := h.bind(c, wire.OpBind, "o")
	h.waits(bound)
	m := h.node.logOf(h.node.groupOf(c.namespaceOf(h.other))).local.Load()
	eventually(t, "the bind ties what there is", func() bool {
		m.Lock()
		defer m.Unlock()
		return m.Sessions.ByID[first.ID].Epoch == 2
	})
	h.node.Closed(first, true, false)
	time.Sleep(5 * pause) // the grace is 100 ms
	if owner := h.session().inspect(h.other).Owner; owner != "o" {
		t.Errorf("while the bind waits for an acquire elsewhere, the lock is held by %q", owner)
	}
	h.l.pauses(false)
	h.took(took)
	if res := bound.get(t, "bind"); res.Code != wire.OK || res.Status != wire.StatusOK {
		t.Errorf("%+v", res)
	}
}

// TestBindMeetsWait: a bind ties what a waiting acquire takes that had no place in the queue yet.
func TestBindMeetsWait(t *testing.T) {
	h := newHalted(t, 10*time.Second)
	h.l.pauses(false)
	holder, c := h.session(), h.session()
	holder.must(write("holder", h.in, time.Hour))
	h.l.pauses(true)
	o := c.start(h.next.Add(1), waiting(write("o", h.in, time.Hour)))
	bound := h.bind(c, wire.OpBind, "o")
	h.waits(bound)
	h.l.pauses(false)
	if res := bound.get(t, "bind"); res.Code != wire.OK {
		t.Fatalf("%+v", res)
	}
	holder.must(release("holder", h.in))
	h.took(o)
	h.node.Closed(c.session, true, false)
	h.freed(h.in)
}

// TestBindMeetsHeldBack: a bind ties what an acquire takes that a move held back.
func TestBindMeetsHeldBack(t *testing.T) {
	h := &halted{rig: newRig(t, nil)}
	c := h.session()
	undo := h.frozen("h:/a/b", "h:/a")
	took := c.start(h.next.Add(1), write("o", "h:/a/b/x", time.Hour))
	h.held(1)
	bound := h.bind(c, wire.OpBind, "o")
	h.waits(bound)
	undo()
	h.took(took)
	if res := bound.get(t, "bind"); res.Code != wire.OK || res.Status != wire.StatusOK {
		t.Fatalf("%+v", res)
	}
	h.node.Closed(c.session, true, false)
	h.freed("h:/a/b/x")
}

// TestBindWaitsForNothingElse: a bind does not wait for acquires of other owners, nor of other
// connections, nor for those that were sent after it.
func TestBindWaitsForNothingElse(t *testing.T) {
	h := newHalted(t, 10*time.Second)
	c, second := h.session(), h.session()
	c.must(write("o", h.other, time.Hour))
	under := []*outcome{
		c.start(h.next.Add(1), write("another", h.in, time.Hour)),
		second.start(h.next.Add(1), write("o", h.in+"1", time.Hour)),
	}
	n := h.node
	read := n.readers[h.l.shard]
	read.mu.Lock() // it is asked before it has found where its owner is
	bound := h.bind(c, wire.OpBind, "o")
	under = append(under, c.start(h.next.Add(1), write("o", h.in+"2", time.Hour)))
	read.mu.Unlock()
	if res := bound.get(t, "bind"); res.Code != wire.OK || res.Status != wire.StatusOK {
		t.Errorf("%+v", res)
	}
	for _, o := range under {
		if len(o.done) > 0 {
			t.Errorf("nothing was proposed, and an acquire is answered %+v", <-o.done)
		}
	}
	h.l.pauses(false)
	for _, o := range under {
		h.took(o)
	}
}

// TestBindWaitsNoLonger: a bind that waits for what was sent before it is answered when its time is
// over, or its connection has ended.
func TestBindWaitsNoLonger(t *testing.T) {
	t.Parallel()
	t.Run("late", func(t *testing.T) {
		h := newHalted(t, time.Second)
		c := h.session()
		c.start(h.next.Add(1), write("o", h.in, time.Hour))
		if res := h.bind(c, wire.OpBind, "o").get(t, "bind"); res.Code != wire.Unavailable {
			t.Errorf("%+v", res)
		}
	})
	t.Run("connection closed", func(t *testing.T) {
		h := newHalted(t, time.Hour)
		c := h.session()
		c.must(write("o", h.other, time.Hour))
		took := c.start(h.next.Add(1), write("o", h.in, time.Hour))
		bound := h.bind(c, wire.OpBind, "o")
		h.waits(bound)
		h.node.Closed(c.session, true, false)
		if res := bound.get(t, "bind"); res.Code != wire.Cancelled && res.Code != wire.OK {
			t.Errorf("%+v", res)
		}
		h.l.pauses(false)
		h.took(took)
	})
}
