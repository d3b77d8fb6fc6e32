package loop_test

import (
	"sync"
	"testing"

	"github.com/pathlockd/pathlockd/groups"
	"github.com/pathlockd/pathlockd/loop"
	"github.com/pathlockd/pathlockd/wire"
)

// unled is a handler that leaves every incr_fencing_token unanswered until it is let go, as a node
// does with what goes to a log that has no leader.
type unled struct {
	*groups.Node
	mu   sync.Mutex
	held []*wire.Call
}

func (u *unled) Serve(calls []*wire.Call) {
	for i, c := range calls {
		if c.Op != wire.OpIncrToken {
			u.Node.Serve(calls[i : i+1])
			continue
		}
		u.mu.Lock()
		u.held = append(u.held, c)
		u.mu.Unlock()
	}
}

func (u *unled) holds() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.held)
}

func (u *unled) letGo() {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, c := range u.held {
		c.Res.Fail(wire.Errorf(wire.Unavailable, "no leader answered; nothing was done"))
		c.To.Reply(c)
		c.To.Flush()
	}
	u.held = nil
}

// TestGoneWithARequestUnderWay: a client has a request under way in a log without a leader, and
// crashes. What it holds and waits for in other logs does not stay until that is answered, which may
// take all of request_timeout_ms: a tied lease ends within the grace of the connection's end, and its
// waiting acquires leave the queue at once (PROTOCOL.md section 3, leases that follow the connection).
func TestGoneWithARequestUnderWay(t *testing.T) {
	u := &unled{Node: shared.get(t)}
	srv, err := loop.New(u, loop.Options{
		NodeID: u.NodeID(), ClusterID: u.ClusterID(), RepeatMillis: groups.RepeatMillis, Log: quiet,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = srv.Close() })
	defer u.letGo()
	addr, err := srv.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ns := named("underway")
	tied, wanted := ns+":/tied/x", ns+":/wanted/x"
	other := join(t, addr)
	other.must(write(ns+"other", wanted))
	p := joinAs(t, addr, &wire.Hello{Grace: 1})
	p.must(flagged(write(ns, tied), wire.FlagBind))
	p.start(flagged(write(ns, wanted), wire.FlagWait))
	p.push(wire.PushQueued)
	p.start(&wire.Request{Op: wire.OpIncrToken})
	eventually(t, "it is under way", func() bool { return u.holds() == 1 })
	p.hangUp()
	eventually(t, "the tied lease ends", func() bool { owner, _ := holder(other, tied); return owner == "" })
	eventually(t, "the wait leaves the queue", func() bool { return other.must(describe(wanted)).List.Waiters == nil })
	other.must(release(ns+"other", wanted))
	if owner, _ := holder(other, wanted); owner != "" {
		t.Errorf("%s was granted to %q, whose connection is gone", wanted, owner)
	}
}
