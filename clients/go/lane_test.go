package pathlockd

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// fleet is several fake servers that pretend to be one cluster: n0 at n0:1 and so on.
// Each serves what comes as the test says, and notes it.
type fleet struct {
	t     testing.TB
	fake  *fake
	nodes int

	foreign string                               // a node that is of another cluster
	serve   func(p *peer, a *asked) *wire.Result // nil result: no answer

	mu      sync.Mutex
	top     wire.Topology
	conns   map[string][]*peer // open ones, by node
	dead    map[string]bool    // nobody listens there
	hellos  []*peer
	arrived []arrival
}

// arrival is a request as some node got it.
type arrival struct {
	node    string
	session string
	*asked
}

// groupsOfFleet is how many groups a fleet has, each in a log of its own.
const groupsOfFleet = 4

// newFleet starts so many nodes; leaders names who leads each log.
func newFleet(t testing.TB, nodes int, leaders ...int) *fleet {
	f := &fleet{t: t, fake: newFake(t), nodes: nodes, conns: make(map[string][]*peer), dead: make(map[string]bool)}
	f.serve = func(_ *peer, a *asked) *wire.Result { return granted(a.req) }
	f.top = wire.Topology{Self: "n0", GroupLogs: groupsOfFleet, Segments: 1}
	for i := range nodes {
		f.top.Nodes = append(f.top.Nodes, wire.NodeAddr{NodeID: fmt.Sprintf("n%d", i), Native: fmt.Sprintf("n%d:1", i)})
	}
	for g := range groupsOfFleet {
		f.top.LogOf = append(f.top.LogOf, uint64(g))
	}
	f.lead(leaders...)
	stop := make(chan struct{})
	go f.run(stop)
	t.Cleanup(func() { close(stop) })
	return f
}

// dial is for WithDialer.
func (f *fleet) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	f.mu.Lock()
	dead := f.dead[addr[:2]]
	f.mu.Unlock()
	if dead {
		return nil, errNobody
	}
	return f.fake.dial(ctx, network, addr)
}

func (f *fleet) run(stop chan struct{}) {
	for {
		var p *peer
		select {
		case p = <-f.fake.conns:
		case <-stop:
			return
		}
		p.node, p.mark = p.addr[:2], "ours"
		if p.node == f.foreign {
			p.mark = "theirs"
		}
		f.mu.Lock()
		f.conns[p.node] = append(f.conns[p.node], p)
		f.hellos = append(f.hellos, p)
		p.topology = nil
		f.mu.Unlock()
		go func() {
			p.welcome(testLimits)
			p.serve(func(a *asked) *wire.Result {
				if a.req.Op == wire.OpTopology {
					f.mu.Lock()
					defer f.mu.Unlock()
					own := f.top
					return &wire.Result{List: &wire.List{Topology: &own}}
				}
				f.mu.Lock()
				f.arrived = append(f.arrived, arrival{p.node, string(p.hello.Session), a})
				f.mu.Unlock()
				return f.serve(p, a)
			})
		}()
	}
}

// lead makes nodes lead the logs, -1 for none, without telling.
func (f *fleet) lead(leaders ...int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.top.Version++
	f.top.Leaders = nil
	for _, l := range leaders {
		name := ""
		if l >= 0 {
			name = fmt.Sprintf("n%d", l)
		}
		f.top.Leaders = append(f.top.Leaders, name)
	}
}

// tell pushes the topology to everybody.
func (f *fleet) tell() {
	f.mu.Lock()
	own := f.top
	var all []*peer
	for _, ps := range f.conns {
		all = append(all, ps...)
	}
	f.mu.Unlock()
	for _, p := range all {
		_ = p.SetWriteDeadline(time.Now().Add(10 * time.Second))
		_, _ = p.Write(wire.AppendTopology(nil, &own)) // it may be closed
	}
}

// cut ends a node's connections; kill has nobody listen there either.
func (f *fleet) cut(node string) {
	f.mu.Lock()
	all := f.conns[node]
	f.conns[node] = nil
	f.mu.Unlock()
	for _, p := range all {
		p.Close()
	}
}

func (f *fleet) kill(node string) {
	f.mu.Lock()
	f.dead[node] = true
	f.mu.Unlock()
	f.cut(node)
}

func (f *fleet) revive(node string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dead[node] = false
}

