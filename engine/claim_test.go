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
	var token int64    // of the claim that is meant
	var attempt uint64 // that is meant
	step := func(kind, hash uint64, plan string) wire.Result {
		var out Output
		now++
		s.Expire(Clock{Now: now}, &out)
		req := &wire.Request{
			Op: wire.OpClaim, Key: "k", Target: uint64(wire.OpReleaseAll), Attempt: hash, Kinds: kind,
			Cursor: []byte(plan),
		}
		if kind == ClaimDone || kind == ClaimDrops {
			req.Token, req.GraceMillis = token, attempt
		}
		res := s.Apply(Clock{Now: now}, &Command{Req: req}, &out)
		reload()
		return res
	}
	first := step(ClaimBegins, 7, "a")
	token = first.Token
	if first.Code != wire.OK || first.Status != wire.StatusQueued || string(first.List.Cursor) != "a" ||
		first.Count != 1 {
		t.Fatalf("%+v", first)
	}
	for _, kind := range []uint64{ClaimBegins, ClaimGoesOn} {
		res := step(kind, 7, "b")
		if res.Status != wire.StatusQueued || res.Token != first.Token || res.Count != 0 || res.List != nil {
			t.Errorf("a repeat while it is the first one's turn: %+v", res)
		}
	}
	now += turnMillis
	res := step(ClaimBegins, 7, "b")
	if res.Status != wire.StatusQueued || res.Token != first.Token || string(res.List.Cursor) != "a" || res.Count != 2 {
		t.Errorf("a repeat of one that is under way for long: %+v", res)
	}
	if res := step(ClaimBegins, 8, "a"); res.Code != wire.InvalidArgument {
		t.Errorf("another request with its key: %+v", res)
	}
	attempt = 2
	if res := step(ClaimDone, 8, ""); res.Status != wire.StatusQueued {
		t.Errorf("done by another: %+v", res)
	}
	now += turnMillis
	if res := step(ClaimGoesOn, 7, "b"); res.Status != wire.StatusQueued || res.Count != 3 {
		t.Errorf("done by another: %+v", res)
	}
	for attempt = range uint64(3) {
		if res := step(ClaimDone, 7, ""); res.Status != wire.StatusQueued || res.Count != 0 {
			t.Errorf("the end of attempt %d: %+v", attempt, res)
		}
	}
	attempt = 3
	if res := step(ClaimDone, 7, ""); res.Status != wire.StatusOK {
		t.Errorf("done: %+v", res)
	}
	if res := step(ClaimBegins, 7, "b"); res.Status != wire.StatusOK || res.Token != first.Token {
		t.Errorf("a repeat of one that is done: %+v", res)
	}
	step(ClaimDrops, 7, "")
	second := step(ClaimBegins, 8, "c")
	if second.Status != wire.StatusQueued || second.Token == first.Token || string(second.List.Cursor) != "c" {
		t.Errorf("when it was dropped: %+v", second)
	}
	attempt = second.Count
	step(ClaimDrops, 8, "") // the first, which is over
	if res := step(ClaimDone, 8, ""); res.Status != wire.StatusQueued {
		t.Errorf("an attempt of an earlier claim: %+v", res)
	}
	if res := step(ClaimBegins, 8, "c"); res.Token != second.Token || res.Status != wire.StatusQueued {
		t.Errorf("dropped or done by the end of an earlier claim: %+v", res)
	}
	now += KeptMillis
	res = step(ClaimBegins, 9, "d")
	if res.Status != wire.StatusQueued || string(res.List.Cursor) != "d" || res.Token == second.Token {
		t.Errorf("when its time is over: %+v", res)
	}
}

