package loop_test

import (
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/groups"
	"github.com/pathlockd/pathlockd/loop"
	"github.com/pathlockd/pathlockd/wire"
)

// gatherer gathers listings once it is told to, long ones, each in a turn, as a node does.
type gatherer struct {
	*groups.Node
	mu       sync.Mutex
	waiting  int
	has      int // turns
	refused  int // whose connection was gone
	may      chan struct{}
	infos    []wire.LockInfo
	gathered sync.WaitGroup
	stands   chan chan struct{}
	addr     net.Addr
}

func (g *gatherer) Serve(calls []*wire.Call) {
	for i, c := range calls {
		if wire.AnswerOf(c.Req) != wire.ListedAnswer {
			g.Node.Serve(calls[i : i+1])
			continue
		}
		g.count(&g.waiting, 1)
		g.gathered.Go(func() { g.gather(c) })
	}
}

func (g *gatherer) count(n *int, by int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	*n += by
}

func (g *gatherer) is(n *int) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return *n
}

func (g *gatherer) gather(c *wire.Call) {
	<-g.may
	select {
	case <-c.Turns.Free:
		c.Turn = true
		g.count(&g.has, 1)
		c.Res = wire.Result{List: &wire.List{Infos: g.infos}, Done: true}
	case <-c.Turns.Gone:
		g.count(&g.refused, 1)
		c.Res.Fail(wire.Errorf(wire.Unavailable, "gone"))
	}
	g.count(&g.waiting, -1)
	to := c.To // the call is its server's again once it is answered
	to.Reply(c)
	to.Flush()
}

// Topology has the event loop stand still, if that is to be tested.
func (g *gatherer) Topology(watch func(*wire.Topology)) (*wire.Topology, func()) {
	if g.stands != nil {
		on := make(chan struct{})
		g.stands <- on
		<-on
	}
	return g.Node.Topology(watch)
}

func gathers(t *testing.T) (g *gatherer, s *loop.Server, p *peer) {
	node := shared.get(t)
	g = &gatherer{Node: node, may: make(chan struct{})}
	for range 100 { // of 300 KB together
		g.infos = append(g.infos, wire.LockInfo{Path: "h:/n/" + strings.Repeat("p", 3000), Owner: "o"})
	}
	s, err := loop.New(g, loop.Options{NodeID: node.NodeID(), ClusterID: node.ClusterID(),
		RepeatMillis: groups.RepeatMillis, Log: quiet, Loops: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	addr, err := s.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g.addr = addr
	return g, s, join(t, addr)
}

// allWait waits until all turns are over and none is passed on, as their client does not read.
func (g *gatherer) allWait(t *testing.T, s *loop.Server) {
	t.Helper()
	eventually(t, "no more are gathered", func() bool { return s.TurnsOver() == wire.MaxGathered })
	// The kernel has some megabytes of what was written, the lane up to one.
	if waits := g.is(&g.waiting); waits < wire.MaxListings/2 {
		t.Fatalf("%d listings wait, %d were gathered for who does not read", waits, g.is(&g.has))
	}
}

// TestListingsKeepNobodyWaiting: as many listings as a connection may have under way wait, for a log without a leader.
// What else is asked there is answered. One more of them is not read before one is answered.
func TestListingsKeepNobodyWaiting(t *testing.T) {
	g, s, p := gathers(t)
	list := &wire.Request{Op: wire.OpListLocks, Owner: "o", Domains: []string{"h:/n"}}
	ids := p.start(slices.Repeat([]*wire.Request{list}, wire.MaxListings)...)
	owner := named("beside")
	p.must(write(owner, owner+":/a/x"))
	p.must(&wire.Request{Op: wire.OpDescribe, Path: owner + ":/a/x"})
	if n := g.is(&g.waiting); n != wire.MaxListings {
		t.Fatalf("%d listings are under way, want %d", n, wire.MaxListings)
	}
	more, own := p.encode(list, write(owner, owner+":/a/y"))
	p.send(more)
	eventually(t, "they come, and are not taken", func() bool { return s.Untaken() == len(more) })
	ids = append(ids, own...)
	close(g.may)
	for _, id := range ids {
		if res := p.reply(id); res.Code != wire.OK {
			t.Fatal(res.Err())
		}
	}
	g.gathered.Wait()
}

// TestTurnsOfWhoDoesNotRead: a client asks for many long listings, and reads none. No more are gathered than there are
// turns, beside what was written and may lie unread. Once it reads it gets all; and if it hangs up instead, nobody
// waits any more.
func TestTurnsOfWhoDoesNotRead(t *testing.T) {
	for name, reads := range map[string]bool{"it reads": true, "it hangs up": false} {
		t.Run(name, func(t *testing.T) {
			g, s, p := gathers(t)
			close(g.may)
			list := &wire.Request{Op: wire.OpListLocks, Owner: "o", Domains: []string{"h:/n"}}
			ids := p.start(slices.Repeat([]*wire.Request{list}, wire.MaxListings)...)
			eventually(t, "it leaves something unread", func() bool { return s.Lanes() == 1 })
			g.allWait(t, s)
			if !reads {
				p.hangUp()
				g.gathered.Wait()
				if g.is(&g.refused) == 0 {
					t.Error("all were gathered: this shows nothing")
				}
				return
			}
			for _, id := range ids {
				if res := p.reply(id); res.Code != wire.OK || len(res.List.Infos) != len(g.infos) {
					t.Fatal(res.Err())
				}
			}
			p.must(ping())
		})
	}
}

// TestTurnsOnTheWayHome: a client reads late, and sends something. So its connection goes back to its loop before that
// hears that all was written. The turns that were over are passed on all the same.
func TestTurnsOnTheWayHome(t *testing.T) {
	g, s, p := gathers(t)
	g.stands = make(chan chan struct{})
	list := &wire.Request{Op: wire.OpListLocks, Owner: "o", Domains: []string{"h:/n"}}
	ids := p.start(slices.Repeat([]*wire.Request{list}, wire.MaxListings)...)
	for n := 1; s.Lanes() == 0; n++ { // one at a time
		g.may <- struct{}{}
		eventually(t, "it is gathered", func() bool { return g.is(&g.has) == n })
	}
	close(g.may)
	g.allWait(t, s)
	join(t, g.addr).start(&wire.Request{Op: wire.OpTopology})
	stands := <-g.stands
	own, last := p.encode(ping())
	p.send(own[:1])
	eventually(t, "what it sent is there", func() bool { return s.Coming() > 0 })
	time.AfterFunc(700*time.Millisecond, func() { close(stands) }) // all is written until then, as it reads
	for i, id := range ids {
		if i == len(ids)/2 {
			p.send(own[1:])
		}
		if res := p.reply(id); res.Code != wire.OK {
			t.Fatal(res.Err())
		}
	}
	p.reply(last[0])
}