// client dials the fleet's first node.
func (f *fleet) client(opts ...Option) *Client {
	f.t.Helper()
	return dial(f.t, "n0:1", append([]Option{WithDialer(f.dial), WithKeepAlive(time.Hour)}, opts...)...)
}

// last is the last request of an operation that came anywhere.
func (f *fleet) last(op wire.Op) (found arrival) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, a := range f.arrived {
		if a.req.Op == op {
			found = a
		}
	}
	return found
}

// in is a path whose namespace is in a group.
func in(group int) string {
	for i := 0; ; i++ {
		if ns := fmt.Sprintf("a:/%d", i); int(wire.GroupOf(ns, groupsOfFleet)) == group {
			return ns + "/x"
		}
	}
}

// goes asks something about a group and answers which node got it.
func (f *fleet) goes(c *Client, group int) string {
	f.t.Helper()
	must(f.t, c.Release(within(f.t, 10*time.Second), "o", []wire.ReleaseRequest{{Path: in(group)}}, false, ""))
	return f.last(wire.OpRelease).node
}

// warm has the client open its lanes: it does so when it first has a use for one.
func (f *fleet) warm(c *Client) {
	f.t.Helper()
	pass(0) // the topology
	for g := range groupsOfFleet {
		f.goes(c, g)
	}
	pass(0)
}

func TestRequestsGoToTheLeader(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFleet(t, 3, 0, 1, 2, -1)
		c := f.client()
		for g := range groupsOfFleet {
			if n := f.goes(c, g); n != "n0" { // while there are no other lanes
				t.Fatalf("the first request for group %d went to %s", g, n)
			}
		}
		pass(0)
		for g, want := range []string{"n0", "n1", "n2", "n0"} {
			if n := f.goes(c, g); n != want {
				t.Fatalf("group %d went to %s, want %s", g, n, want)
			}
			if _, err := c.InspectPath(context.Background(), in(g)); err != nil || f.last(wire.OpInspectPath).node != want {
				t.Fatalf("a read of group %d went to %s, %v", g, f.last(wire.OpInspectPath).node, err)
			}
		}
		// About several namespaces, or none.
		must(t, c.Release(context.Background(), "o", []wire.ReleaseRequest{{Path: in(1)}, {Path: in(2)}}, false, ""))
		if n := f.last(wire.OpRelease).node; n != "n0" {
			t.Fatalf("a release of two namespaces went to %s", n)
		}
		must(t, c.Release(context.Background(), "o", []wire.ReleaseRequest{{Path: in(1)}}, true, ""))
		if n := f.last(wire.OpRelease).node; n != "n0" {
			t.Fatalf("a release with a wait edge went to %s", n)
		}
		// A push moves them; an older one does not.
		f.lead(2, 2, 0, 1)
		f.tell()
		pass(0)
		for g, want := range []string{"n2", "n2", "n0", "n1"} {
			if n := f.goes(c, g); n != want {
				t.Fatalf("group %d went to %s, want %s", g, n, want)
			}
		}
		if len(f.hellos) != 3 {
			t.Fatalf("%d connections, want one for each node", len(f.hellos))
		}
	})
}

func TestOneConnectionStaysOne(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFleet(t, 3, 1, 1, 2, 2)
		c := f.client(WithOneConnection())
		for g := range groupsOfFleet {
			f.goes(c, g)
			pass(0)
			if n := f.goes(c, g); n != "n0" {
				t.Fatalf("group %d went to %s", g, n)
			}
		}
		if len(f.hellos) != 1 {
			t.Fatalf("%d connections", len(f.hellos))
		}
	})
}

