package engine

import (
	"strconv"
	"strings"

	"github.com/zeebo/xxh3"

	"github.com/pathlockd/pathlockd/wire"
)

// Steps of a claim (wire.OpClaim, Request.Kinds).
const (
	ClaimBegins = 0
	ClaimDone   = 1
	ClaimDrops  = 2 // the answer is none that is kept
	ClaimGoesOn = 3 // as ClaimBegins, of one that is known; token 0 says that it is not
	ClaimYields = 4 // the attempt has come to nothing: another one may begin at once
)

// Joins says that a step of a claim begins it or goes on with it.
func Joins(req *wire.Request) bool { return req.Kinds == ClaimBegins || req.Kinds == ClaimGoesOn }

// claimKey notes a keyed request that goes to several groups, under its own scope, before it
// is carried out in any: Target is its operation, Attempt the hash of what its client asks,
// and Cursor what it is to be carried out on. All that is as it was said first. It answers
// that with a token that scopes the keys of what is done for it, and status QUEUED until it
// is done; until then each attempt at it has its time begin anew.
//
// Who asks for it makes an attempt of it, and gets the number of that (Count). The claim is that attempt's for a while,
// in which everybody else is answered number 0 and is to look again; the call itself gets the next number whenever it
// asks; and one that ends without having done it yields (ClaimYields). An attempt that took longer may be overtaken:
// its call says how long it took when it asks again (GraceMillis), and the next one has twice that. So of repeats that
// come faster than an attempt takes one gets through.
//
// A part is carried out for the first attempt that asks for it, and refused to earlier ones from then on (partAgain).
// Only the latest attempt can have the claim done (GraceMillis, its number): it has been in all groups, and whoever is
// slow comes too late in each of them. That needs two things. A later attempt resolved its paths by routes that are no
// older (Command.Version), else it might leave out a group that an earlier one goes to: older ones are refused as
// Moved. And an attempt is over before what is kept of its parts: a request takes less than half of their time
// (request_timeout_ms).
//
// The answer to the key is kept for its time from then on, also when the claim's own time was over by then. Token is
// the claim that the caller's request has begun or gone on with, 0 when that is not known: when another one has come
// in its place, or none, the request is not carried out in the name of that.
func (s *State) claimKey(cmd *Command) (res wire.Result) {
	req := cmd.Req
	key := string(byte(req.Target)) + req.Key
	k := s.kept.Get(key)
	if k != nil && k.deadline <= s.now {
		s.forget(key)
		k = nil
	}
	known := k != nil && k.hash == req.Attempt
	joins := Joins(req)
	switch {
	case joins && req.Token != 0 && (!known || k.token != req.Token && k.status != wire.StatusOK):
		res.Fail(wire.Errorf(wire.Forgotten,
			"idempotency_key %s: is not known any more as that of this request; nothing was done now, and it was or "+
				"may have been carried out in a part before",
			wire.Quote(req.Key)))
		return res
	case req.Kinds == ClaimDone && k == nil: // there is room: it had some until a moment ago
		k = s.keepNew(key, markOf(cmd.Caller.Session))
		k.hash, k.status, k.token = req.Attempt, wire.StatusOK, req.Token
		return res
	case req.Kinds == ClaimDone:
		return s.claimDone(req, key, k)
	case req.Kinds != ClaimBegins && !known:
		return res
	case req.Kinds == ClaimDrops:
		if k.token == req.Token {
			s.forget(key)
		}
		return res
	case req.Kinds == ClaimYields:
		if k.by != 0 && k.by == cmd.Caller.mark() { // it need not have heard which attempt it has
			s.kept.Edit(s.w, key).ends = s.now
		}
		return res
	case k != nil && k.hash != req.Attempt:
		res.Fail(s.usedKey(req))
		return res
	case k == nil:
		if err := s.roomForKey(cmd); err != nil {
			res.Fail(err)
			return res
		}
		k = s.keepNew(key, markOf(cmd.Caller.Session))
		k.hash, k.status, k.token, k.plan = req.Attempt, wire.StatusQueued, s.now, string(req.Cursor)
		s.nextAttempt(cmd, k)
	case k.status == wire.StatusQueued && wire.Op(req.Target) != wire.OpRenew: // that is never done
		if cmd.Version < k.version {
			return movedTo(k.version)
		}
		k = s.kept.Edit(s.w, key)
		k.turn = max(k.turn, min(2*int64(min(req.GraceMillis, maxTurnMillis)), maxTurnMillis))
		if own := k.by != 0 && k.by == cmd.Caller.mark(); !own && k.ends > s.now {
			return wire.Result{Status: k.status, Token: k.token}
		}
		s.keepAnew(k) // not for who waits: it may come to no part, which would be forgotten before the claim
		s.nextAttempt(cmd, k)
	}
	return wire.Result{Status: k.status, Token: k.token, Count: k.attempt, List: &wire.List{Cursor: []byte(k.plan)}}
}

