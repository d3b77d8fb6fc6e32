package groups

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/groups/mesh"
	"github.com/pathlockd/pathlockd/groups/replica"
	"github.com/pathlockd/pathlockd/wire"
)

// listening is a session that is told what happens to its leases at a node.
type listening struct {
	*caller
	mu   sync.Mutex
	told []string
	stop func()
}

func (r *rig) listening() *listening {
	l := &listening{caller: r.session()}
	l.hears(r.node)
	return l
}

// hears has the session be told at a node.
func (l *listening) hears(n *Node) {
	l.stop = n.Tell(l.session.ID, func(e *wire.LeaseEvent) {
		l.mu.Lock()
		defer l.mu.Unlock()
		if e.Kind == 0 {
			l.told = append(l.told, "missed")
			return
		}
		l.told = append(l.told, fmt.Sprintf("%v %s %s %d", e.Kind, e.Owner, e.Namespace, e.Acquires))
	})
}

func (l *listening) heard() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.told)
}

// takes has it take a path with a lease that is tied to it, and answers what it is to be told of that.
func (l *listening) takes(kind wire.EventKind, owner, path, ns string) (says string) {
	l.r.t.Helper()
	req := write(owner, path, time.Hour)
	req.Flags |= wire.FlagBind
	l.must(req)
	return fmt.Sprintf("%v %s %s %d", kind, owner, ns, []uint64{wire.AcquireMark(l.session.ID, l.r.next.Load())})
}

func kill(owner string) *wire.Request { return &wire.Request{Op: wire.OpForceRelease, Owner: owner} }

// TestTellsOfLeases: a session is told what happens to its leases, with the acquire that took each, and no other
// session's; and nothing when it wants to hear no more.
func TestTellsOfLeases(t *testing.T) {
	r := newRig(t, nil)
	a, b := r.listening(), r.listening()
	var want []string
	for i := range 5 {
		owner := fmt.Sprint("o", i)
		says := a.takes(wire.EventKilled, owner, "h:/a/"+owner, "h:/a")
		want = append(want, says)
		b.must(kill(owner))
		r.told()
	}
	want = append(want, a.takes(wire.EventRevoke, "p", "h:/a/p", "h:/a"))
	b.must(&wire.Request{Op: wire.OpRequestRevoke, Owner: "p"})
	r.told()
	a.must(release("p", "h:/a/p"))
	loose := write("q", "h:/a/q", time.Hour) // which is tied to nothing
	a.must(loose)
	b.must(kill("q"))
	r.told()
	if got := a.heard(); !slices.Equal(got, want) {
		t.Errorf("told %q, want %q", got, want)
	}
	if got := b.heard(); len(got) != 0 {
		t.Errorf("another session was told %q", got)
	}
	a.takes(wire.EventKilled, "o", "h:/a/x", "h:/a")
	a.stop()
	b.must(kill("o"))
	r.told()
	if got := a.heard(); len(got) != len(want) {
		t.Errorf("told %q after its end", got[len(want):])
	}
	if h := r.node.hub; len(h.tellers.by) != 1 || len(h.tellers.all) != 1 {
		t.Errorf("%d sessions and %d connections are kept, want one", len(h.tellers.by), len(h.tellers.all))
	}
}

// TestTellsEverywhere: a session is told at whichever of three nodes it is connected to, of logs that this one does
// not lead; and where it goes on, of what it took before.
func TestTellsEverywhere(t *testing.T) {
	t.Parallel()
	f := newLocalCluster(t, 3, nil)
	f.settle(3)
	killer := f.rigOn(0).session()
	for i := range f.nodes {
		r := f.rigOn(i)
		l := r.listening()
		want := make(map[string]bool)
		for k := range 8 { // of which each node leads some
			owner := fmt.Sprintf("o%d-%d", i, k)
			want[l.takes(wire.EventKilled, owner, fmt.Sprintf("h:/%d/x", k), fmt.Sprintf("h:/%d", k))] = true
			killer.must(kill(owner))
		}
		toldAll := func() bool {
			for _, says := range l.heard() {
				delete(want, says)
			}
			return len(want) == 0
		}
		f.until("it is told all", toldAll) // the kills are answered when the leaders have carried them out
		want[l.takes(wire.EventKilled, fmt.Sprint("moved", i), "h:/moved/x", "h:/moved")] = true
		l.stop()
		l.hears(f.nodes[(i+1)%3])
		killer.must(kill(fmt.Sprint("moved", i)))
		f.until("it is told all where it goes on", toldAll)
		l.stop()
	}
}