// TestTurnsOfAClaim: a claim is an attempt's for a while: at first for 500 ms, then for twice the longest that one took
// which was overtaken, but no longer than its call has time. Its own call gets the next number at once, and lets others
// have theirs when it comes to nothing.
func TestTurnsOfAClaim(t *testing.T) {
	s, now, number, left := New(DefaultConfig(), nil, nil), int64(1000), uint64(0), uint64(0)
	asks := func(who, took uint64, gets bool) {
		t.Helper()
		var out Output
		s.Expire(Clock{Now: now}, &out)
		res := s.Apply(Clock{Now: now}, &Command{Caller: Caller{Session: Session{1}, ID: who}, Req: &wire.Request{
			Op: wire.OpClaim, Key: "k", Target: uint64(wire.OpReleaseAll), Attempt: 7, GraceMillis: took,
			TTLMillis: left,
		}}, &out)
		want := uint64(0)
		if gets {
			number++
			want = number
		}
		if res.Code != wire.OK || res.Status != wire.StatusQueued || res.Count != want {
			t.Errorf("%d asks at %d: %+v, want number %d", who, now, res, want)
		}
	}
	yields := func(who uint64) {
		var out Output
		s.Apply(Clock{Now: now}, &Command{Caller: Caller{Session: Session{1}, ID: who}, Req: &wire.Request{
			Op: wire.OpClaim, Key: "k", Target: uint64(wire.OpReleaseAll), Attempt: 7, Kinds: ClaimYields,
		}}, &out)
	}
	asks(1, 0, true)
	asks(2, 0, false)
	asks(1, 0, true) // a move overtook it
	now += turnMillis - 1
	asks(2, 0, false)
	now++
	asks(2, 0, true)
	asks(1, 40_000, false) // it took so long until it was overtaken
	now += turnMillis
	asks(1, 40_000, true)
	now += 80_000 - 1
	asks(2, 10, false)
	now++
	asks(2, 10, true)
	asks(1, 600_000, false)
	now += 80_000
	asks(1, 0, true)
	now += 120_000 - 1
	asks(2, 0, false)
	now++
	asks(2, 0, true)
	asks(0, 0, false) // who has no id is nobody's repeat
	now += 120_000
	asks(0, 0, true)
	asks(0, 0, false)
	yields(0)
	asks(2, 0, false)
	now += 120_000
	asks(1, 0, true)
	yields(2)
	asks(2, 0, false)
	yields(1)
	asks(2, 0, true)
	yields(2)
	left = 700
	asks(1, 0, true)
	now += 699
	asks(2, 0, false)
	now++
	asks(2, 0, true)
}

// TestClaimsThatAreWaitedFor: who waits for a turn does not have the claim begin its time anew: it may come to no part
// of the request, and a part that was carried out is not to be forgotten before its claim.
func TestClaimsThatAreWaitedFor(t *testing.T) {
	s, now := New(DefaultConfig(), nil, nil), int64(1000)
	asks := func(after int64, took uint64) wire.Result {
		var out Output
		now += after
		s.Expire(Clock{Now: now}, &out)
		return s.Apply(Clock{Now: now}, &Command{Req: &wire.Request{
			Op: wire.OpClaim, Key: "k", Target: uint64(wire.OpReleaseAll), Attempt: 7, GraceMillis: took,
		}}, &out)
	}
	asks(0, 0)
	asks(0, maxTurnMillis) // from then on a turn is as long as can be
	attempt := asks(turnMillis, 0)
	began := now
	if asks(maxTurnMillis-1, 0).Count != 0 {
		t.Fatal("the turn is over too soon")
	}
	if res := asks(began+KeptMillis-now, 0); res.Token == attempt.Token {
		t.Errorf("its time is over, and who waited has kept it: %+v", res)
	}
}

// TestRoutesOfAttempts: an attempt is not made by older routes than the one before it: it might leave out a group that
// that one goes to. So it is also over a restart.
func TestRoutesOfAttempts(t *testing.T) {
	s, now := New(DefaultConfig(), nil, nil), int64(1000)
	asks := func(version uint64) wire.Result {
		var out Output
		now += turnMillis
		s.Expire(Clock{Now: now}, &out)
		res := s.Apply(Clock{Now: now}, &Command{Version: version, Req: &wire.Request{
			Op: wire.OpClaim, Key: "k", Target: uint64(wire.OpReleaseAll), Attempt: 7,
		}}, &out)
		again := New(DefaultConfig(), nil, nil)
		if err := s.View().Rows(0, func(row, val []byte) error { return again.Load(row, val) }); err != nil {
			t.Fatal(err)
		}
		if err := again.Loaded(); err != nil {
			t.Fatal(err)
		}
		s = again
		return res
	}
	number := uint64(0)
	for _, step := range []struct{ by, latest uint64 }{{5, 5}, {4, 5}, {5, 5}, {9, 9}, {5, 9}, {8, 9}, {9, 9}} {
		res := asks(step.by)
		if step.by < step.latest {
			if res.Code != wire.Unavailable || res.Position != Moved || res.Count != step.latest {
				t.Errorf("by routes %d after %d: %+v", step.by, step.latest, res)
			}
			continue
		}
		if number++; res.Code != wire.OK || res.Count != number {
			t.Errorf("by routes %d after %d: %+v", step.by, step.latest, res)
		}
	}
}

