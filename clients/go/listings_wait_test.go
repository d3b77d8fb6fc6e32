package pathlockd

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/groups"
	"github.com/pathlockd/pathlockd/loop"
	"github.com/pathlockd/pathlockd/wire"
)

// leaderless is a node one of whose logs has no leader: what is asked of that for people it answers only when
// request_timeout_ms is over, as groups.Node does (askReadAgain).
type leaderless struct {
	*groups.Node
	held *atomic.Int64
}

func (s leaderless) Serve(calls []*wire.Call) {
	var rest []*wire.Call
	for _, c := range calls {
		if c.Op != wire.OpDescribe {
			rest = append(rest, c)
			continue
		}
		s.held.Add(1)
		time.AfterFunc(30*time.Second, func() { answers(c, wire.Unavailable) })
	}
	if len(rest) > 0 {
		s.Node.Serve(rest)
	}
}

// TestListingsOfALogWithoutALeader: a log has no leader, and a program asks for nine descriptions of paths there. Its
// lock is of another log, where all is well, and its server answers everything else at once. The lock is kept.
func TestListingsOfALogWithoutALeader(t *testing.T) {
	t.Parallel()
	const n = 9
	server(t)
	s := leaderless{shared.n.node, new(atomic.Int64)}
	srv, err := loop.New(s, loop.Options{
		NodeID: shared.n.node.NodeID(), ClusterID: shared.n.node.ClusterID(), RepeatMillis: groups.RepeatMillis,
	})
	must(t, err)
	t.Cleanup(func() { srv.Close() })
	at, err := srv.Listen("tcp", freeAddr(t))
	must(t, err)
	c := dial(t, at.String(), WithOneConnection())
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	l, err := c.TryLock(ctx, path(t, "/mine"), TTL(time.Hour))
	mustLock(t, l, err)
	for range n {
		go func() { _, _ = c.Describe(ctx, path(t, "/theirs"), 0) }()
	}
	eventually(t, "that they are under way", func() bool { return s.held.Load() >= 8 })
	select {
	case <-l.Lost():
		t.Fatalf("%d descriptions are under way, and the lock is lost: %v", n, l.Err())
	case <-time.After(20 * time.Second):
	}
}

// without is a node one of whose logs has no leader: that of the paths that a word is part of. What is about them is
// answered when request_timeout_ms is over.
type without struct {
	*groups.Node
	word string
	gone *atomic.Bool
	held *atomic.Int64
}

func (s without) Serve(calls []*wire.Call) {
	var rest []*wire.Call
	for _, c := range calls {
		if !s.gone.Load() || !strings.Contains(string(c.Body), s.word) ||
			c.Op != wire.OpRenew && c.Op != wire.OpListLocks {
			rest = append(rest, c)
			continue
		}
		if c.Op == wire.OpListLocks {
			s.held.Add(1)
		}
		time.AfterFunc(30*time.Second, func() { answers(c, wire.Unavailable) })
	}
	if len(rest) > 0 {
		s.Node.Serve(rest)
	}
}

// TestLooksAtALogWithoutALeader: a program holds locks of several owners that it names, and their log has no leader
// from some time on. It holds another lock, of another log, where all is well. That one is kept: the client's own
// questions for what the others hold are listings, of which the server takes only so many before it reads no more.
func TestLooksAtALogWithoutALeader(t *testing.T) {
	t.Parallel()
	const n = 12
	server(t)
	s := without{shared.n.node, "theirs", new(atomic.Bool), new(atomic.Int64)}
	srv, err := loop.New(s, loop.Options{
		NodeID: shared.n.node.NodeID(), ClusterID: shared.n.node.ClusterID(), RepeatMillis: groups.RepeatMillis,
	})
	must(t, err)
	t.Cleanup(func() { srv.Close() })
	at, err := srv.Listen("tcp", freeAddr(t))
	must(t, err)
	c := dial(t, at.String(), WithOneConnection())
	ctx := context.Background()
	l, err := c.TryLock(ctx, path(t, "/mine"), TTL(time.Hour))
	mustLock(t, l, err)
	for i := range n {
		l, err := c.TryLock(ctx, path(t, fmt.Sprintf("/theirs/%d", i)), Owner(fmt.Sprintf("%s-%d", t.Name(), i)),
			TTL(9*time.Second))
		mustLock(t, l, err)
	}
	time.Sleep(8 * time.Second) // the next renewals ask what is held
	s.gone.Store(true)
	select {
	case <-l.Lost():
		t.Fatalf("their log has no leader, %d questions for what they hold are under way, and my lock is lost: %v",
			s.held.Load(), l.Err())
	case <-time.After(18 * time.Second):
	}
	t.Logf("%d questions for what they hold were under way", s.held.Load())
}