// TestBadTopology: what does not fit together moves nothing, and breaks nothing.
func TestBadTopology(t *testing.T) {
	for name, spoil := range map[string]func(*wire.Topology){
		"no logs":         func(t *wire.Topology) { t.LogOf = nil },
		"fewer logs":      func(t *wire.Topology) { t.LogOf = t.LogOf[:1] },
		"a log too far":   func(t *wire.Topology) { t.LogOf = []uint64{9, 9, 9, 1 << 63} },
		"no groups":       func(t *wire.Topology) { t.GroupLogs, t.LogOf = 0, nil },
		"too many groups": func(t *wire.Topology) { t.GroupLogs = 1 << 60 },
		"no addresses":    func(t *wire.Topology) { t.Nodes = nil },
		"every interface": func(t *wire.Topology) {
			t.Nodes = []wire.NodeAddr{{NodeID: "n1", Native: "0.0.0.0:1"}, {NodeID: "n1", Native: "[::]:1"}}
		},
		"another node": func(t *wire.Topology) { t.Nodes[1].Native = "n2:1" },
		"no leaders":   func(t *wire.Topology) { t.Leaders = nil },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFleet(t, 3, 1, 1, 1, 1)
				spoil(&f.top)
				c := f.client()
				for g := range groupsOfFleet {
					f.goes(c, g)
					pass(0)
					if n := f.goes(c, g); n != "n0" {
						t.Fatalf("group %d went to %s", g, n)
					}
				}
			})
		})
	}
}

// TestAMoveKeepsTheOrder: nothing of a namespace goes by the new lane before what went
// by the old one is settled; other groups do not wait.
func TestAMoveKeepsTheOrder(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFleet(t, 2, 0, 0, 1, 1)
		c := f.client()
		f.warm(c)
		var open *asked
		var at *peer
		f.serve = func(p *peer, a *asked) *wire.Result {
			if a.req.Owner == "slow" {
				open, at = a, p
				return nil
			}
			return granted(a.req)
		}
		answers := make(chan error, 8)
		ask := func(owner string, group int) {
			c.Go(&wire.Request{Op: wire.OpRelease, Owner: owner, Releases: []wire.ReleaseRequest{{Path: in(group)}}},
				func(_ *wire.Result, err error) { answers <- err })
		}
		ask("slow", 0)
		pass(0)
		f.lead(1, 1, 1, 1)
		f.tell()
		pass(0)
		ask("next", 0)
		ctx, cancel := context.WithCancel(context.Background())
		gone := doing(ctx, c, &wire.Request{Op: wire.OpRelease, Owner: "gone", Releases: []wire.ReleaseRequest{{Path: in(0)}}})
		pass(0)
		cancel() // it was not sent, and never will be
		if err := (<-gone).err; err == nil {
			t.Fatal("an ended context is no error")
		}
		if n := f.goes(c, 1); n != "n1" {
			t.Fatalf("another group went to %s", n)
		}
		if last := f.last(wire.OpRelease); last.req.Owner == "next" || last.req.Owner == "gone" {
			t.Fatalf("%s overtook the request before it", last.req.Owner)
		}
		at.ok(open)
		must(t, <-answers)
		must(t, <-answers)
		last := f.last(wire.OpRelease)
		if last.req.Owner != "next" || last.node != "n1" {
			t.Fatalf("then %s went to %s", last.req.Owner, last.node)
		}
	})
}

// TestWaitsStayWhereTheyAre: a waiting acquire does not hold a move up once it is in
// the queue, and its cancel goes where it went.
func TestWaitsStayWhereTheyAre(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFleet(t, 2, 0, 0, 1, 1)
		c := f.client()
		f.warm(c)
		f.serve = func(p *peer, a *asked) *wire.Result {
			if a.req.Op == wire.OpAcquire {
				p.send(wire.AppendQueued(nil, &wire.Queued{ID: a.id, Result: wire.Result{Status: wire.StatusQueued, Position: 1}}))
				return nil
			}
			return granted(a.req)
		}
		ctx, cancel := context.WithCancel(context.Background())
		waits := doing(ctx, c, &wire.Request{Op: wire.OpAcquire, Owner: "w", TTLMillis: 1000, Flags: wire.FlagWait, Locks: []wire.LockRequest{{Path: in(0)}}})
		pass(0)
		f.lead(1, 1, 1, 1)
		f.tell()
		pass(0)
		if n := f.goes(c, 0); n != "n1" {
			t.Fatalf("the group went to %s", n)
		}
		cancel()
		<-waits
		pass(0)
		if a := f.last(wire.OpCancel); a.node != "n0" || a.req.Target != f.last(wire.OpAcquire).id {
			t.Fatalf("the cancel of %d went to %s", a.req.Target, a.node)
		}
	})
}

