package loop_test

import (
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/groups"
	"github.com/pathlockd/pathlockd/internal/tcp"
	"github.com/pathlockd/pathlockd/loop"
	"github.com/pathlockd/pathlockd/wire"
)

// slowLists answers listings when it is told to, as a node does that waits for a log's leader.
type slowLists struct {
	*groups.Node
	mu       sync.Mutex
	held     []*wire.Call
	free     bool
	released map[string]int // by owner
	closed   int
}

func (h *slowLists) Serve(calls []*wire.Call) {
	for i, c := range calls {
		h.mu.Lock()
		if c.Op == wire.OpRelease {
			h.released[c.Req.Owner]++
		}
		hold := c.Op.Lists() && !h.free
		if hold {
			h.held = append(h.held, c)
		}
		h.mu.Unlock()
		if !hold {
			h.Node.Serve(calls[i : i+1])
		}
	}
}

func (h *slowLists) Closed(s *wire.Session, tied, resumed bool) {
	h.mu.Lock()
	h.closed++
	h.mu.Unlock()
	h.Node.Closed(s, tied, resumed)
}

// answer answers the listings.
func (h *slowLists) answer() {
	h.mu.Lock()
	held := h.held
	h.held, h.free = nil, true
	h.mu.Unlock()
	for _, c := range held {
		h.Node.Serve([]*wire.Call{c})
	}
}

func (h *slowLists) is(so func() bool) func() bool {
	return func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return so()
	}
}

// behindListings is a client that has as many listings under way as it may, of a log that has no leader, and more of them, a release
// of what it holds, and much else behind: nothing more is read of its connection.
func behindListings(t *testing.T) (srv *loop.Server, h *slowLists, p, other *peer, owner string) {
	node := shared.get(t)
	h = &slowLists{Node: node, released: make(map[string]int)}
	srv, err := loop.New(h, loop.Options{NodeID: node.NodeID(), ClusterID: node.ClusterID(), RepeatMillis: groups.RepeatMillis, Log: quiet, Loops: 1})
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
	for range wire.MaxListings + 1 {
		reqs = append(reqs, &wire.Request{Op: wire.OpListLocks, Owner: owner})
	}
	reqs = append(reqs, &wire.Request{Op: wire.OpRelease, Owner: owner, Releases: []wire.ReleaseRequest{{Path: owner + ":/a/x"}}})
	for i := range 6 { // a little more than is kept in memory
		req := &wire.Request{Op: wire.OpRelease, Owner: owner + "z"}
		for j := range 100 {
			req.Releases = append(req.Releases, wire.ReleaseRequest{Path: fmt.Sprintf("%s:/a/b%d-%d/%s", owner, i, j, strings.Repeat("x", 600))})
		}
		reqs = append(reqs, req)
	}
	p.start(reqs...)
	eventually(t, "nothing more is read", func() bool {
		return h.is(func() bool { return len(h.held) == wire.MaxListings })() && srv.Lanes() == 1
	})
	return srv, h, p, other, owner
}

// TestReadLate: what a client sent behind listings is taken once they are answered, if that is before it counts as gone; later it is
// not, for the client may have asked elsewhere: it is told so, behind the answers.
func TestReadLate(t *testing.T) {
	for _, late := range []bool{false, true} {
		t.Run(fmt.Sprint(late), func(t *testing.T) {
			srv, h, p, other, owner := behindListings(t)
			if late {
				srv.ReadNothing(tcp.GoneWithin)
			} else {
				srv.ReadNothing(tcp.GoneWithin - 5*time.Second)
			}
			h.answer()
			if !late {
				eventually(t, "the release is carried out", h.is(func() bool { return h.released[owner] > 0 }))
				return
			}
			p.endedWith(wire.DeadlineExceeded, "was not taken")
			eventually(t, "what is tied ends", func() bool {
				return other.ask(&wire.Request{Op: wire.OpInspectPath, Path: owner + ":/a/x"}).Owner == ""
			})
			if h.is(func() bool { return h.released[owner] > 0 })() {
				t.Error("the release was carried out")
			}
		})
	}
}

// TestHungUpWhileNothingIsRead: such a client hangs up. That is noticed though its listings have no answer: what is tied to its
// connection ends, and what it sent is not carried out later.
func TestHungUpWhileNothingIsRead(t *testing.T) {
	_, h, p, other, owner := behindListings(t)
	// By a reset: a FIN may come to lie behind what the server does not read (TestReadLate).
	if err := p.conn.(*net.TCPConn).SetLinger(0); err != nil {
		t.Fatal(err)
	}
	p.hangUp()
	eventually(t, "it is noticed", h.is(func() bool { return h.closed > 0 }))
	eventually(t, "what is tied ends", func() bool {
		return other.ask(&wire.Request{Op: wire.OpInspectPath, Path: owner + ":/a/x"}).Owner == ""
	})
	h.answer()
	eventually(t, "the listings are answered", h.is(func() bool { return h.closed > 1 })) // which is told then
	if h.is(func() bool { return h.released[owner] > 0 })() {
		t.Error("the release was carried out")
	}
}
