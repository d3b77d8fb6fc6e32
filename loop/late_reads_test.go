package loop_test

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/groups"
	"github.com/pathlockd/pathlockd/internal/tcp"
	"github.com/pathlockd/pathlockd/loop"
	"github.com/pathlockd/pathlockd/wire"
)

// slowDescribe answers describe when it is told to, as a node does that waits for a log's leader.
type slowDescribe struct {
	*groups.Node
	mu       sync.Mutex
	held     []*wire.Call
	released map[string]int // by owner
	closed   int
}

func (h *slowDescribe) Serve(calls []*wire.Call) {
	for i, c := range calls {
		h.mu.Lock()
		if c.Op == wire.OpRelease {
			h.released[c.Req.Owner]++
		}
		hold := wire.AnswerOf(c.Req) == wire.LongAnswer
		if hold {
			h.held = append(h.held, c)
		}
		h.mu.Unlock()
		if !hold {
			h.Node.Serve(calls[i : i+1])
		}
	}
}

func (h *slowDescribe) Closed(s *wire.Session, tied, resumed bool) {
	h.mu.Lock()
	h.closed++
	h.mu.Unlock()
	h.Node.Closed(s, tied, resumed)
}

// answer answers those that it holds.
func (h *slowDescribe) answer() {
	h.mu.Lock()
	held := h.held
	h.held = nil
	h.mu.Unlock()
	for _, c := range held {
		c.Req = new(wire.Request)
		if err := wire.DecodeArgs(c.Op, c.Body, c.NArgs, c.Req); err != nil {
			panic(err)
		}
		h.Node.Serve([]*wire.Call{c})
	}
}

func (h *slowDescribe) is(so func() bool) func() bool {
	return func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return so()
	}
}

// readLate is how a release comes behind descriptions.
type readLate string

const (
	atOnce     readLate = "with them"
	behind     readLate = "behind them"
	inTwo      readLate = "in two parts"
	offItsLoop readLate = "off its loop"
)

// behindDescribe is a client that has as many descriptions under way as it may, of a log that has no leader, and one
// more than as many behind them, then a release of what it holds; off its loop much else is before that, and nothing
// more is read of its connection.
func behindDescribe(t *testing.T, how readLate) (srv *loop.Server, h *slowDescribe, p, other *peer, owner string,
	release uint64) {
	node := shared.get(t)
	h = &slowDescribe{Node: node, released: make(map[string]int)}
	srv, err := loop.New(h, loop.Options{NodeID: node.NodeID(), ClusterID: node.ClusterID(),
		RepeatMillis: groups.RepeatMillis, Log: quiet, Loops: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = srv.Close() })
	addr, err := srv.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	owner = named("late")
	other, p = join(t, addr), join(t, addr)
	if res := p.ask(&wire.Request{Op: wire.OpBind, Owner: owner, GraceMillis: 100}); res.Code != wire.OK {
		t.Fatal(res.Err())
	}
	w := write(owner, owner+":/a/x")
	w.TTLMillis = uint64(time.Hour.Milliseconds())
	p.must(w)
	var reqs []*wire.Request
	for range 2*wire.MaxGathered + 1 {
		reqs = append(reqs, &wire.Request{Op: wire.OpDescribe, Path: owner + ":/a"})
	}
	for i := 0; i < 6 && how == offItsLoop; i++ { // a little more than is kept in memory
		req := &wire.Request{Op: wire.OpRelease, Owner: owner + "z"}
		for j := range 100 {
			req.Releases = append(req.Releases,
				wire.ReleaseRequest{Path: fmt.Sprintf("%s:/a/b%d-%d/%s", owner, i, j, strings.Repeat("x", 600))})
		}
		reqs = append(reqs, req)
	}
	before, _ := p.encode(reqs...)
	own, ids := p.encode(releaseOf(owner))
	first := map[readLate]int{atOnce: len(own), offItsLoop: len(own), behind: 0, inTwo: len(own) / 2}[how]
	p.send(append(before, own[:first]...))
	eventually(t, "as many as may be are under way", h.has(wire.MaxGathered))
	if first < len(own) {
		p.send(own[first:])
		eventually(t, "the rest is read", func() bool { return srv.Behind() == len(own) })
	}
	if how == offItsLoop {
		eventually(t, "nothing more is read", func() bool { return srv.Lanes() == 1 })
	}
	release = ids[0]
	return srv, h, p, other, owner, release
}

