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
				Op: wire.OpAcquire, Owner: "o", TTLMillis: 1, Key: string(rune('A'+i)) + key, Locks: []wire.LockRequest{{Path: "h:/a"}},
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
		t.Fatalf("the first session has %d edges, the last one %d", s.edgers[markOf(Session{1})], s.edgers[markOf(Session{100})])
	}
	for s.Expire(Clock{Now: 1_000_000}, &out) {
	}
	if n := s.edges.Sum().Count[0]; n != 0 || len(s.edgers) != 0 {
		t.Errorf("%d edges are there still, and the counts of %d sessions", n, len(s.edgers))
	}
}
