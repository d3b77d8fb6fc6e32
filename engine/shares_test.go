package engine

import (
	"testing"

	"github.com/pathlockd/pathlockd/wire"
)

// TestSharesAreForgotten: how many answers a session has kept is counted no longer than it has some, however many
// sessions come and go.
func TestSharesAreForgotten(t *testing.T) {
	s := New(DefaultConfig(), nil, nil)
	var out Output
	for i := range 100 {
		by := Caller{Session{byte(i + 1)}, 1}
		for _, key := range []string{"a", "b"} {
			res := s.Apply(Clock{Now: int64(i)}, &Command{Caller: by, NS: "h:/a", Req: &wire.Request{
				Op: wire.OpAcquire, Owner: "o", TTLMillis: 1, Key: string(rune('A'+i)) + key,
				Locks: []wire.LockRequest{{Path: "h:/a"}},
			}}, &out)
			if res.Code != wire.OK {
				t.Fatalf("%+v", res)
			}
			by.ID++
		}
	}
	if len(s.keepers) != 100 || s.keepers[markOf(Session{1})] != 2 {
		t.Fatalf("%d sessions have answers kept, the first one %d", len(s.keepers), s.keepers[markOf(Session{1})])
	}
	for s.Expire(Clock{Now: int64(s.cfg.KeptMillis) * 2}, &out) {
	}
	if n := s.kept.Sum().Count[0]; n != 0 || len(s.keepers) != 0 {
		t.Errorf("%d answers are kept still, and the counts of %d sessions", n, len(s.keepers))
	}
}

// TestEdgesAreCounted: how many wait edges a session has is counted no longer than it has some, also after another one
// set them anew.
func TestEdgesAreCounted(t *testing.T) {
	s := New(DefaultConfig(), nil, nil)
	var out Output
	for i := range 100 {
		for _, owner := range []string{"a", "b", string(rune('A' + i))} {
			s.Apply(Clock{Now: 1}, &Command{Caller: Caller{Session{byte(i + 1)}, 1}, Req: &wire.Request{
				Op: wire.OpSetWaitEdge, Owner: owner, Blocker: "x", TTLMillis: 1000,
			}}, &out)
		}
	}
	if s.edgers[markOf(Session{1})] != 1 || s.edgers[markOf(Session{100})] != 3 {
		t.Fatalf("the first session has %d edges, the last one %d", s.edgers[markOf(Session{1})],
			s.edgers[markOf(Session{100})])
	}
	for s.Expire(Clock{Now: 1_000_000}, &out) {
	}
	if n := s.edges.Sum().Count[0]; n != 0 || len(s.edgers) != 0 {
		t.Errorf("%d edges are there still, and the counts of %d sessions", n, len(s.edgers))
	}
}

// TestQueuersAreCounted: what a session has in the queue is counted no longer than it waits, also where another one
// asked for it since; and a state that is loaded from its rows counts the same.
func TestQueuersAreCounted(t *testing.T) {
	s := New(DefaultConfig(), nil, nil)
	var out Output
	ask := func(session byte, id uint64, owner string, flags wire.Flags, key string) {
		t.Helper()
		res := s.Apply(Clock{Now: 1}, &Command{Caller: Caller{Session{session}, id}, NS: "h:/a", Req: &wire.Request{
			Op: wire.OpAcquire, Owner: owner, TTLMillis: 1000, QueueTTLMillis: 1000, Flags: flags, Key: key,
			Locks: []wire.LockRequest{{Path: "h:/a/x"}, {Path: "h:/a/y"}},
		}}, &out)
		if res.Code != wire.OK {
			t.Fatalf("%+v", res)
		}
	}
	ask(1, 1, "holder", 0, "")
	for i := range byte(100) {
		ask(i+1, 2, "polls "+string(rune('A'+i)), 0, "")
		ask(i+1, 3, "waits "+string(rune('A'+i)), wire.FlagWait, "")
		ask(i+1, 4, "polls A", 0, "")
	}
	ask(1, 5, "keyed", wire.FlagWait, "k")
	ask(2, 5, "keyed", wire.FlagWait, "k")
	check := func(what string, s *State) {
		t.Helper()
		if len(s.queuers) != 100 || s.queuers[markOf(Session{1})] != 6 || s.queuers[markOf(Session{2})] != 4 {
			t.Errorf("%s: %d sessions wait, the first for %d paths, the second for %d", what,
				len(s.queuers), s.queuers[markOf(Session{1})], s.queuers[markOf(Session{2})])
		}
	}
	check("as it came", s)
	loaded := New(DefaultConfig(), nil, nil)
	if err := s.Checkpoint().Rows(0, func(key, val []byte) error { return loaded.Load(key, val) }); err != nil {
		t.Fatal(err)
	}
	if err := loaded.Loaded(); err != nil {
		t.Fatal(err)
	}
	check("loaded", loaded)
	for s.Expire(Clock{Now: 1_000_000}, &out) {
	}
	if len(s.queuers) != 0 || s.waited != 0 {
		t.Errorf("nobody waits, and %d sessions are counted, %d paths", len(s.queuers), s.waited)
	}
}
