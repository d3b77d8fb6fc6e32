package groups

import (
	"strings"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestEndOfAClaimOverPeerBytes: a keyed release_all comes through a node that does not lead. As its parts are carried out the leader
// has nearly maxPeerBytes of that node's requests under way: the end of the claim, which carries the key, is refused. So nothing
// says that the call is done, though a note of its id would be smaller. Asked again under its id it goes on with the claim, and
// its answer is kept from then on.
func TestEndOfAClaimOverPeerBytes(t *testing.T) {
	const kept = 4 * time.Second
	f := apart(t, func(i int, c *Config) {
		if i != 0 {
			return
		}
		keysFor(int(kept.Milliseconds()))(c) // what leads states how long keys are kept
		var self *Node
		dragons := c.seams.raft
		c.seams.raft = func(n *Node) raft { self = n; return dragons(n) }
		c.seams.cutOff = func() map[string]bool { return nil }
		c.seams.peer = func(host string) peerConn {
			if self == nil || self.cluster == nil {
				return nil
			}
			if p := self.cluster.conn(host); p != nil {
				return p
			}
			return nil
		}
	})
	r := f.rigOn(1)
	leader := f.nodes[0]
	key := strings.Repeat("k", 950)
	for leader.logOf(wire.HomeOf(key, leader.cfg.GroupCount)) == leader.logOf(leader.groupOf("h:/a")) {
		key += "k"
	}
	c, other := r.session(), r.session()
	other.must(write("o", "h:/a/x", time.Hour))
	req := func() *wire.Request { return &wire.Request{Op: wire.OpReleaseAll, Owner: "o", Key: key} }
	l := leader.logOf(leader.groupOf("h:/a"))
	var in *inbound
	leader.forwards.mu.Lock()
	for _, x := range leader.forwards.in {
		in = x
	}
	leader.forwards.mu.Unlock()
	l.pauses(true)
	began := time.Now()
	id := r.next.Add(1)
	first := c.start(id, req())
	eventually(t, "its part is at the leader", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.mu.queue) > 0
	})
	in.bytes.Add(maxPeerBytes - 1200) // others of the same node
	l.pauses(false)
	res := first.get(t, "the first")
	in.bytes.Add(-(maxPeerBytes - 1200))
	if res.Code == wire.OK {
		t.Fatal("this shows nothing: the end of its claim was taken")
	}
	time.Sleep(time.Until(began.Add(kept - 1500*time.Millisecond)))
	again := c.startAs(id, req(), func(c *wire.Call) { c.Again = true }).get(t, "again by id")
	okAt := time.Now()
	if again.Code != wire.OK {
		t.Fatalf("by its id it is answered %v %s", again.Code, again.Message)
	}
	took := other.must(write("o", "h:/a/x", time.Hour))
	time.Sleep(time.Until(began.Add(kept + 300*time.Millisecond)))
	res = r.session().start(r.next.Add(1), req()).get(t, "by its key")
	since := time.Since(okAt)
	if holder := other.inspect("h:/a/x").Owner; holder != "o" && since < kept {
		t.Errorf("%v after the OK, with keys kept for %v, a repeat with the key is answered %v %s and took away what was taken with token %d since: held by %q",
			since, kept, res.Code, res.Message, took.Token, holder)
	}
}