func (h *slowDescribe) has(n int) func() bool { return h.is(func() bool { return len(h.held) == n }) }

func releaseOf(owner string) *wire.Request {
	return &wire.Request{Op: wire.OpRelease, Owner: owner, Releases: []wire.ReleaseRequest{{Path: owner + ":/a/x"}}}
}

// TestReadLate: what a client sent behind descriptions is taken once they are answered, and if it has lain unread for
// over a minute by then, in however many rounds of them, it is refused: the client may have asked elsewhere long ago,
// and its session be forgotten. The connection stays, and what is sent on it later is taken.
func TestReadLate(t *testing.T) {
	for _, how := range []readLate{atOnce, behind, inTwo, offItsLoop} {
		for _, late := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s late %v", how, late), func(t *testing.T) {
				srv, h, p, _, owner, release := behindDescribe(t, how)
				round := tcp.GoneWithin - 5*time.Second
				if late {
					round = tcp.GoneWithin
				}
				srv.Waited(round)
				h.answer()
				eventually(t, "the next are under way", h.has(wire.MaxGathered))
				p.start(releaseOf(owner + "z")) // which is younger
				srv.Waited(round)
				h.answer()
				res := p.reply(release)
				carried := h.is(func() bool { return h.released[owner] > 0 })()
				if !late {
					if res.Code != wire.OK || !carried {
						t.Fatalf("%v: %v", carried, res.Err())
					}
					return
				}
				if carried || res.Code != wire.Unavailable ||
					!strings.Contains(res.Message, "lay unread for over 1m0s") {
					t.Fatalf("carried out: %v; %v", carried, res.Err())
				}
				later := releaseOf(owner)
				if how == offItsLoop { // more lay there than a socket holds: who knows what is new
					p.refused(later, wire.Unavailable, "lay unread")
					later.Settled = release + 1
				}
				p.must(later)
				later.Settled = 0
				p.must(later)
			})
		}
	}
}

// TestReadLateForLong: until a connection was read for a minute, what comes there may have been sent before, if
// nothing says that it was not: what a proxy holds may come slowly.
func TestReadLateForLong(t *testing.T) {
	srv, h, p, _, owner, release := behindDescribe(t, offItsLoop)
	srv.Waited(time.Hour)
	h.answer()
	if res := p.reply(release); res.Code != wire.Unavailable {
		t.Fatal(res.Err())
	}
	for range 6 { // as if it came over a minute
		later := releaseOf(owner)
		later.Settled = 4 // below the descriptions, which were answered since
		p.refused(later, wire.Unavailable, "lay unread")
		srv.ReadsFor(9 * time.Second)
	}
	srv.ReadsFor(9 * time.Second)
	p.must(releaseOf(owner))
}

// TestSettledBeforeItLay: what a client knew before it was not read shows nothing, of a pause that came after that
// either.
func TestSettledBeforeItLay(t *testing.T) {
	srv, h, p, _, owner, release := behindDescribe(t, offItsLoop)
	h.answer()
	eventually(t, "the next are under way", h.has(wire.MaxGathered))
	behind := releaseOf(owner) // sent now, with what it knows now
	behind.Settled = 4         // below the descriptions
	id := p.start(behind)[0]
	srv.Waited(time.Hour)
	h.answer()
	for _, id := range []uint64{release, id} {
		if res := p.reply(id); res.Code != wire.Unavailable {
			t.Fatalf("request %d: %v %v", id, res.Code, res.Err())
		}
	}
}