// How long a claim is an attempt's: at first, and at most, which is as long as a request may take.
const (
	turnMillis    = 500
	maxTurnMillis = 120_000
)

// nextAttempt makes another attempt of a claim. Its turn ends when its call does at the latest (TTLMillis).
func (s *State) nextAttempt(cmd *Command, k *kept) {
	k.attempt, k.version, k.by = k.attempt+1, cmd.Version, cmd.Caller.mark()
	turn := max(k.turn, turnMillis)
	if left := cmd.Req.TTLMillis; left > 0 {
		turn = int64(min(left, uint64(turn)))
	}
	k.ends = s.now + turn
}

// claimDone notes that an attempt has carried out all of a claim, if it is the latest.
func (s *State) claimDone(req *wire.Request, key string, k *kept) (res wire.Result) {
	switch {
	case k.hash == req.Attempt && k.status == wire.StatusOK:
		return res
	case k.hash != req.Attempt || k.token != req.Token || k.attempt != req.GraceMillis:
		return wire.Result{Status: wire.StatusQueued}
	}
	k = s.kept.Edit(s.w, key)
	s.keepAnew(k)
	k.status = wire.StatusOK
	return res
}

// PartKey is the key of what an attempt of a claimed request does in one group: no client's, as
// those have no NUL. It is claimed by the hash of the whole.
func PartKey(op wire.Op, key string, claim int64, attempt uint64) string {
	return key + "\x00" + strconv.FormatInt(claim, 10) + "\x00" + strconv.Itoa(int(op)) +
		"\x00" + strconv.FormatUint(attempt, 10)
}

// partOf takes a key of PartKey apart: that of the part, which all attempts have, and the attempt. Any other key is
// itself, and no part.
func partOf(key string) (part string, attempt uint64) {
	at := strings.IndexByte(key, nul)
	if at < 0 {
		return key, 0
	}
	if strings.Count(key[at:], "\x00") > 2 {
		at = strings.LastIndexByte(key, nul)
		attempt, _ = strconv.ParseUint(key[at+1:], 10, 64)
		return key[:at], attempt
	}
	return key, 0 // of an entry that was written before there were attempts
}

// HashOfClaim tells parts of a request in one claim from those in another one of its key; 0 for what is no part.
func HashOfClaim(key string) uint32 {
	if !isPart(key) {
		return 0
	}
	part, _ := partOf(key)
	return uint32(xxh3.HashString(part)) | 1
}

// isPart says that a key is one of PartKey's.
func isPart(key string) bool { return strings.IndexByte(key, nul) >= 0 }

// partAgain answers a part of a claimed request that was carried out for an attempt: what is kept of it begins its
// time anew, and earlier attempts than this are refused from now on.
func (s *State) partAgain(cmd *Command, key string, k *kept) (res wire.Result) {
	_, attempt := partOf(cmd.Req.Key)
	if attempt < k.attempt {
		return superseded
	}
	k = s.kept.Edit(s.w, key)
	k.attempt = attempt
	s.keepAnew(k)
	return res
}

// superseded refuses a part to an attempt of a claimed request when a later one has asked for it.
var superseded = wire.Result{
	Code: wire.Unavailable, Message: "a later repeat of the request goes on with it", Position: Superseded,
}

// repeatPart answers a part that its session remembers as carried out in this claim. If that is not known any more it
// is kept anew: earlier attempts are to be refused.
func (s *State) repeatPart(cmd *Command) (res wire.Result) {
	if !isPart(cmd.Req.Key) {
		return res
	}
	key := s.keptKey(cmd)
	if k := s.kept.Get(key); k != nil && k.deadline > s.now {
		return s.partAgain(cmd, key, k)
	}
	if err := s.roomForKey(cmd); err != nil {
		res.Fail(err)
		res.Code = wire.Unavailable
		return res
	}
	s.forget(key)
	s.keep(key, hashOf(cmd.Req), cmd, &wire.Result{})
	return res
}