// TestALaneThatLosesItsNode: its session goes on elsewhere at once and settles what is
// open; what is new goes by other lanes, and directly again when the node is back.
func TestALaneThatLosesItsNode(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFleet(t, 3, 0, 1, 2, 2)
		c := f.client()
		f.warm(c)
		answer := false
		f.serve = func(_ *peer, a *asked) *wire.Result {
			if a.req.Owner == "open" && !answer {
				return nil
			}
			return granted(a.req)
		}
		open := doing(context.Background(), c, &wire.Request{Op: wire.OpRelease, Owner: "open", Releases: []wire.ReleaseRequest{{Path: in(1)}}})
		pass(0)
		before := f.last(wire.OpRelease)
		if before.node != "n1" {
			t.Fatalf("it went to %s", before.node)
		}
		answer = true
		f.kill("n1")
		must(t, (<-open).err)
		after := f.last(wire.OpRelease)
		if after.node == "n1" || after.session != before.session || after.id != before.id {
			t.Fatalf("request %d was asked again as %d at %s, same session: %v", before.id, after.id, after.node, after.session == before.session)
		}
		pass(0)
		if f.goes(c, 1) == "n1" || f.last(wire.OpRelease).session == before.session {
			t.Fatal("a new request went by the lane that lost its node")
		}
		f.lead(0, 2, 2, 2)
		f.tell()
		pass(0)
		if n := f.goes(c, 1); n != "n2" {
			t.Fatalf("the group went to %s, not to its new leader", n)
		}
		f.revive("n1")
		f.lead(0, 1, 2, 2)
		f.tell()
		pass(0)
		f.goes(c, 1)
		pass(0)
		if n := f.goes(c, 1); n != "n1" {
			t.Fatalf("the group went to %s after its leader came back", n)
		}
		pass(2 * idleLane)
		if n := len(c.router.all()); n != 3 {
			t.Fatalf("%d lanes, want one for each node", n)
		}
	})
}

// TestLocksOutliveALane: a lock taken by a lane is renewed elsewhere in time when the
// lane is lost, and is not lost.
func TestLocksOutliveALane(t *testing.T) {
	for name, lose := range map[string]func(*fleet){
		"cut":  func(f *fleet) { f.cut("n1") },
		"dead": func(f *fleet) { f.kill("n1") },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFleet(t, 2, 0, 1, 0, 0)
				c := f.client(WithGrace(time.Second))
				f.warm(c)
				held, err := c.Lock(context.Background(), in(1))
				must(t, err)
				other, err := c.Lock(context.Background(), in(0))
				must(t, err)
				if n := f.last(wire.OpAcquire).node; n != "n0" {
					t.Fatalf("the other lock was asked for at %s", n)
				}
				sure := other.Deadline()
				lose(f)
				pass(100 * time.Millisecond)
				renewed := f.last(wire.OpRenew)
				if renewed.asked == nil || renewed.req.Owner != held.Owner() || renewed.req.Flags&wire.FlagBind == 0 {
					t.Fatalf("renewed: %+v of %v", renewed.asked, f.arrived)
				}
				if !other.Deadline().Equal(sure) {
					t.Fatal("a lock of another lane lost time")
				}
				pass(5 * time.Second)
				must(t, held.Err())
				must(t, other.Err())
				must(t, held.Unlock())
				must(t, other.Unlock())
			})
		})
	}
}

// TestADeadLaneThatCannotGoOnLosesItsLocks: and those alone.
func TestALaneWithoutAnywhereToGoLosesItsLocks(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFleet(t, 2, 0, 1, 0, 0)
		c := f.client(WithGrace(time.Second))
		f.warm(c)
		held, err := c.Lock(context.Background(), in(1))
		must(t, err)
		other, err := c.Lock(context.Background(), in(0))
		must(t, err)
		f.serve = func(_ *peer, a *asked) *wire.Result {
			if a.req.Op == wire.OpRenew && a.req.Owner == held.Owner() {
				return nil
			}
			return granted(a.req)
		}
		f.cut("n1") // it lives, so it may end leases
		pass(time.Second)
		if err := held.Err(); !IsLost(err) {
			t.Fatalf("got %v, want that it is lost", err)
		}
		must(t, other.Err())
		must(t, other.Unlock())
	})
}