// TestTellsWhereFed: a node without a replica is told by the node that feeds it; and when that could not be, who is
// connected there hears that he may have missed something.
func TestTellsWhereFed(t *testing.T) {
	t.Parallel()
	const path = "h:/fed/x"
	w := new(network)
	f := apart(t, func(_ int, c *Config) {
		c.Faults = w
		c.ElectionMin, c.Heartbeat = 30*time.Second, time.Second
	})
	n := f.nodes[0]
	shard := n.logOf(n.groupOf(n.routes.Load().Resolve(path))).shard
	f.listen(1, 0, shard)
	r := f.rigOn(1)
	l, killer := r.listening(), f.rigOn(0).session()
	says := l.takes(wire.EventKilled, "o", path, "h:/fed")
	killer.must(kill("o"))
	f.until("it is told", func() bool { return slices.Contains(l.heard(), says) })

	missed := func() (n int) {
		for _, says := range l.heard() {
			if says == "missed" {
				n++
			}
		}
		return n
	}
	gap := func(what string, do func()) {
		t.Helper()
		before := missed()
		do()
		f.until(what, func() bool { return missed() > before })
	}
	says = l.takes(wire.EventKilled, "o", path, "h:/fed")
	gap("it hears that it may have missed something, as the way was cut", func() {
		w.set("n-1", true)
		killer.must(kill("o"))
		w.set("n-1", false)
	})
	gap("its source has jumped", func() { n.hub.Missed(shard, n.hub.where(shard).Index+1) })
	says = l.takes(wire.EventKilled, "o", path, "h:/fed")
	killer.must(kill("o"))
	f.until("it is told of what comes", func() bool { return slices.Contains(l.heard(), says) })
}

