package engine

import (
	"testing"

	"github.com/pathlockd/pathlockd/wire"
)

// TestClaims: a keyed request that goes to several groups stays what it was when its key came
// first, until it is done, dropped, or its time is over; also over a restart.
func TestClaims(t *testing.T) {
	s, now := New(DefaultConfig(), nil, nil), int64(1000)
	reload := func() {
		again := New(DefaultConfig(), nil, nil)
		err := s.View().Rows(0, func(row, val []byte) error { return again.Load(row, val) })
		if err == nil {
			err = again.Loaded()
		}
		if err != nil || again.View().Digest() != s.View().Digest() {
			t.Fatalf("loaded anew it is another: %v", err)
		}
		s = again
	}
	var token int64 // of the claim that is meant
	step := func(kind, hash uint64, plan string) wire.Result {
		var out Output
		now++
		s.Expire(Clock{Now: now}, &out)
		res := s.Apply(Clock{Now: now}, &Command{Req: &wire.Request{
			Op: wire.OpClaim, Key: "k", Target: uint64(wire.OpReleaseAll), Attempt: hash, Kinds: kind, Cursor: []byte(plan),
			Token: token,
		}}, &out)
		reload()
		return res
	}
	first := step(ClaimBegins, 7, "a")
	token = first.Token
	if first.Code != wire.OK || first.Status != wire.StatusQueued || string(first.List.Cursor) != "a" {
		t.Fatalf("%+v", first)
	}
	if res := step(ClaimBegins, 7, "b"); res.Status != wire.StatusQueued || res.Token != first.Token || string(res.List.Cursor) != "a" {
		t.Errorf("a repeat of one that is under way: %+v", res)
	}
	if res := step(ClaimBegins, 8, "a"); res.Code != wire.InvalidArgument {
		t.Errorf("another request with its key: %+v", res)
	}
	step(ClaimDone, 8, "") // of another one
	if res := step(ClaimBegins, 7, "b"); res.Status != wire.StatusQueued {
		t.Errorf("done by another: %+v", res)
	}
	step(ClaimDone, 7, "")
	if res := step(ClaimBegins, 7, "b"); res.Status != wire.StatusOK || res.Token != first.Token {
		t.Errorf("a repeat of one that is done: %+v", res)
	}
	step(ClaimDrops, 7, "")
	second := step(ClaimBegins, 8, "c")
	step(ClaimDrops, 8, "") // the first, which is over
	if res := step(ClaimBegins, 8, "c"); res.Token != second.Token {
		t.Errorf("dropped by the end of an earlier claim: %+v", res)
	}
	step(ClaimDone, 8, "") // the first: its answer is that to the key
	if res := step(ClaimBegins, 8, "c"); res.Status != wire.StatusOK {
		t.Errorf("answered to an earlier claim: %+v", res)
	}
	if second.Status != wire.StatusQueued || second.Token == first.Token || string(second.List.Cursor) != "c" {
		t.Errorf("when it was dropped: %+v", second)
	}
	now += KeptMillis
	if res := step(ClaimBegins, 9, "d"); res.Status != wire.StatusQueued || string(res.List.Cursor) != "d" || res.Token == second.Token {
		t.Errorf("when its time is over: %+v", res)
	}
}

// TestClaimsAreKeptFromTheirEnds: the answer to a claimed request is kept for its time from when it is known, also
// when that is late in the claim's time, or after it; and no longer because it is said again.
func TestClaimsAreKeptFromTheirEnds(t *testing.T) {
	for name, late := range map[string]int64{"in its time": KeptMillis - 10, "after it": KeptMillis + 10} {
		t.Run(name, func(t *testing.T) {
			s, now, token := New(DefaultConfig(), nil, nil), int64(1000), int64(0)
			step := func(after int64, kind uint64) wire.Result {
				var out Output
				now += after
				s.Expire(Clock{Now: now}, &out)
				return s.Apply(Clock{Now: now}, &Command{Req: &wire.Request{
					Op: wire.OpClaim, Key: "k", Target: uint64(wire.OpReleaseAll), Attempt: 7, Kinds: kind, Token: token,
				}}, &out)
			}
			token = step(0, ClaimBegins).Token
			step(late, ClaimDone)
			step(KeptMillis/2, ClaimDone)
			if res := step(KeptMillis/2-1, ClaimGoesOn); res.Status != wire.StatusOK || res.Token != token {
				t.Errorf("in the last ms: %+v", res)
			}
			if res := step(1, ClaimGoesOn); res.Token != 0 {
				t.Errorf("when its time is over: %+v", res)
			}
		})
	}
}

// TestPartsAreKeptOn: who asks for a part of a claimed request again, in its own session or in another one, has its
// key begin its time anew. The key of a client does not.
func TestPartsAreKeptOn(t *testing.T) {
	part := PartKey(wire.OpReleaseAll, "k", 1000)
	for name, of := range map[string]struct {
		key       string
		bySession bool
		keptOn    bool
	}{
		"another session": {part, false, true}, "the same session": {part, true, true}, "a client's key": {"k", false, false},
	} {
		t.Run(name, func(t *testing.T) {
			s, now := New(DefaultConfig(), nil, nil), int64(1000)
			release := &Command{Req: &wire.Request{Op: wire.OpReleaseAll, Owner: "o", Key: of.key}}
			do := func(after int64, cmd *Command) (res wire.Result) {
				var out Output
				now += after
				s.Expire(Clock{Now: now}, &out)
				return s.Apply(Clock{Now: now}, cmd, &out)
			}
			take := func() {
				t.Helper()
				res := do(0, &Command{NS: "h:/a", Req: &wire.Request{
					Op: wire.OpAcquire, Owner: "o", TTLMillis: 2 * KeptMillis, Flags: wire.FlagNoQueue,
					Locks: []wire.LockRequest{{Path: "h:/a/x"}},
				}})
				if res.Code != wire.OK || res.Status != wire.StatusOK {
					t.Fatalf("%+v", res)
				}
			}
			take()
			first := do(0, release)
			if of.bySession {
				var out Output
				now += KeptMillis - 10
				s.Repeat(Clock{Now: now}, release, &first, &out)
			} else {
				do(KeptMillis-10, release)
			}
			take()
			do(20, release)
			var out Output
			holds := s.Apply(Clock{Now: now}, &Command{NS: "h:/a", Req: &wire.Request{
				Op: wire.OpRenew, Owner: "o", TTLMillis: 1000, Domains: []string{"h:/a"},
			}}, &out).Status == wire.StatusOK
			if holds != of.keptOn {
				t.Errorf("what was taken since is held: %v", holds)
			}
		})
	}
}
