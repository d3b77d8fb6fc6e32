package groups

import (
	"fmt"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/groups/replica"
	"github.com/pathlockd/pathlockd/groups/rows"
	"github.com/pathlockd/pathlockd/wire"
)

// served is a session that the node makes, as for calls of gRPC and HTTP.
func (r *rig) served() *caller {
	c := r.session()
	c.session.ID = r.node.NewSession()
	return c
}

// row has an owner wait for a path in a session, behind its holder.
func (r *rig) row(c *caller, owner, path string) *outcome {
	r.t.Helper()
	req := waiting(write(owner, path, time.Hour))
	req.QueueTTLMillis = 3_600_000
	o := c.start(r.next.Add(1), req)
	select {
	case <-o.queued:
	case res := <-o.done:
		r.t.Fatalf("%s: %+v", owner, res)
	case <-time.After(patience):
		r.t.Fatalf("%s is told nothing", owner)
	}
	return o
}

// TestWaitEndsWithItsProcess: the power fails while calls wait, and the node starts again. A lock that becomes free
// then is not granted to a call of gRPC or HTTP, which ended with the process, but to who waits behind it in a session
// that may come back. So it is of a lock whose lease was about to run out, and of more calls than fit into one batch.
func TestWaitEndsWithItsProcess(t *testing.T) {
	const calls = replica.MaxBatchCommands + 100
	for name, lasts := range map[string]time.Duration{"released": time.Hour, "run out": time.Minute} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil)
			holder, calling, back := r.session(), r.served(), r.session()
			holder.must(write("holder", "h:/a/x", lasts))
			holder.must(write("holder", "h:/a/y", lasts))
			for i := range calls {
				r.row(calling, fmt.Sprint("call ", i), "h:/a/x")
			}
			r.row(back, "back", "h:/a/x")
			r.row(calling, "call", "h:/a/y")
			r.clock.freeze()
			if name == "run out" {
				holder.must(&wire.Request{Op: wire.OpRenew, Owner: "holder", TTLMillis: 1_000})
			}
			r.opened = func(n *Node) { r.clock.run() }
			r.powerLoss()
			after := r.session()
			if name == "released" {
				after.must(release("holder", "h:/a/x"))
				after.must(release("holder", "h:/a/y"))
			} else {
				r.clock.hurry(3 * time.Second)
			}
			eventually(t, "it is free", func() bool { return after.inspect("h:/a/x").Owner != "holder" })
			if owner := after.inspect("h:/a/x").Owner; owner != "back" {
				t.Errorf("it is granted to %q", owner)
			}
			if owner := after.inspect("h:/a/y").Owner; owner != "" {
				t.Errorf("what only a call waited for is granted to %q", owner)
			}
		})
	}
}

// TestNothingRunsOutBeforeEnds: the ends of waits whose process is over are carried out before time goes on: a lease
// that runs out with the entry that they are in is not granted to them.
func TestNothingRunsOutBeforeEnds(t *testing.T) {
	r := newRig(t, nil)
	const path = "h:/a/x"
	holder, calling := r.session(), r.served()
	holder.must(write("holder", path, time.Minute))
	o := r.row(calling, "call", path)
	l := r.node.logOf(r.node.groupOf("h:/a"))
	r.clock.freeze()
	holder.must(&wire.Request{Op: wire.OpRenew, Owner: "holder", TTLMillis: 500})
	l.pauses(true)
	r.clock.advance(time.Second)
	r.node.processOver(r.node.id.HostID, r.node.id.Starts)
	l.pauses(false)
	if res := <-o.done; res.Code != wire.DeadlineExceeded {
		t.Errorf("the wait is answered %+v", res)
	}
	r.clock.run()
	eventually(t, "the lease has run out", func() bool { return holder.inspect(path).Owner != "holder" })
	if owner := holder.inspect(path).Owner; owner != "" {
		t.Errorf("it is granted to %q", owner)
	}
}

// TestFirstStaysFirst: whatever comes back to a log's queue comes behind what comes first.
func TestFirstStaysFirst(t *testing.T) {
	r := newRig(t, nil)
	l := r.node.logs[rows.FirstLog]
	a, b, c, d := &part{first: true}, &part{first: true}, &part{}, &part{}
	l.mu.Lock()
	defer l.mu.Unlock()
	was := l.mu.queue
	defer func() { l.mu.queue = was }()
	l.mu.queue = nil
	l.inFront([]*part{d})
	l.inFront([]*part{b})
	l.inFront([]*part{c})
	l.inFront(nil)
	l.inFront([]*part{a})
	for i, p := range []*part{a, b, c, d} {
		if l.mu.queue[i] != p {
			t.Errorf("number %d is another", i)
		}
	}
}

