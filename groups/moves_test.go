package groups

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/groups/rows"
	"github.com/pathlockd/pathlockd/wire"
)

// TestOrderAcrossMoves: an acquire and its release, sent in one go, are carried out in that
// order however the namespace moves meanwhile: nothing stays locked.
func TestOrderAcrossMoves(t *testing.T) { onBoth(t, testOrderAcrossMoves) }

func testOrderAcrossMoves(t *testing.T, r *rig) {
	admin, c := r.session(), r.session()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range 12 {
			root := []string{"h:/a/b", "h"}[i/2%2]
			for _, req := range []*wire.Request{setPolicy(root, wire.RecursiveRW), deletePolicy(root)} {
				if !within(20*time.Second, time.Millisecond, func() bool { return admin.ask(req).Code == wire.OK }) {
					t.Errorf("%v %s is never done", req.Op, root)
					return
				}
			}
		}
	}()
	defer func() { <-done }()
	rounds := 0
	for going := true; going; rounds++ {
		select {
		case <-done:
			going = false
		default:
		}
		var outs []*outcome
		for i := range 4 {
			path := fmt.Sprintf("h:/a/b/x%d", i)
			take := write("o", path, time.Hour)
			take.Locks = append(take.Locks, wire.LockRequest{Path: "h:/a/b/all"})
			outs = append(outs, c.start(r.next.Add(1), take), c.start(r.next.Add(1), release("o", path)),
				c.start(r.next.Add(1), release("o", "h:/a/b/all")))
		}
		for i, o := range outs {
			select {
			case res := <-o.done:
				if res.Code != wire.OK || res.Status != wire.StatusOK {
					t.Fatalf("round %d: request %d is answered %+v", rounds, i, res)
				}
			case <-time.After(30 * time.Second):
				t.Fatalf("round %d: request %d is not answered", rounds, i)
			}
		}
		if locks := c.must(&wire.Request{Op: wire.OpListLocks, Owner: "o"}); len(locks.List.Infos) != 0 {
			t.Fatalf("round %d: still locked: %+v", rounds, locks.List.Infos)
		}
	}
	t.Logf("%d rounds", rounds)
}

// frozen freezes a subtree that lies in one namespace, as an attempt to move it does, until
// the returned function undoes that.
func (r *rig) frozen(root string, above ...string) (undo func()) {
	r.t.Helper()
	n := r.node
	p := &policies{n: n, term: n.logs[rows.SystemLog].held.Load(),
		attempt: n.logs[rows.SystemLog].held.Load()<<attemptBits + 1000}
	attempt := func(freezes bool) *change { // it ends neither with a step's time nor with a call's
		c := p.change(0)
		c.within, c.since, c.attempt = 0, n.clock.Mono()+time.Hour, p.next()
		if err := c.begin(freezes); err != nil {
			r.t.Fatal(err)
		}
		return c
	}
	c := attempt(true)
	req := &wire.Request{Op: wire.OpFreeze, Namespace: root, Attempt: c.attempt, Target: n.routes.Load().Version + 1}
	var cmds []command
	for g := range n.cfg.GroupCount {
		ns := ""
		if len(above) > 0 && n.groupOf(above[0]) == uint16(g) {
			ns = above[0]
		}
		cmds = append(cmds, command{group: uint16(g), ns: ns, req: req})
	}
	for _, res := range c.propose(cmds) {
		if res.Code != wire.OK || res.Status != wire.StatusOK {
			r.t.Fatalf("freeze: %+v", res)
		}
	}
	return func() {
		r.t.Helper()
		c := attempt(false)
		for i := range cmds {
			cmds[i].req = &wire.Request{Op: wire.OpThaw, Namespace: root, Attempt: c.attempt}
		}
		if err := c.all(cmds); err != nil {
			r.t.Fatal(err)
		}
	}
}

// held waits until so many calls are held back.
func (r *rig) held(calls int) {
	r.t.Helper()
	eventually(r.t, fmt.Sprintf("%d calls are held back", calls),
		func() bool { return int(r.node.moves.count.Load()) == calls })
}

func (o *outcome) get(t *testing.T, what string) wire.Result {
	t.Helper()
	select {
	case res := <-o.done:
		return res
	case <-time.After(20 * time.Second):
		t.Fatalf("%s is not answered", what)
		return wire.Result{}
	}
}