// TestToldFrames: what one node tells another is read as it was written, in frames that are not too long; and a frame
// that is cut short is an error.
func TestToldFrames(t *testing.T) {
	h, far := newHub(10), &fedPeer{}
	h.feedLeases(far, 2)
	h.stream(2).feeds = append(h.stream(2).feeds, far, &fedPeer{t: t})
	var told []engine.Told
	for i := range 3000 {
		told = append(told, engine.Told{Session: engine.Session{byte(i)}, LeaseEvent: wire.LeaseEvent{
			Kind: wire.EventExpired, Owner: fmt.Sprint("o", i), Namespace: "h:/a", Acquires: []uint64{uint64(i), 1 << 63},
		}})
	}
	many := make([]uint64, wire.MaxLeaseAcquires)
	for i := range told {
		told[i].Acquires = append(told[i].Acquires, many[:i%len(many)]...)
	}
	h.tellLeases(2, told)
	to := newHub(10)
	var got, missed int
	for i := range 256 {
		to.tellers.add(engine.Session{byte(i)}, func(e *wire.LeaseEvent) {
			if e.Kind == 0 {
				missed++
				return
			}
			n := 0
			if _, err := fmt.Sscanf(e.Owner, "o%d", &n); err != nil || n%256 != i || !slices.Equal(e.Acquires,
				told[n].Acquires) ||
				e.Namespace != "h:/a" || e.Kind != wire.EventExpired {
				t.Errorf("session %d was told %+v", i, e)
			}
			got++
		})
	}
	for _, frame := range far.frames {
		if len(frame) > 2*maxLeaseFrame {
			t.Errorf("a frame has %d bytes", len(frame))
		}
		r := replica.EntryReader{Buf: frame[1:]}
		if frame[0] != frameLeases || r.Uvarint() != 2 {
			t.Fatalf("frame %x", frame[:3])
		}
		to.leaseFrame(&r)
		if r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	if got != len(told) || missed != 256 || len(far.frames) < 3 {
		t.Errorf("%d of %d were told in %d frames, and %d that they may have missed some", got, len(told), len(far.frames),
			missed)
	}
	short := replica.EntryReader{Buf: far.frames[1][2 : len(far.frames[1])-3]}
	if to.leaseFrame(&short); short.Err == nil {
		t.Error("a frame that is cut short is taken")
	}
}

// fedPeer is a node that is fed, as its source sees it. One with a test takes no frames of leases.
type fedPeer struct {
	t      *testing.T
	frames [][]byte
}

func (p *fedPeer) Send(frame []byte) bool {
	if p.t != nil {
		p.t.Errorf("a node that did not ask for it is sent %x", frame[:1])
	}
	p.frames = append(p.frames, slices.Clone(frame))
	return true
}

func (p *fedPeer) Unsent() int { return 0 }

func (p *fedPeer) Close(error) {}

// TestMissedWhileSomeLeave: whoever stays is told that he may have missed some, also when others leave in the meantime.
func TestMissedWhileSomeLeave(t *testing.T) {
	const many = 4 * atOnce
	var (
		h       = newHub(10)
		told    [many]int
		leaving sync.Once
		stops   []func()
		left    = make(chan struct{})
	)
	for i := range many {
		stops = append(stops, h.tellers.add(engine.Session{byte(i), byte(i >> 8)}, func(*wire.LeaseEvent) {
			told[i]++
			leaving.Do(func() { // the first hundred, once the lock is let go
				go func() {
					defer close(left)
					for _, stop := range stops[:100] {
						stop()
					}
				}()
			})
			time.Sleep(20 * time.Microsecond) // who waits for the lock for more than a millisecond is next
		}))
	}
	h.tellers.missed()
	<-left
	for i, n := range told[100:] {
		if n == 0 {
			t.Fatalf("connection %d of %d is not told", 100+i, many)
		}
	}
}

// TestToldOfMany: of an entry that ends the leases of very many a node that is fed is told as much as a way takes,
// and then that this was not all.
func TestToldOfMany(t *testing.T) {
	const many = 100_000
	h, far := newHub(10), &fedPeer{}
	h.feedLeases(far, 2)
	h.stream(2).feeds = append(h.stream(2).feeds, far)
	far.frames = nil
	long := strings.Repeat("o", 700)
	told := make([]engine.Told, many)
	for i := range told {
		told[i] = engine.Told{Session: engine.Session{1}, LeaseEvent: wire.LeaseEvent{
			Kind: wire.EventKilled, Owner: long, Namespace: "h:/a", Acquires: []uint64{uint64(i)},
		}}
	}
	heard := 0
	h.tellers.add(engine.Session{1}, func(*wire.LeaseEvent) { heard++ })
	h.tellLeases(2, told)
	bytes := 0
	for _, frame := range far.frames {
		bytes += len(frame)
	}
	if last := far.frames[len(far.frames)-1]; bytes > mesh.MaxFrameBytes || len(last) != 2 {
		t.Errorf("%d bytes are sent in %d frames, the last of which has %d", bytes, len(far.frames), len(last))
	}
	if heard != many {
		t.Errorf("%d of %d were told here", heard, many)
	}
}

// TestToldSomeAtATime: whoever comes while a node tells of many leases does not wait until it has told of all.
func TestToldSomeAtATime(t *testing.T) {
	var (
		h        = newHub(10)
		told     = make([]engine.Told, 4*atOnce)
		heard    atomic.Int64
		coming   sync.Once
		came     = make(chan int64)
		patience = 20 * time.Microsecond // of which many make a millisecond: who waits for that long for a lock is next
	)
	h.tellers.add(engine.Session{}, func(*wire.LeaseEvent) {
		heard.Add(1)
		coming.Do(func() {
			go func() {
				h.tellers.add(engine.Session{1}, nil)
				came <- heard.Load()
			}()
		})
		time.Sleep(patience)
	})
	h.tellLeases(2, told)
	if n := <-came; n == int64(len(told)) {
		t.Errorf("it came when all %d had been told", n)
	}
}
