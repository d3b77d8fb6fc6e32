package groups

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/groups/codec"
	"github.com/pathlockd/pathlockd/groups/dragon"
	"github.com/pathlockd/pathlockd/groups/replica"
	"github.com/pathlockd/pathlockd/wire"
)

// pipes is connections between the nodes of a cluster in memory, which dawdle and break. One
// that breaks may still bring the other end what was sent before, long after who sent it
// knows that it broke: as the buffers of a stopped process do.
type pipes struct {
	f  *localCluster
	mu sync.Mutex
	// by the dialing node and the other's raft host id
	open   map[pipeKey]*pipeEnd
	rng    *rand.Rand
	breaks int // one frame of so many breaks its connection
	broken atomic.Int64
	wait   sync.WaitGroup
	over   chan struct{}
	frozen map[*Node]chan struct{} // closed when it reads on
	asks   atomic.Pointer[func()]  // is called before a question about the routes is sent, if it is set
}

type pipeKey struct {
	from *Node
	to   string
}

// pipeEnd is one node's end.
type pipeEnd struct {
	p      *pipes
	own    *Node
	other  *pipeEnd
	mu     sync.Mutex
	inbox  [][]byte
	wake   chan struct{}
	closed atomic.Bool // no frame is sent from here, or taken
	ending atomic.Bool // no frame comes after those in the inbox
}

func newPipes(f *localCluster, seed uint64, breaks int) *pipes {
	p := &pipes{f: f, open: make(map[pipeKey]*pipeEnd), rng: rand.New(rand.NewPCG(seed, 1)), breaks: breaks,
		over: make(chan struct{})}
	for _, n := range f.nodes {
		dial := func(host string) peerConn { return p.dial(n, host) }
		n.forwards.dial.Store(&dial)
	}
	f.t.Cleanup(func() { close(p.over); p.wait.Wait() })
	return p
}

func (p *pipes) dial(n *Node, host string) peerConn {
	p.mu.Lock()
	defer p.mu.Unlock()
	key := pipeKey{n, host}
	if e := p.open[key]; e != nil && !e.closed.Load() {
		return e
	}
	for _, other := range p.f.nodes {
		if other != nil && other.id.HostID == host {
			a := &pipeEnd{p: p, own: n, wake: make(chan struct{}, 1)}
			b := &pipeEnd{p: p, own: other, other: a, wake: make(chan struct{}, 1)}
			a.other = b
			p.open[key] = a
			p.wait.Go(a.read)
			p.wait.Go(b.read)
			return a
		}
	}
	return nil
}

func (p *pipes) draw(n int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.rng.IntN(n)
}

// freeze has a node read nothing, until the returned function is called.
func (p *pipes) freeze(n *Node) (thaw func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.frozen == nil {
		p.frozen = make(map[*Node]chan struct{})
	}
	c := make(chan struct{})
	p.frozen[n] = c
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.frozen, n)
		close(c)
	}
}

// thawed waits until a node reads; false when the test is over before.
func (p *pipes) thawed(n *Node) bool {
	p.mu.Lock()
	c := p.frozen[n]
	p.mu.Unlock()
	if c != nil {
		select {
		case <-c:
		case <-p.over:
			return false
		}
	}
	return true
}

// Send implements peerConn.
func (e *pipeEnd) Send(frame []byte) bool {
	if e.closed.Load() || e.ending.Load() {
		return false
	}
	if asks := e.p.asks.Load(); asks != nil && asksRoutes(frame) {
		(*asks)()
	}
	o := e.other
	o.mu.Lock()
	o.inbox = append(o.inbox, append([]byte(nil), frame...))
	o.mu.Unlock()
	o.rouse()
	if e.p.breaks > 0 && e.p.draw(e.p.breaks) == 0 {
		e.Close(errors.New("broken"))
		return false
	}
	return true
}

// asksRoutes says that a frame is a question about the routes.
func asksRoutes(frame []byte) bool {
	if frame[0] != frameQuestion {
		return false
	}
	r := &codec.Reader{Buf: frame[1:]}
	r.Uvarint() // its number
	r.Uvarint() // the log
	var q replica.Query
	q.Read(r)
	return r.Err == nil && (q.What == replica.AskRoute || q.What == replica.AskLater)
}

// Unsent implements peerConn.
func (e *pipeEnd) Unsent() int { return 0 }

func (e *pipeEnd) rouse() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// Close implements peerConn.
func (e *pipeEnd) Close(error) {
	if e.closed.Swap(true) {
		return
	}
	e.p.broken.Add(1)
	e.rouse()
	e.other.ending.Store(true)
	e.other.rouse()
}