// TestSlowOnceIsNotLate: a connection was off its loop once, was read for an hour since, and nothing came. Then it
// has to leave its loop again, for what is pushed. What its client sends right then is as on any other connection.
func TestSlowOnceIsNotLate(t *testing.T) {
	srv, h, p, other, owner, release := behindDescribe(t, offItsLoop)
	h.answer()
	eventually(t, "the next are under way", h.has(wire.MaxGathered))
	h.answer()
	eventually(t, "the last is under way", h.has(1))
	h.answer()
	if res := p.reply(release); res.Code != wire.OK {
		t.Fatal(res.Err())
	}
	watched := owner + strings.Repeat("o", 1000)
	p.must(subscribe(watched))
	eventually(t, "it is back on its loop", func() bool { return srv.Lanes() == 0 })
	srv.Waited(time.Hour)
	srv.ReadsFor(time.Hour)
	for revokes := slices.Repeat([]*wire.Request{{Op: wire.OpRequestRevoke, Owner: watched}}, 100); srv.Lanes() == 0; {
		for _, id := range other.start(revokes...) {
			other.reply(id)
		}
	}
	p.must(write(owner, owner+":/a/y"))
}

// TestReadAgainIsNotLate: once a connection that was not read for long is read again, what comes is as on any other.
func TestReadAgainIsNotLate(t *testing.T) {
	srv, h, p, _, owner, release := behindDescribe(t, offItsLoop)
	h.answer()
	eventually(t, "the next are under way", h.has(wire.MaxGathered))
	h.answer()
	eventually(t, "the last is under way", h.has(1))
	h.answer()
	if res := p.reply(release); res.Code != wire.OK {
		t.Fatal(res.Err())
	}
	srv.Waited(time.Hour)
	srv.ReadsFor(time.Hour)
	p.must(write(owner, owner+":/a/y"))
}

// TestAlwaysMoreAskedIsNotLate: a client that always has more descriptions unanswered than are carried out at once is
// served for however long, if each is answered soon.
func TestAlwaysMoreAskedIsNotLate(t *testing.T) {
	srv, h, p, _, owner, release := behindDescribe(t, atOnce)
	some := slices.Repeat([]*wire.Request{{Op: wire.OpDescribe, Path: owner + ":/a"}}, wire.MaxGathered)
	ids := []uint64{release}
	for range 12 {
		ids = append(ids, p.start(some...)...)
		ids = append(ids, p.start(write(owner+"y", owner+":/b"))...)
		srv.Waited(10 * time.Second)
		h.answer()
		eventually(t, "the next are under way", h.has(wire.MaxGathered))
	}
	h.answer()
	eventually(t, "the next are under way", h.has(wire.MaxGathered))
	h.answer()
	eventually(t, "the last is under way", h.has(1))
	h.answer()
	for _, id := range ids {
		if res := p.reply(id); res.Code != wire.OK {
			t.Fatal(res.Err())
		}
	}
}

// TestHungUpWhileNothingIsRead: such a client hangs up. That is noticed though its descriptions have no answer: what is
// tied to its connection ends, and what it sent is not carried out later.
func TestHungUpWhileNothingIsRead(t *testing.T) {
	_, h, p, other, owner, _ := behindDescribe(t, offItsLoop)
	// By a reset: a FIN may come to lie behind what the server does not read.
	if err := p.conn.(*net.TCPConn).SetLinger(0); err != nil {
		t.Fatal(err)
	}
	p.hangUp()
	eventually(t, "it is noticed", h.is(func() bool { return h.closed > 0 }))
	eventually(t, "what is tied ends", func() bool {
		return other.ask(&wire.Request{Op: wire.OpInspectPath, Path: owner + ":/a/x"}).Owner == ""
	})
	h.answer()
	eventually(t, "they are answered", h.is(func() bool { return h.closed > 1 })) // which is told then
	if h.is(func() bool { return h.released[owner] > 0 })() {
		t.Error("the release was carried out")
	}
}

