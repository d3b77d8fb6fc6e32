package loop_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/loop"
	"github.com/pathlockd/pathlockd/wire"
)

// leavesUnread is a client that leaves what is pushed to it unread, so that its connection is off its loop, and is
// read there if a peer may leave outbound bytes unread. It holds owner:/a/x.
func leavesUnread(t *testing.T, outbound int) (srv *loop.Server, h *slowDescribe, p, other *peer, owner string) {
	node := shared.get(t)
	h = &slowDescribe{Node: node, released: make(map[string]int)}
	srv, err := loop.New(h, loop.Options{Log: quiet, Loops: 1, Outbound: outbound})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = srv.Close() })
	addr, err := srv.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p, other, owner = join(t, addr), join(t, addr), named("lane")
	p.must(write(owner, owner+":/a/x"))
	watched := owner + strings.Repeat("o", 1000)
	p.must(subscribe(watched))
	revokes := slices.Repeat([]*wire.Request{{Op: wire.OpRequestRevoke, Owner: watched}}, 50)
	for srv.Lanes() == 0 {
		for _, id := range other.start(revokes...) {
			other.reply(id)
		}
	}
	return srv, h, p, other, owner
}

// TestReadOffItsLoopIsNotLate: a connection that is off its loop for long, and read there all the time, is as any
// other.
func TestReadOffItsLoopIsNotLate(t *testing.T) {
	srv, _, p, _, owner := leavesUnread(t, 0)
	srv.Waited(time.Hour)
	srv.ReadsFor(time.Hour)
	if res := p.ask(releaseOf(owner)); res.Code != wire.OK {
		t.Error(res.Err())
	}
}

// TestReadLateOffItsLoop: such a connection comes to be unread there, behind descriptions. What lay in it then is
// refused.
func TestReadLateOffItsLoop(t *testing.T) {
	srv, h, p, other, owner := leavesUnread(t, 0)
	srv.Waited(time.Hour)
	srv.ReadsFor(time.Hour)
	p.start(write(owner, owner+":/a/y")) // which is read as new
	eventually(t, "it is carried out", func() bool {
		return other.ask(&wire.Request{Op: wire.OpInspectPath, Path: owner + ":/a/y"}).Owner == owner
	})
	reqs := slices.Repeat([]*wire.Request{{Op: wire.OpDescribe, Path: owner + ":/a"}}, wire.MaxGathered+1)
	for range 4 { // more than is read at once
		reqs = append(reqs, release(owner+"z", owner+":/b/"+strings.Repeat("x", 3000)))
		long := reqs[len(reqs)-1]
		long.Releases = slices.Repeat(long.Releases, 30)
	}
	ids := p.start(append(reqs, releaseOf(owner))...)
	eventually(t, "as many as may be are under way", h.has(wire.MaxGathered))
	srv.Waited(time.Hour)
	h.answer()
	res := p.reply(ids[len(ids)-1])
	if res.Code != wire.Unavailable || h.is(func() bool { return h.released[owner] > 0 })() {
		t.Errorf("carried out, though it lay unread for an hour: %v", res.Err())
	}
}

// TestBackUnreadIsNotLate: a connection that was not read off its loop is read once it is back there, and is as any
// other then.
func TestBackUnreadIsNotLate(t *testing.T) {
	srv, _, p, _, owner := leavesUnread(t, 1)
	long := release(owner+"z", owner+":/b/"+strings.Repeat("x", 3000))
	p.start(long, long) // more than a socket may hold
	p.must(ping())      // all else is taken before
	eventually(t, "it is back on its loop", func() bool { return srv.Lanes() == 0 })
	srv.Waited(time.Hour)
	srv.ReadsFor(time.Hour)
	if res := p.ask(releaseOf(owner)); res.Code != wire.OK {
		t.Error(res.Err())
	}
}

// TestReadLateOnItsLoop: a connection that was not read off its loop is read once it is back there. What lay in it
// is refused.
func TestReadLateOnItsLoop(t *testing.T) {
	srv, h, p, _, owner := leavesUnread(t, 1)
	id := p.start(releaseOf(owner))[0]
	srv.Waited(time.Hour)
	if res := p.reply(id); res.Code != wire.Unavailable || h.is(func() bool { return h.released[owner] > 0 })() {
		t.Errorf("carried out, though it lay unread for an hour: %v", res.Err())
	}
}

// readsSlowly has the client of leavesUnread read it all, and leave something unread again.
func readsSlowly(t *testing.T, srv *loop.Server, other *peer, owner string) {
	t.Helper()
	eventually(t, "it is back on its loop", func() bool { return srv.Lanes() == 0 })
	revokes := slices.Repeat([]*wire.Request{{Op: wire.OpRequestRevoke, Owner: owner + strings.Repeat("o", 1000)}}, 50)
	for srv.Lanes() == 0 {
		for _, id := range other.start(revokes...) {
			other.reply(id)
		}
	}
}

// TestReadSlowlyBesideAWait: a client takes for 5 s nothing, then for 2 s all there is, again and again, and has a wait
// open, above which it can settle nothing. Its pings tell that it has all other answers.
func TestReadSlowlyBesideAWait(t *testing.T) {
	srv, _, p, other, owner := leavesUnread(t, 1)
	other.must(write(owner+"other", owner+":/a/w"))
	wait := p.start(flagged(write(owner, owner+":/a/w"), wire.FlagWait))[0]
	p.must(ping())
	for round := range 13 {
		readsSlowly(t, srv, other, owner)
		id := p.start(&wire.Request{Op: wire.OpRenew, Owner: owner, TTLMillis: 60_000, Settled: wait})[0]
		srv.Waited(5 * time.Second)
		if res := p.reply(id); res.Code != wire.OK {
			t.Fatalf("after %d s: %v", round*7, res.Err())
		}
		p.pushes = nil
		told := ping()
		told.Settled = p.last + 1
		p.must(told)
		srv.ReadsFor(2 * time.Second)
	}
}

// TestPingsSettleNoWaits: so they show nothing of when a wait was read.
func TestPingsSettleNoWaits(t *testing.T) {
	srv, h, p, other, owner := leavesUnread(t, 1)
	other.must(write(owner+"other", owner+":/a/w"))
	wait := p.start(flagged(write(owner, owner+":/a/w"), wire.FlagWait))[0]
	srv.Waited(40 * time.Second)
	p.push(wire.PushQueued)
	readsSlowly(t, srv, other, owner)
	told := ping()
	told.Settled = wait + 1
	ids := p.start(told, releaseOf(owner))
	srv.Waited(40 * time.Second)
	if res := p.reply(ids[1]); res.Code != wire.Unavailable || h.is(func() bool { return h.released[owner] > 0 })() {
		t.Errorf("carried out, though it may have lain unread for 80 s: %v", res.Err())
	}
}