// read hands frames on, each after a while, until the end is closed.
func (e *pipeEnd) read() {
	defer e.own.peerGone(e)
	for !e.closed.Load() {
		e.mu.Lock()
		frames := e.inbox
		e.inbox = nil
		e.mu.Unlock()
		if len(frames) == 0 && e.ending.Load() {
			e.closed.Store(true)
			return
		}
		if e.ending.Load() && e.p.draw(2) == 0 {
			e.pause(time.Duration(e.p.draw(1500)) * time.Millisecond) // news of the end come late
		}
		for _, frame := range frames {
			if e.p.draw(20) == 0 {
				e.pause(time.Duration(e.p.draw(5000)) * time.Microsecond)
			}
			if !e.p.thawed(e.own) || e.closed.Load() {
				return
			}
			e.own.forwarded(e, e.other.own.id.HostID, frame)
		}
		if len(frames) == 0 {
			select {
			case <-e.wake:
			case <-e.p.over:
				return
			}
		}
	}
}

// pause delays what is on its way: a fault of the pipe, and nothing that is waited for.
func (e *pipeEnd) pause(d time.Duration) {
	select {
	case <-time.After(d):
	case <-e.p.over:
	}
}

// TestForwardedOnceInOrder lets sessions of every node pipeline requests while
// connections break and leaders change: each is carried out once, and those of a session
// in their order. What would be left locked otherwise, or counted twice, tells.
func TestForwardedOnceInOrder(t *testing.T) {
	t.Parallel()
	f, _ := three(t)
	p := newPipes(f, 7, 60)
	var (
		stop    = make(chan struct{})
		clients sync.WaitGroup
		asked   atomic.Int64
		mu      sync.Mutex
		counted = make(map[int64]string)
	)
	ask := func(c *caller, req *wire.Request) *outcome {
		asked.Add(1)
		return c.start(c.r.next.Add(1), req)
	}
	get := func(o *outcome, what string) wire.Result {
		select {
		case res := <-o.done:
			if res.Code != wire.OK {
				t.Errorf("%s: %+v", what, res)
			}
			return res
		case <-time.After(patience):
			t.Errorf("%s is not answered", what)
			return wire.Result{}
		}
	}
	for i := range f.nodes {
		r := f.rigOn(i)
		r.next.Add(1000)
		for k := range 4 {
			clients.Go(func() {
				c := r.session()
				last := int64(0)
				for round := 0; !t.Failed(); round++ {
					select {
					case <-stop:
						return
					default:
					}
					me := fmt.Sprintf("o-%d-%d-%d", i, k, round)
					var outs []*outcome
					var counts []*outcome
					for j := range 4 { // all of it at once
						path := fmt.Sprintf("h:/p%d/x%d", j, round%3)
						grab := write(me, path, time.Hour)
						grab.Flags = wire.FlagNoQueue
						outs = append(outs, ask(c, grab), ask(c, release(me, path)))
						counts = append(counts, ask(c, &wire.Request{Op: wire.OpIncrToken}))
					}
					for j, o := range counts {
						res := get(o, "incr")
						if res.Token <= last && res.Code == wire.OK {
							t.Errorf("%s: count %d after %d", me, res.Token, last)
						}
						last = res.Token
						mu.Lock()
						if was := counted[res.Token]; was != "" {
							t.Errorf("%d was counted for %s and for %s", res.Token, was, me)
						}
						counted[res.Token] = fmt.Sprint(me, " ", j)
						mu.Unlock()
					}
					for _, o := range outs {
						get(o, "grab or release")
					}
					wait := ask(c, waiting(write(me, "h:/w/x", time.Hour)))
					get(wait, "wait")
					get(ask(c, release(me, "h:/w/x")), "release")
				}
			})
		}
	}
	began := time.Now()
	for time.Since(began) < 8*time.Second && !t.Failed() {
		before := asked.Load()
		f.until("requests get on", func() bool { return asked.Load() > before+200 || t.Failed() })
		f.moveLeaders(p)
	}
	close(stop)
	clients.Wait()
	if t.Failed() {
		return
	}
	for i := range f.nodes {
		f.rigOn(i).idle()
	}
	c := f.rigOn(0).session()
	if res := c.must(&wire.Request{Op: wire.OpIncrToken}); res.Token != int64(len(counted))+1 {
		t.Errorf("%d increments were answered, the counter was at %d", len(counted), res.Token-1)
	}
	if res := c.must(&wire.Request{Op: wire.OpDumpLocks}); len(res.List.Infos) != 0 {
		t.Errorf("still locked: %+v", res.List.Infos)
	}
	t.Logf("%d requests, %d connections broke", asked.Load(), p.broken.Load())
}

// moveLeaders hands the leadership of a random log to a random voter.
func (f *localCluster) moveLeaders(p *pipes) {
	shards := f.nodes[0].id.Logs()
	shard := shards[p.draw(len(shards))]
	for _, n := range f.nodes {
		if n.logs[shard].leads() {
			to := f.nodes[p.draw(len(f.nodes))].logs[shard].local.Load()
			if to != nil {
				_ = n.raft.(*dragon.Host).NodeHost.RequestLeaderTransfer(shard, to.Replica)
			}
		}
	}
}