// TestReadLateOverASlowLink: what lay unread for eight minutes, in a proxy say, comes at 1 MB a second once there is
// room.
func TestReadLateOverASlowLink(t *testing.T) {
	srv, h, p, _, owner, first := behindDescribe(t, offItsLoop)
	var frames []byte
	for i := 0; len(frames) < 2<<20; i++ {
		req := &wire.Request{Op: wire.OpRelease, Owner: owner + "z"}
		for j := range 100 {
			path := fmt.Sprintf("%s:/b/b%d-%d/%s", owner, i, j, strings.Repeat("x", 600))
			req.Releases = append(req.Releases, wire.ReleaseRequest{Path: path})
		}
		b, _ := p.encode(req)
		frames = append(frames, b...)
	}
	own, ids := p.encode(releaseOf(owner))
	frames = append(frames, own...)
	sent := make(chan error, 1)
	go func() {
		var err error
		for piece := range slices.Chunk(frames, 16<<10) {
			if _, err = p.conn.Write(piece); err != nil {
				break
			}
			time.Sleep(16 * time.Millisecond) // its rate: there is nothing to wait for
		}
		sent <- err
	}()
	srv.Waited(8 * time.Minute)
	h.answer()
	for _, id := range []uint64{first, ids[0]} {
		if res := p.reply(id); res.Code != wire.Unavailable {
			t.Errorf("lay unread for 8 minutes: %v %v", res.Code, res.Err())
		}
	}
	if err := <-sent; err != nil {
		t.Error(err)
	}
	if h.is(func() bool { return h.released[owner] > 0 })() {
		t.Error("a release that lay unread for 8 minutes was carried out")
	}
}

// TestEventsInBurstsAreNotLate: a client takes all that it is sent at once. Several times a second so many events
// come at once that its socket does not hold them for a moment, so its connection goes off its loop and back. None
// of its requests lies unread for longer than that moment, for however long this goes on.
func TestEventsInBurstsAreNotLate(t *testing.T) {
	s := serve(t, loop.Options{})
	other := join(t, s.unix)
	small := net.Dialer{Control: func(_, _ string, c syscall.RawConn) error { // as over a way that is long, or slow
		return c.Control(func(fd uintptr) {
			_ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 16<<10)
		})
	}}
	c, err := small.Dial(s.unix.Network(), s.unix.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	p := &peer{t: t, conn: c, ops: make(map[uint64]wire.Op), replies: make(map[uint64]wire.Result)}
	if res := p.greet(&wire.Hello{}); res.Code != wire.OK {
		t.Fatal(res.Err())
	}
	owner := named("burst")
	watched := owner + strings.Repeat("o", 1000)
	p.must(subscribe(watched))
	p.must(write(owner, owner+":/a/x"))
	off := 0
	for range 20 {
		for range 4 {
			for _, id := range other.start(slices.Repeat([]*wire.Request{{Op: wire.OpRequestRevoke, Owner: watched}},
				100)...) {
				other.reply(id)
			}
		}
		off += s.Lanes()
		if res := p.ask(&wire.Request{Op: wire.OpRenew, Owner: owner, TTLMillis: 5000}); res.Code != wire.OK {
			t.Fatalf("%v, after it was off its loop %d times", res.Err(), off)
		}
		p.pushes = nil
		s.Waited(20 * time.Second)
	}
	if off == 0 {
		t.Error("this shows nothing: it was never off its loop")
	}
}

// TestCutFramesAreNotLate: as TestAlwaysMoreAskedIsNotLate, but what is read ends in the middle of a frame each time.
// Nothing waits for more than four seconds.
func TestCutFramesAreNotLate(t *testing.T) {
	srv, h, p, _, owner, release := behindDescribe(t, atOnce)
	some := slices.Repeat([]*wire.Request{{Op: wire.OpDescribe, Path: owner + ":/a"}}, wire.MaxGathered)
	open, began := []uint64{release}, map[uint64]int{release: 0}
	var rest []byte
	for round := 1; round < 90; round++ {
		frames, ids := p.encode(some...)
		own, id := p.encode(write(owner+"y", owner+":/b"))
		open = append(append(open, ids...), id...)
		for _, id := range append(ids, id...) {
			began[id] = round
		}
		all := append(append(rest, frames...), own...)
		cut := len(all) - len(own)/2
		before := srv.Behind()
		p.send(all[:cut])
		rest = slices.Clone(all[cut:])
		eventually(t, "it is read", func() bool { return srv.Behind() == before+cut })
		srv.Waited(time.Second)
		h.answer()
		eventually(t, "the next are under way", h.has(wire.MaxGathered))
		for len(open) > 0 && began[open[0]] < round-4 {
			if res := p.reply(open[0]); res.Code != wire.OK {
				t.Fatalf("second %d: what was sent in second %d is answered %v", round, began[open[0]], res.Err())
			}
			open = open[1:]
		}
	}
}