// TestWaitEndsWithItsPeer: a node is killed while calls of gRPC or HTTP wait at it, of which it leads the log, or
// forwards to who does. Once its process is known to be over, or it was started again, a lock that becomes free is not
// granted to them. Who waits in a session of its own keeps the place.
func TestWaitEndsWithItsPeer(t *testing.T) {
	t.Parallel()
	for name, leads := range map[string]bool{"leader": true, "follower": false} {
		for again, restarts := range map[string]bool{"": false, " started again": true} {
			t.Run(name+again, func(t *testing.T) {
				t.Parallel()
				w := new(network)
				f := newLocalCluster(t, 3, func(_ int, c *Config) {
					c.Faults, c.EvictionWindow, c.LogCount = w, time.Hour, 1
				})
				f.settle(3)
				at := f.leader("h:/a/x")
				if !leads {
					at = (at + 1) % 3
				}
				other := f.rigOn((at + 2) % 3)
				holder := other.session()
				for _, path := range []string{"h:/a/x", "h:/a/y"} {
					holder.must(write("holder", path, time.Hour))
				}
				r := f.rigOn(at)
				r.row(r.served(), "call", "h:/a/x")
				r.row(r.session(), "back", "h:/a/y")
				f.kill(w, at)
				f.leader("h:/a/x")
				if restarts {
					w.set(f.cfgs[at].NodeID, false)
					f.start(at)
					f.until("it is ready", func() bool { return f.nodes[at].health().Flag })
					holder = f.rigOn(at).session()
					copy(holder.session.ID[:], "a later one's id")
				} else {
					gone := f.cfgs[at].NodeID
					f.until("its process is known to be over", func() bool {
						n := f.nodes[f.leader("h:/a/x")]
						for _, s := range n.cluster.sightings() {
							if s.NodeID == gone {
								return n.processes.over(engine.Session(newSessionOf(s.HostID, s.Incarnation)))
							}
						}
						return false
					})
				}
				holder.must(release("holder", "h:/a/x"))
				holder.must(release("holder", "h:/a/y"))
				if owner := holder.inspect("h:/a/x").Owner; owner != "" {
					t.Errorf("it is granted to %q, whose call ended with its node", owner)
				}
				if owner := holder.inspect("h:/a/y").Owner; owner != "back" {
					t.Errorf("it is granted to %q, and not to who waits in a session of its own", owner)
				}
			})
		}
	}
}

// TestProcesses: which processes are over, as sessions say whose they are.
func TestProcesses(t *testing.T) {
	var p processes
	of := func(host string, starts uint64) engine.Session { return engine.Session(newSessionOf(host, starts)) }
	if p.over(of("a", 1)) || p.host(of("a", 1)) != "" {
		t.Error("a node that is not known")
	}
	if p.note("a", 0) || p.host(of("a", 7)) != "a" || p.over(of("a", 1)) {
		t.Error("one in its first process")
	}
	if !p.note("a", 4) || p.note("a", 4) || p.note("a", 3) {
		t.Error("what is news")
	}
	if !p.over(of("a", 4)) || p.over(of("a", 5)) || p.over(of("b", 4)) {
		t.Error("what is over")
	}
	p.note("b", 1<<30)
	if !p.over(of("b", manyStarts-1)) || p.over(of("b", manyStarts)) || p.over(of("b", manyStarts+9)) {
		t.Error("a node that was started too often to tell")
	}
}

// TestPeersLaterProcess: a node that asks on a connection of a later process has no calls in an earlier one.
func TestPeersLaterProcess(t *testing.T) {
	r := newRig(t, nil)
	n := r.node
	in := n.inboundOf(new(wireEnd), "peer")
	if !in.latest([2]uint64{0, 1}) || !in.latest([2]uint64{5, 1}) {
		t.Fatal("it is no later one")
	}
	if !n.processes.over(engine.Session(newSessionOf("peer", 4))) ||
		n.processes.over(engine.Session(newSessionOf("peer", 5))) {
		t.Error("which of its processes are over")
	}
}

// TestUnderWayAsItsProcessEnds: a wait that a peer has sent, and that its log has not yet, ends as the peer's process
// is known to be over, though nothing is known of the end of its connection.
func TestUnderWayAsItsProcessEnds(t *testing.T) {
	r := newRig(t, nil)
	n := r.node
	in := n.inboundOf(new(wireEnd), "peer")
	if !in.latest([2]uint64{5, 1}) {
		t.Fatal("it is no later one")
	}
	g := n.groupOf("h:/a")
	s := &wire.Session{ID: newSessionOf("peer", 5), Epoch: 1, Window: 4}
	p := &part{Command: replica.Command{Group: g, Op: wire.OpAcquire, Session: s, ID: 1}, from: in,
		log: n.logOf(g), waits: true}
	if _, ok := n.waits.add(p); !ok {
		t.Fatal("it does not wait")
	}
	n.processOver("peer", 4)
	if in.closed.Load() || n.waits.get(p.caller()) != p {
		t.Error("it ends with an earlier process")
	}
	n.processOver("peer", 5)
	if !in.closed.Load() || n.waits.get(p.caller()) != nil {
		t.Error("it goes on after its process")
	}
}

// TestMadeUpSession: a client that names its session as one of an earlier process of the node ends nobody's waits
// but its own, and is served.
func TestMadeUpSession(t *testing.T) {
	r := newRig(t, nil)
	r.restart()
	const path = "h:/a/x"
	holder, client, call := r.session(), r.session(), r.served()
	client.session.ID = newSessionOf(r.node.id.HostID, r.node.id.Starts-1)
	holder.must(write("holder", path, time.Hour))
	own := r.row(client, "own", path)
	call1 := r.row(call, "call", path)
	r.node.processOver(r.node.id.HostID, r.node.id.Starts-1) // no news
	again := r.row(client, "again", path)
	holder.must(release("holder", path))
	for _, o := range []*outcome{own, call1, again} {
		select {
		case res := <-o.done:
			if res.Code != wire.OK || res.Status != wire.StatusOK {
				t.Fatalf("%+v", res)
			}
		case <-time.After(patience):
			t.Fatal("it is not granted")
		}
		holder.must(release(holder.inspect(path).Owner, path))
	}
}