// TestBoundOwnersKeepToOneConnection: Bind sends everything home, and Unbind away.
func TestBoundOwnersKeepToOneConnection(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFleet(t, 2, 1, 1, 1, 1)
		c := f.client()
		f.warm(c)
		if n := f.goes(c, 1); n != "n1" {
			t.Fatalf("went to %s", n)
		}
		_, err := c.Bind(context.Background(), "o", time.Second, 0)
		must(t, err)
		if n := f.goes(c, 1); n != "n0" || f.last(wire.OpBind).node != "n0" {
			t.Fatalf("bound at %s, went to %s", f.last(wire.OpBind).node, n)
		}
		must(t, c.Unbind(context.Background(), "o"))
		if n := f.goes(c, 1); n != "n1" {
			t.Fatalf("went to %s after it was unbound", n)
		}
	})
}

// TestLearnedNodesAreFallbacks: the client goes on at nodes it was never told of.
func TestLearnedNodesAreFallbacks(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFleet(t, 3, 0, 0, 0, 0)
		c := f.client()
		f.goes(c, 0)
		f.kill("n0")
		f.kill("n1")
		f.lead(2, 2, 2, 2)
		if n := f.goes(c, 0); n != "n2" || c.Server() != "n2" {
			t.Fatalf("went to %s", n)
		}
		if a, b := f.hellos[0].hello, f.hellos[len(f.hellos)-1].hello; string(a.Session) != string(b.Session) || b.Epoch <= a.Epoch {
			t.Fatalf("sessions %x and %x, epochs %d and %d", a.Session, b.Session, a.Epoch, b.Epoch)
		}
	})
}

// TestOrderUnderMoves pipelines numbered requests of several namespaces while leaders
// change and connections break: they arrive in order, each of them once.
func TestOrderUnderMoves(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			bubble(t, func(t *testing.T) { orderUnderMoves(t, rand.New(rand.NewPCG(seed, 1))) })
		})
	}
}

func orderUnderMoves(t *testing.T, rng *rand.Rand) {
	const requests, steps = 400, 200
	f := newFleet(t, 3, 0, 1, 2, 0)
	var mu sync.Mutex
	delay := rand.New(rand.NewPCG(rng.Uint64(), 2))
	f.serve = func(_ *peer, a *asked) *wire.Result {
		mu.Lock()
		d := time.Duration(delay.IntN(300)) * time.Microsecond
		mu.Unlock()
		time.Sleep(d)
		return granted(a.req)
	}
	c := f.client()
	f.warm(c)
	f.arrived = nil
	var done sync.WaitGroup
	for g := range groupsOfFleet {
		done.Go(func() {
			var answered sync.WaitGroup
			for i := range requests {
				answered.Add(1)
				c.Go(&wire.Request{Op: wire.OpRelease, Owner: fmt.Sprint(g), Key: fmt.Sprint(i), Releases: []wire.ReleaseRequest{{Path: in(g)}}},
					func(_ *wire.Result, err error) {
						if err != nil {
							t.Error(err)
						}
						answered.Done()
					})
				if i%4 == 0 {
					time.Sleep(4 * time.Millisecond)
				}
			}
			answered.Wait()
		})
	}
	for range steps {
		pass(time.Duration(rng.IntN(6)) * time.Millisecond)
		switch rng.IntN(8) {
		case 0:
			f.cut(fmt.Sprintf("n%d", rng.IntN(3)))
		default:
			f.lead(rng.IntN(4)-1, rng.IntN(4)-1, rng.IntN(4)-1, rng.IntN(4)-1)
			f.tell()
		}
	}
	done.Wait()
	next := make(map[string]int)
	seen := make(map[string]bool)
	byNode := make(map[string]int)
	for _, a := range f.arrived {
		id := fmt.Sprintf("%x/%d", a.session, a.id)
		if seen[id] {
			continue // asked again by its session
		}
		seen[id] = true
		byNode[a.node]++
		if want := fmt.Sprint(next[a.req.Owner]); a.req.Key != want {
			t.Fatalf("group %s: request %s came where %s was due", a.req.Owner, a.req.Key, want)
		}
		next[a.req.Owner]++
	}
	for g := range groupsOfFleet {
		if n := next[fmt.Sprint(g)]; n != requests {
			t.Errorf("group %d: %d requests came, want %d", g, n, requests)
		}
	}
	if len(byNode) != 3 {
		t.Errorf("requests came to %v, want to every node", byNode)
	}
}