// TestHeldBackEnds: a waiting acquire that a move holds back ends with its connection, or when
// it is cancelled: it takes nothing later.
func TestHeldBackEnds(t *testing.T) {
	for how, end := range map[string]func(r *rig, c *caller, id uint64){
		"cancelled":         func(r *rig, c *caller, id uint64) { r.node.Cancel(c.session, id) },
		"connection closed": func(r *rig, c *caller, _ uint64) { r.node.Closed(c.session, true, false) },
		"goes on elsewhere": func(r *rig, c *caller, _ uint64) { r.node.Closed(c.session, true, true) },
	} {
		for _, flags := range []wire.Flags{wire.FlagWait, wire.FlagWait | wire.FlagBind} {
			t.Run(fmt.Sprint(how, " ", flags), func(t *testing.T) {
				r := newRig(t, nil)
				c := r.session()
				undo := r.frozen("h:/a/b", "h:/a")
				req := write("dead", "h:/a/b/x", time.Hour)
				req.Flags = flags
				id := r.next.Add(1)
				o := c.start(id, req)
				r.held(1)
				end(r, c, id)
				if res := o.get(t, "the wait"); res.Code != wire.Cancelled {
					t.Errorf("the wait is answered %+v, want %v", res, wire.Cancelled)
				}
				undo()
				r.held(0)
				other := r.session()
				if res := other.ask(write("o", "h:/a/b/x", time.Hour)); res.Status != wire.StatusOK {
					t.Errorf("another owner is answered %+v", res)
				}
			})
		}
	}
}

// TestHeldBackCostsNothing: what is held back makes no entries, and goes on when the move is
// over.
func TestHeldBackCostsNothing(t *testing.T) {
	r := newRig(t, nil)
	c := r.session()
	undo := r.frozen("h:/a/b", "h:/a")
	r.clock.freeze() // nothing ticks
	o := c.start(r.next.Add(1), write("o", "h:/a/b/x", time.Hour))
	behind := c.start(r.next.Add(1), release("o", "h:/a/y"))
	r.held(2)
	m := r.node.logOf(r.node.groupOf("h:/a")).local.Load()
	before := m.AppliedIndex()
	if within(300*time.Millisecond, 5*time.Millisecond, func() bool { return m.AppliedIndex() > before }) {
		t.Errorf("%d entries while two requests are held back", m.AppliedIndex()-before)
	}
	undo()
	for _, o := range []*outcome{o, behind} {
		if res := o.get(t, "a request"); res.Code != wire.OK || res.Status != wire.StatusOK {
			t.Errorf("it is answered %+v", res)
		}
	}
}

// TestHeldBackInTime: what is held back, and a read that meets a move, are answered when their
// time is over; what comes behind goes on then.
func TestHeldBackInTime(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *Config) { c.RequestTimeout = 2 * time.Second })
	c := r.session()
	r.frozen("h:/a/b", "h:/a")
	for what, req := range map[string]*wire.Request{
		"acquire": write("o", "h:/a/b/x", time.Hour), "release": release("o", "h:/a/b/x"),
		"release in several": {Op: wire.OpRelease, Owner: "o", Releases: []wire.ReleaseRequest{{Path: "h:/a/b/x"},
			{Path: "g:/a"}}},
		"inspect":           {Op: wire.OpInspectPath, Path: "h:/a/b/x"},
		"assert":            {Op: wire.OpAssertFencing, Owner: "o", Token: 1, Paths: []string{"h:/a/b/x"}},
		"assert in several": {Op: wire.OpAssertFencing, Owner: "o", Token: 1, Paths: []string{"h:/a/b/x", "g:/a"}},
	} {
		t.Run(what, func(t *testing.T) {
			want := wire.Unavailable
			if what == "release in several" { // one of the two releases is done
				want = wire.DeadlineExceeded
			}
			if res := c.start(r.next.Add(1), req).get(t, what); res.Code != want {
				t.Errorf("it is answered %+v, want %v", res, want)
			}
		})
	}
	if n := r.node.moves.count.Load(); n != 0 {
		t.Errorf("%d calls are held back yet", n)
	}
}

// TestCancelledInMove: a wait that is cancelled while its namespace is being moved got nothing, and
// is answered so; unless it was asked on an earlier connection too, where it may have.
func TestCancelledInMove(t *testing.T) {
	r := newRig(t, nil)
	c := r.session()
	r.frozen("h:/a/b", "h:/a")
	for i, want := range []wire.Code{wire.Cancelled, wire.DeadlineExceeded} {
		epoch := uint64(i + 1)
		c.session = &wire.Session{ID: c.session.ID, Epoch: epoch, Window: 16}
		req, id := write("o", "h:/a/b/x", time.Hour), r.next.Add(1)
		req.Flags = wire.FlagWait
		call := c.start(id, req)
		eventually(t, "it is held back", func() bool { return r.node.moves.count.Load() == 1 })
		r.node.Cancel(c.session, id)
		if res := call.get(t, "the wait"); res.Code != want || res.Cause != wire.CauseNone {
			t.Errorf("on connection %d of its session the wait is answered %+v, want %v", epoch, res, want)
		}
	}
}