// TestClaimsOfOtherRequests: who has had a claim goes on with no other one of its key, but is answered by it when it is
// done.
func TestClaimsOfOtherRequests(t *testing.T) {
	s, now := New(DefaultConfig(), nil, nil), int64(1000)
	step := func(after int64, kind uint64, token int64, attempt uint64) wire.Result {
		var out Output
		now += after
		s.Expire(Clock{Now: now}, &out)
		return s.Apply(Clock{Now: now}, &Command{Req: &wire.Request{
			Op: wire.OpClaim, Key: "k", Target: uint64(wire.OpReleaseAll), Attempt: 7, Kinds: kind, Token: token,
			GraceMillis: attempt,
		}}, &out)
	}
	first := step(0, ClaimBegins, 0, 0)
	if res := step(1, ClaimGoesOn, first.Token, 0); res.Code != wire.OK || res.Token != first.Token {
		t.Errorf("in its time: %+v", res)
	}
	if res := step(KeptMillis, ClaimBegins, first.Token, 0); res.Code != wire.Forgotten {
		t.Errorf("after it: %+v", res)
	}
	second := step(0, ClaimBegins, 0, 0)
	if res := step(1, ClaimBegins, first.Token, 0); res.Code != wire.Forgotten {
		t.Errorf("when there is another one: %+v", res)
	}
	if res := step(1, ClaimDone, second.Token, second.Count); res.Code != wire.OK || res.Status != wire.StatusOK {
		t.Errorf("the other one: %+v", res)
	}
	if res := step(1, ClaimBegins, first.Token, 0); res.Code != wire.OK || res.Status != wire.StatusOK {
		t.Errorf("when the other one is done: %+v", res)
	}
}

// TestClaimsAreKeptFromTheirEnds: the answer to a claimed request is kept for its time from when it is known, also
// when that is late in the claim's time, or after it; and no longer because it is said again.
func TestClaimsAreKeptFromTheirEnds(t *testing.T) {
	for name, late := range map[string]int64{"in its time": KeptMillis - 10, "after it": KeptMillis + 10} {
		t.Run(name, func(t *testing.T) {
			s, now := New(DefaultConfig(), nil, nil), int64(1000)
			var c wire.Result
			step := func(after int64, kind uint64) wire.Result {
				var out Output
				now += after
				s.Expire(Clock{Now: now}, &out)
				req := &wire.Request{Op: wire.OpClaim, Key: "k", Target: uint64(wire.OpReleaseAll),
					Attempt: 7, Kinds: kind}
				if kind == ClaimDone {
					req.Token, req.GraceMillis = c.Token, c.Count
				}
				return s.Apply(Clock{Now: now}, &Command{Req: req}, &out)
			}
			c = step(0, ClaimBegins)
			step(late, ClaimDone)
			step(KeptMillis/2, ClaimDone)
			if res := step(KeptMillis/2-1, ClaimGoesOn); res.Status != wire.StatusOK || res.Token != c.Token {
				t.Errorf("in the last ms: %+v", res)
			}
			if res := step(1, ClaimGoesOn); res.Token != 0 {
				t.Errorf("when its time is over: %+v", res)
			}
		})
	}
}

// TestClaimsAreKeptOn: each repeat of a request that is not done has its claim begin its time anew. That of a renewal,
// which is never done, does not.
func TestClaimsAreKeptOn(t *testing.T) {
	for op, keptOn := range map[wire.Op]bool{wire.OpForceRelease: true, wire.OpRenew: false} {
		s, now := New(DefaultConfig(), nil, nil), int64(1000)
		step := func(after int64) wire.Result {
			var out Output
			now += after
			s.Expire(Clock{Now: now}, &out)
			return s.Apply(Clock{Now: now}, &Command{Req: &wire.Request{
				Op: wire.OpClaim, Key: "k", Target: uint64(op), Attempt: 7,
			}}, &out)
		}
		first := step(0)
		step(KeptMillis - 10)
		if res := step(20); (res.Token == first.Token) != keptOn {
			t.Errorf("%v: %+v", op, res)
		}
	}
}

