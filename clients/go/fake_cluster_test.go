package pathlockd

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// fakeCluster is several fake servers that pretend to be one cluster: n0 at n0:1 and so on.
// Each serves what comes as the test says, and notes it.
type fakeCluster struct {
	t     testing.TB
	fake  *fake
	nodes int

	tells   bool                                 // its servers tell what happens to leases, as real ones do
	foreign string                               // a node that is of another cluster
	waiting map[string]uint64                    // how many waits of a connection a node takes; none: testLimits
	serve   func(p *peer, a *asked) *wire.Result // nil result: no answer
	closed  func(p *peer)

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

// groupsOfFakeCluster is how many groups a cluster has, each in a log of its own.
const groupsOfFakeCluster = 4

// newFakeCluster starts so many nodes; leaders names who leads each log.
func newFakeCluster(t testing.TB, nodes int, leaders ...int) *fakeCluster {
	f := &fakeCluster{t: t, fake: newFake(t), nodes: nodes, conns: make(map[string][]*peer),
		dead: make(map[string]bool)}
	f.serve = func(_ *peer, a *asked) *wire.Result { return granted(a.req) }
	f.top = wire.Topology{Self: "n0", GroupLogs: groupsOfFakeCluster, Segments: 1}
	for i := range nodes {
		f.top.Nodes = append(f.top.Nodes, wire.NodeAddr{NodeID: fmt.Sprintf("n%d", i), Native: fmt.Sprintf("n%d:1", i)})
	}
	for g := range groupsOfFakeCluster {
		f.top.LogOf = append(f.top.LogOf, uint64(g))
	}
	f.lead(leaders...)
	stop := make(chan struct{})
	go f.run(stop)
	t.Cleanup(func() { close(stop) })
	return f
}

// dial is for WithDialer.
func (f *fakeCluster) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	f.mu.Lock()
	dead := f.dead[addr[:2]]
	f.mu.Unlock()
	if dead {
		return nil, errNobody
	}
	return f.fake.dial(ctx, network, addr)
}

func (f *fakeCluster) run(stop chan struct{}) {
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
			limits := testLimits
			if n := f.waiting[p.node]; n > 0 {
				limits.Waiting = n
			}
			if f.tells {
				p.tells = wire.FeatureLeases
			}
			p.welcome(limits)
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
			if f.closed != nil {
				f.closed(p)
			}
		}()
	}
}

// lead makes nodes lead the logs, -1 for none, without telling.
func (f *fakeCluster) lead(leaders ...int) {
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
func (f *fakeCluster) tell() {
	f.mu.Lock()
	own := f.top
	var all []*peer
	for _, ps := range f.conns {
		all = append(all, ps...)
	}
	f.mu.Unlock()
	for _, p := range all {
		_ = p.SetWriteDeadline(time.Now().Add(patience))
		_, _ = p.Write(wire.AppendTopology(nil, &own)) // it may be closed
	}
}

// cut ends a node's connections; kill has nobody listen there either.
func (f *fakeCluster) cut(node string) {
	f.mu.Lock()
	all := f.conns[node]
	f.conns[node] = nil
	f.mu.Unlock()
	for _, p := range all {
		p.Close()
	}
}

func (f *fakeCluster) kill(node string) {
	f.mu.Lock()
	f.dead[node] = true
	f.mu.Unlock()
	f.cut(node)
}

func (f *fakeCluster) revive(node string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dead[node] = false
}

// client dials the cluster's first node.
func (f *fakeCluster) client(opts ...Option) *Client {
	f.t.Helper()
	return dial(f.t, "n0:1", append([]Option{WithDialer(f.dial), WithKeepAlive(time.Hour)}, opts...)...)
}

// last is the last request of an operation that came anywhere.
func (f *fakeCluster) last(op wire.Op) (found arrival) {
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
		if ns := fmt.Sprintf("a:/%d", i); int(wire.GroupOf(ns, groupsOfFakeCluster)) == group {
			return ns + "/x"
		}
	}
}

// goes asks something about a group and answers which node got it.
func (f *fakeCluster) goes(c *Client, group int) string {
	f.t.Helper()
	must(f.t, c.Release(within(f.t, 10*time.Second), "o", []wire.ReleaseRequest{{Path: in(group)}}, false, ""))
	return f.last(wire.OpRelease).node
}

// warm has the client open its lanes: it does so when it first has a use for one.
func (f *fakeCluster) warm(c *Client) {
	f.t.Helper()
	pass(0) // the topology
	for g := range groupsOfFakeCluster {
		f.goes(c, g)
	}
	pass(0)
}
