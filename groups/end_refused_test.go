package groups

import (
	"strings"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestEndOfAClaimOverPeerBytes: a keyed release_all comes through a node that does not lead. As its parts are carried
// out the leader has nearly maxPeerBytes of that node's requests under way: the end of the claim, which carries the
// key, is refused. So nothing says that the call is done, though a note of its id would be smaller. Asked again under
// its id it goes on with the claim, which is done then.
func TestEndOfAClaimOverPeerBytes(t *testing.T) {
	f := apart(t, nil)
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
	if res := c.startAs(id, req(), func(c *wire.Call) { c.Again = true }).get(t, "again by id"); res.Code != wire.OK {
		t.Fatalf("by its id it is answered %v %s", res.Code, res.Message)
	}
	s := steps{n: f.nodes[1], req: req(), since: f.nodes[1].clock.Mono()}
	s.c = &wire.Call{Op: wire.OpReleaseAll, ID: r.next.Add(1), Session: r.session().session}
	if cl, err := s.claim(nil); err != nil || !cl.done {
		t.Errorf("it was answered OK by its id, and its claim is done: %v, %v", cl.done, err)
	}
}