// TestPartsOfAttempts: a part of a claimed request is carried out once in its claim, for the first attempt that asks
// for it. Earlier attempts than the latest that asked are refused, in their own session as well.
func TestPartsOfAttempts(t *testing.T) {
	s, c := New(DefaultConfig(), nil, nil), Clock{Now: 1000}
	ask := func(claim int64, attempt uint64) *Command {
		return &Command{Req: &wire.Request{
			Op: wire.OpForceRelease, Owner: "o", Key: PartKey(wire.OpForceRelease, "k", claim, attempt),
		}}
	}
	held := func() bool {
		var out Output
		return s.Apply(c, &Command{NS: "h:/a", Req: &wire.Request{
			Op: wire.OpRenew, Owner: "o", TTLMillis: 1000, Domains: []string{"h:/a"},
		}}, &out).Status == wire.StatusOK
	}
	for i, step := range []struct {
		claim   int64
		attempt uint64
		again   bool // its session remembers it
		refused bool
		holds   bool
	}{
		{claim: 1, attempt: 2}, {claim: 1, attempt: 2, holds: true}, {claim: 1, attempt: 1, refused: true, holds: true},
		{claim: 1, attempt: 1, again: true, refused: true, holds: true},
		{claim: 1, attempt: 3, again: true, holds: true},
		{claim: 1, attempt: 2, refused: true, holds: true}, {claim: 1, attempt: 10, holds: true},
		{claim: 1, attempt: 9, refused: true, holds: true}, {claim: 2, attempt: 1},
		{claim: 3, attempt: 5, again: true, holds: true}, {claim: 3, attempt: 4, refused: true, holds: true},
	} {
		var out Output
		s.Apply(c, &Command{NS: "h:/a", Req: &wire.Request{
			Op: wire.OpAcquire, Owner: "o", TTLMillis: 1000, Flags: wire.FlagNoQueue,
			Locks: []wire.LockRequest{{Path: "h:/a/x"}},
		}}, &out)
		var res wire.Result
		if step.again {
			res = s.Repeat(c, ask(step.claim, step.attempt), &wire.Result{}, &out)
		} else {
			res = s.Apply(c, ask(step.claim, step.attempt), &out)
		}
		refused := res.Code == wire.Unavailable && res.Position == Superseded
		if refused != step.refused || !refused && res.Code != wire.OK || held() != step.holds {
			t.Errorf("%d: answered %+v, and holds %v, want %+v", i, res, held(), step)
		}
	}
}

// TestPartsAreKeptOn: who asks for a part of a claimed request again, in its own session or in another one, has its
// key begin its time anew. The key of a client does not.
func TestPartsAreKeptOn(t *testing.T) {
	part := PartKey(wire.OpReleaseAll, "k", 1000, 1)
	for name, of := range map[string]struct {
		key       string
		bySession bool
		keptOn    bool
	}{
		"another session": {part, false, true}, "the same session": {part, true, true},
		"a client's key": {"k", false, false},
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

// TestPartOf: the attempt in a part's key is no part of what is kept of it. An entry that was written before there were
// attempts is one of none.
func TestPartOf(t *testing.T) {
	part := "k\x001000\x007"
	for key, want := range map[string]struct {
		part    string
		attempt uint64
	}{
		"k": {"k", 0}, "": {"", 0}, part: {part, 0}, part + "\x0012": {part, 12},
		PartKey(wire.Op(7), "k", 1000, 3): {part, 3}, PartKey(wire.Op(7), "k", 1000, 1<<63): {part, 1 << 63},
	} {
		if got, attempt := partOf(key); got != want.part || attempt != want.attempt {
			t.Errorf("%q: %q, %d", key, got, attempt)
		}
	}
}

// TestHashOfClaim: parts of a request are the same in all attempts of a claim, and others in another claim.
func TestHashOfClaim(t *testing.T) {
	of := func(claim int64, attempt uint64) uint32 {
		return HashOfClaim(PartKey(wire.OpReleaseAll, "k", claim, attempt))
	}
	if of(1, 1) != of(1, 2) || of(1, 1) == of(2, 1) || of(1, 1) == 0 || HashOfClaim("k") != 0 {
		t.Error(of(1, 1), of(1, 2), of(2, 1), HashOfClaim("k"))
	}
}