// TestNestedRootReads: reads in a namespace of its own inside a subtree that moves go on.
func TestNestedRootReads(t *testing.T) {
	r := newRig(t, nil)
	c := r.session()
	c.must(setPolicy("h:/b", wire.PointRW))
	token := c.must(write("o", "h:/b/x", time.Hour)).Token
	r.frozen("h")
	for _, req := range []*wire.Request{
		{Op: wire.OpInspectPath, Path: "h:/b/x"}, {Op: wire.OpDescribe, Path: "h:/b/x"},
		{Op: wire.OpAssertFencing, Owner: "o", Token: token, Paths: []string{"h:/b/x"}},
		{Op: wire.OpIsBlocking, Path: "h:/b/x", Blocker: "o", Reason: wire.ReasonWriteLocked},
	} {
		if res := c.start(r.next.Add(1), req).get(t, req.Op.String()); res.Code != wire.OK {
			t.Errorf("%v is answered %+v", req.Op, res)
		}
	}
}

// inLogs answers names of which the first are in one log and the second in another.
func (r *rig) inLogs(first, second func(i int) string) (a, b string) {
	for i := 0; ; i++ {
		a, b = first(i), second(i)
		if r.node.logOf(r.node.groupOf(a)) != r.node.logOf(r.node.groupOf(b)) {
			return a, b
		}
	}
}

// TestStuckMove: while one log takes nothing, a policy change that involves it keeps nobody
// else waiting: neither requests in healthy logs, nor changes in other handlers, nor its own
// caller. It is carried out when the log does.
func TestStuckMove(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *Config) { c.RequestTimeout = 4 * time.Second })
	c := r.session()
	parent, root := r.inLogs(func(i int) string { return fmt.Sprintf("h:/a%d", i) },
		func(i int) string { return fmt.Sprintf("h:/a%d/b", i) })
	stuck := r.node.logOf(r.node.groupOf(root))
	stuck.drive.Lock() // it proposes nothing
	goOn := sync.OnceFunc(func() { stuck.drive.Unlock(); stuck.kick() })
	defer goOn()
	change := c.start(r.next.Add(1), setPolicy(root, wire.PointRW))
	m := r.node.logOf(r.node.groupOf(parent)).local.Load()
	g := m.Groups[r.node.groupOf(parent)]
	eventually(t, "the subtree is frozen", func() bool {
		m.Lock()
		defer m.Unlock()
		return len(g.State.Freezing()) > 0
	})
	for _, path := range []string{root + "/x", parent + "/y"} {
		if res := c.start(r.next.Add(1), write("o", path, time.Hour)).get(t, path); res.Code != wire.OK ||
			res.Status != wire.StatusOK {
			t.Errorf("an acquire in a healthy log is answered %+v", res)
		}
		c.must(release("o", path))
	}
	other, _ := r.inLogs(func(i int) string { return fmt.Sprintf("g%d:/a", i) }, func(int) string { return root })
	if res := c.start(r.next.Add(1), setPolicy(other, wire.PointRW)).get(t,
		"a change in another handler"); res.Code != wire.OK {
		t.Errorf("a change in another handler is answered %+v", res)
	}
	if res := change.get(t, "the change"); res.Code != wire.DeadlineExceeded {
		t.Errorf("the change is answered %+v, want %v", res, wire.DeadlineExceeded)
	}
	goOn()
	eventually(t, "the change is carried out", func() bool { return c.namespaceOf(root+"/x") == root })
}

// TestRenewWithOldRoutes: a node that does not know of a move yet does not take a lease for
// lost because it looks for it where it is no more.
func TestRenewWithOldRoutes(t *testing.T) {
	r := newRig(t, nil)
	c := r.session()
	old := r.node.routes.Load()
	c.must(setPolicy("h", wire.PointRW))
	c.must(write("o", "h:/a/x", time.Hour))
	latest := r.node.routes.Swap(old)
	renew := c.start(r.next.Add(1), &wire.Request{Op: wire.OpRenew, Owner: "o", TTLMillis: 1000,
		Domains: []string{"h:/a"}})
	if within(100*time.Millisecond, time.Millisecond, func() bool { return len(renew.done) > 0 }) {
		t.Fatalf("a renewal of a live lease is answered %+v", <-renew.done)
	}
	r.node.setRoutes(latest)
	if res := renew.get(t, "the renewal"); res.Code != wire.OK || res.Status != wire.StatusOK {
		t.Errorf("a renewal of a live lease is answered %+v", res)
	}
}
