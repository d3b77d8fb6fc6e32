package groups

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/groups/rows"
	"github.com/pathlockd/pathlockd/wire"
)

// homed is an owner whose wait edge is looked after in a log.
func (h *halted) homed(l *shardLog) string {
	for i := 0; ; i++ {
		owner := fmt.Sprint("o", i)
		if h.node.logOf(wire.HomeOf(owner, h.node.cfg.GroupCount)) == l {
			return owner
		}
	}
}

// begun holds that a call is answered as one that may have been carried out.
func begun(t *testing.T, res wire.Result) {
	t.Helper()
	if res.Code != wire.DeadlineExceeded || strings.Contains(res.Message, "nothing was") {
		t.Errorf("it was begun, and is answered %v %q", res.Code, res.Message)
	}
}

// TestPartlyBound: a bind that tied what its owner has, and then waited for acquires that were sent
// before it until its time was over, does not say that nothing was done.
func TestPartlyBound(t *testing.T) {
	t.Parallel()
	h := newHalted(t, time.Second)
	c := h.session()
	c.must(write("o", h.other, time.Hour))
	c.start(h.next.Add(1), write("o", h.in, time.Hour))
	bind := &wire.Request{Op: wire.OpBind, Owner: "o", TTLMillis: 5000, GraceMillis: 100, Flags: wire.FlagBind}
	begun(t, c.start(h.next.Add(1), bind).get(t, "bind"))
	if list := h.session().must(&wire.Request{Op: wire.OpListLocks, Owner: "o"}).List.Infos; len(list) != 1 ||
		list[0].ExpiresInMillis > 5000 {
		t.Errorf("it bound nothing: %+v", list)
	}
}

// TestPartlyWithHome: nor does what gave locks back, or marked them, and could not then reach the log of
// the owner's wait edge.
func TestPartlyWithHome(t *testing.T) {
	for _, op := range []wire.Op{wire.OpRelease, wire.OpReleaseAll, wire.OpForceRelease, wire.OpRequestRevoke} {
		t.Run(op.String(), func(t *testing.T) {
			t.Parallel()
			h := newHalted(t, time.Second)
			owner := h.homed(h.l)
			c := h.session()
			c.must(write(owner, h.other, time.Hour))
			req := &wire.Request{Op: op, Owner: owner}
			switch op {
			case wire.OpRelease:
				req.Releases, req.DelWait = []wire.ReleaseRequest{{Path: h.other}}, true
			case wire.OpReleaseAll:
				req.Domains, req.DelWait = []string{c.namespaceOf(h.other)}, true
			}
			begun(t, c.start(h.next.Add(1), req).get(t, op.String()))
			if now := h.session().inspect(h.other).Owner; (now == owner) != (op == wire.OpRequestRevoke) {
				t.Errorf("it is held by %q", now)
			}
		})
	}
}

// TestPartlyBeforeMove: nor does what was carried out in one namespace before a move had it begin anew,
// and is then not heard in time.
func TestPartlyBeforeMove(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *Config) { c.RequestTimeout = 2 * time.Second })
	c := r.session()
	const freed, moving = "h:/a/x", "h:/c/y"
	c.must(write("o", freed, time.Hour))
	c.must(write("o", moving, time.Hour))
	r.frozen("h:/c/d", "h:/c")
	both := c.start(r.next.Add(1), &wire.Request{Op: wire.OpRelease, Owner: "o",
		Releases: []wire.ReleaseRequest{{Path: freed}, {Path: moving}}})
	r.freed(freed)
	for _, l := range r.node.ordered() { // the logs of groups take nothing any more, the one of routes does
		if l.shard != rows.SystemLog {
			l.pauses(true)
		}
	}
	n := r.node
	p := &policies{n: n, term: n.logs[rows.SystemLog].held.Load(),
		attempt: n.logs[rows.SystemLog].held.Load()<<attemptBits + 2000}
	move := p.change(0)
	move.attempt = p.next()
	if err := move.begin(false); err != nil { // the attempt is over, and the release begins anew
		t.Fatal(err)
	}
	begun(t, both.get(t, "release"))
}

// TestNotBegun: a call whose key could not be claimed was surely not carried out, and says so.
func TestNotBegun(t *testing.T) {
	t.Parallel()
	h := newHalted(t, time.Second)
	c := h.session()
	key := h.homed(h.l)
	for _, req := range []*wire.Request{
		{Op: wire.OpRelease, Owner: "o", Key: key, Releases: []wire.ReleaseRequest{{Path: h.other}, {Path: "g:/a/x"}}},
		{Op: wire.OpReleaseAll, Owner: "o", Domains: []string{c.namespaceOf(h.in)}, Key: key},
	} {
		if res := c.start(h.next.Add(1), req).get(t, req.Op.String()); res.Code != wire.Unavailable {
			t.Errorf("%v is answered %v %q", req.Op, res.Code, res.Message)
		}
	}
}
