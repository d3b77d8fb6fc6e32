package groups

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/groups/replica"
	"github.com/pathlockd/pathlockd/wire"
)

// unledRig is a node of which one log is led by nobody, as far as the node knows, and answers no reads.
type unledRig struct {
	*rig
	raft  mute
	log   *shardLog
	was   *leadership
	led   []string // namespaces whose logs are led, each another one
	unled []string // namespaces in the log that is not
}

func newUnledRig(t *testing.T) *unledRig {
	u := new(unledRig)
	u.rig = newRig(t, func(c *Config) {
		c.LogCount, c.RequestTimeout = 4, 10*time.Minute
		u.raft.into(c)
	})
	n := u.node
	seen := make(map[uint64]bool)
	for i := 0; len(u.led) < 3 || len(u.unled) < 2; i++ {
		ns := fmt.Sprintf("h:/n%d", i)
		switch l := n.logOf(n.groupOf(ns)); {
		case u.log == nil:
			u.log = l
			fallthrough
		case l == u.log:
			u.unled = append(u.unled, ns)
		case !seen[l.shard]:
			seen[l.shard] = true
			u.led = append(u.led, ns)
		}
	}
	eventually(t, "every log is led", func() bool { return len(n.leaderless()) == 0 })
	u.was = u.log.lead.Load()
	return u
}

// loses has nobody lead the log until finds is called.
func (u *unledRig) loses() {
	u.raft.silent.Store(u.log.shard)
	u.node.noteLost(u.log.shard, true)
	u.log.leaderChanged(u.was.term, 0)
}

func (u *unledRig) finds() {
	u.raft.silent.Store(0)
	u.node.noteLost(u.log.shard, false)
	u.log.leaderChanged(u.was.term, u.was.leader)
	u.log.held.Store(u.was.term)
	u.log.kick()
}

// refuses says that a call is refused at once, and told which log it is that it would wait for.
func (u *unledRig) refuses(what string, res wire.Result) {
	u.t.Helper()
	if res.Code != wire.Unavailable || !strings.HasPrefix(res.Message, fmt.Sprintf("log %d has had no leader for ",
		u.log.shard)) ||
		!strings.Contains(res.Message, "nothing was") {
		u.t.Errorf("%s: %v %q", what, res.Code, res.Message)
	}
}

// TestCallsThatWaitForALeaderLeaveRoom: calls that are about owners everywhere wait for the one log that nobody leads.
// They get half of the places; what needs no such log, health and what operators ask go on.
func TestCallsThatWaitForALeaderLeaveRoom(t *testing.T) {
	t.Parallel()
	u := newUnledRig(t)
	n, c := u.node, u.session()
	for _, ns := range u.led {
		c.must(write("alice", ns+"/x", time.Hour))
	}
	u.loses()
	renew := func() *wire.Request { return &wire.Request{Op: wire.OpRenew, Owner: "alice", TTLMillis: 3_600_000} }
	waits := c.start(u.next.Add(1), renew())
	eventually(t, "a renewal waits", n.readers[u.log.shard].reading)
	for len(n.slow) < maxStepped/2 { // and so do many others
		n.slow <- struct{}{}
	}
	two := func(a, b string) *wire.Request {
		req := &wire.Request{Op: wire.OpRelease, Owner: "bob"}
		for _, ns := range []string{a, b} {
			req.Releases = append(req.Releases, wire.ReleaseRequest{Path: ns + "/y"})
		}
		return req
	}
	for range 100 {
		u.refuses("a renewal more", c.ask(renew()))
	}
	u.refuses("a release in namespaces of that log", c.ask(two(u.unled[0], u.unled[1])))
	for _, req := range []*wire.Request{
		{Op: wire.OpClusterStatus}, two(u.led[0], u.led[1]),
		{Op: wire.OpRenew, Owner: "alice", TTLMillis: 3_600_000, Domains: u.led},
		{Op: wire.OpIsOwnerAlive, Owner: "alice", Domains: u.led},
	} {
		if res := c.ask(req); res.Code != wire.OK {
			t.Errorf("%v: %v %q", req.Op, res.Code, res.Message)
		}
	}

	// All places are taken, by whatever it is.
	for len(n.slow) < maxStepped {
		n.slow <- struct{}{}
	}
	if res := c.ask(two(u.led[0], u.led[1])); res.Code != wire.Unavailable {
		t.Errorf("a release when all places are taken: %v %q", res.Code, res.Message)
	}
	if res := c.ask(&wire.Request{Op: wire.OpHealth}); res.Code != wire.OK ||
		!strings.Contains(res.Message, "no leader") {
		t.Errorf("health: %v %q", res.Code, res.Message)
	}
	if res := c.ask(&wire.Request{Op: wire.OpClusterStatus}); res.Code != wire.OK {
		t.Errorf("status: %v %q", res.Code, res.Message)
	}
	if len(waits.done) > 0 {
		t.Error("the renewal that waits is answered before its log is led")
	}
	for len(n.slow) > 1 {
		<-n.slow
	}
	u.finds()
	if res := waits.get(t, "the renewal that waits"); res.Code != wire.OK {
		t.Errorf("the renewal that waits: %v %q", res.Code, res.Message)
	}
	eventually(t, "all are counted out", func() bool { return !n.stepping() })
}

// TestBindBehindAcquiresWithoutALeader: a bind waits for acquires that came before it, and these for a log that nobody
// leads. It does not when half of the places are taken.
func TestBindBehindAcquiresWithoutALeader(t *testing.T) {
	t.Parallel()
	u := newUnledRig(t)
	c := u.session()
	u.loses()
	first := c.start(u.next.Add(1), write("o", u.unled[0]+"/x", time.Hour))
	for range maxStepped / 2 {
		u.node.slow <- struct{}{}
	}
	u.refuses("a bind", c.ask(&wire.Request{Op: wire.OpBind, Owner: "o", GraceMillis: 1000}))
	for range maxStepped / 2 {
		<-u.node.slow
	}
	u.finds()
	if res := first.get(t, "the acquire"); res.Code != wire.OK {
		t.Errorf("%v %q", res.Code, res.Message)
	}
}

// TestReadsThatWaitForALeaderLeaveRoom: of the reads that may be under way at other nodes half wait for logs that
// nobody leads.
func TestReadsThatWaitForALeaderLeaveRoom(t *testing.T) {
	t.Parallel()
	u := newUnledRig(t)
	u.loses()
	reads := &u.node.forwards.reads
	for range maxRemoteReads / 2 {
		if !reads.begin(maxRemoteReads) {
			t.Fatal("no room")
		}
	}
	u.refuses("a read of that log", u.node.askLeader(u.log, &replica.Query{What: replica.AskAny}, u.clock.Mono()))
	other := u.node.logOf(u.node.groupOf(u.led[0]))
	if res := u.node.askLeader(other, &replica.Query{What: replica.AskAny}, u.clock.Mono()); res.Code != wire.OK {
		t.Errorf("a read of another log: %v %q", res.Code, res.Message)
	}
	for range maxRemoteReads / 2 {
		reads.end()
	}
	u.finds()
}
