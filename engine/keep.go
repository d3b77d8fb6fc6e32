package engine

import (
	"github.com/zeebo/xxh3"

	"github.com/pathlockd/pathlockd/trie"
	"github.com/pathlockd/pathlockd/wire"
)

// kept is the answer to a keyed request (contract.md section 11).
type kept struct {
	hash     uint64 // of the request
	status   wire.Status
	token    int64
	seq      uint64 // of the waiter a QUEUED answer told of
	deadline int64  // ms of the lease clock
	plan     string // of a claim: what the request is to be carried out on
	// who may take back what it took: the last that was told of it; or who makes the attempt; 0 for nobody
	by      uint64
	of      uint64 // the session that asked for it first (markOf), 0 for none
	attempt uint64 // of a claim, the last there was of it; of a part of one, the last that asked for it
	ends    int64  // of a claim: until when it is the latest attempt's, ms of the lease clock
	turn    int64  // of a claim: for how long it is an attempt's, if that is more than turnMillis
	version uint64 // of a claim: of the routes that the latest attempt goes by
	at      string // key of the first path that the request is about, if it is about paths
	timer   *timer
	born    uint32
}

// keptKey is the scope of a keyed request in the group: its operation, its key,
// and for a release its namespace, since a release of paths in several is
// carried out in each.
func (s *State) keptKey(cmd *Command) string {
	key, _ := partOf(cmd.Req.Key)
	return s.scopeOf(cmd.Req.Op, key, cmd.NS)
}

func (s *State) scopeOf(op wire.Op, key, ns string) string {
	s.key2 = append(append(s.key2[:0], byte(op)), key...)
	if op == wire.OpRelease {
		s.key2 = append(append(s.key2, nul), ns...)
	}
	return string(s.key2)
}

// about is the key of the first path of a request, "" if it has none. An acquire may have none
// but those that it releases.
func about(cmd *Command) string {
	switch req := cmd.Req; {
	case req.Op == wire.OpAcquire && len(req.Locks) > 0:
		return string(appendKey(nil, cmd.NS, req.Locks[0].Path))
	case (req.Op == wire.OpAcquire || req.Op == wire.OpRelease) && len(req.Releases) > 0:
		return string(appendKey(nil, cmd.NS, req.Releases[0].Path))
	}
	return ""
}

// usedKey refuses a request whose key was used for another one.
func (s *State) usedKey(req *wire.Request) *wire.Error {
	return wire.Errorf(wire.InvalidArgument,
		"idempotency_key %s: was used for another request less than %d s ago", wire.Quote(req.Key),
		s.cfg.KeptMillis/1000)
}

// roomForKey refuses a keyed request that there is no room for.
func (s *State) roomForKey(cmd *Command) *wire.Error {
	if sum := s.kept.Sum(); int(sum.Count[0]) >= s.cfg.MaxKept {
		return wire.Errorf(wire.ResourceExhausted,
			"idempotency_key: this group keeps %d answers, at most %d are allowed; each is kept for %d s",
			sum.Count[0], s.cfg.MaxKept, s.cfg.KeptMillis/1000)
	}
	return s.keepers.refuse(markOf(cmd.Caller.Session), s.cfg.MaxKept, "this group", s.cfg.KeptMillis)
}

// keepNew makes a kept answer, which ends with time.
func (s *State) keepNew(key string, of uint64) *kept {
	k := s.kept.Insert(s.w, key, 0, 0)
	k.born, k.of = s.w.Mark(), of
	s.keepers.add(of, 1)
	k.timer = s.deadlines.timer(timeKept, key)
	s.keepAnew(k)
	return k
}

// HashOf tells requests apart that come with one key.
func HashOf(req *wire.Request) uint64 { return hashOf(req) }

// hashOf tells requests apart. Holder metadata is no part of what is asked for.
func hashOf(req *wire.Request) uint64 {
	plain := *req
	plain.Meta = nil
	b, _ := wire.AppendArgs(nil, &plain)
	return xxh3.Hash(b)
}

// keyed carries out a request that has an idempotency key, or answers what was
// answered to it before.
func (s *State) keyed(cmd *Command) wire.Result {
	key, hash := s.keptKey(cmd), hashOf(cmd.Req)
	k := s.kept.Get(key)
	if k != nil && k.deadline <= s.now {
		s.forget(key)
		k = nil
	}
	switch {
	case k == nil:
	case isPart(cmd.Req.Key):
		return s.partAgain(cmd, key, k)
	case k.hash != hash:
		var res wire.Result
		res.Fail(s.usedKey(cmd.Req))
		return res
	case cmd.Req.Op == wire.OpAcquire && k.status == wire.StatusOK:
		res := s.recheck(cmd, k.token, k.by)
		s.handOn(cmd, s.kept.Edit(s.w, key), &res)
		return res
	case cmd.Req.Op == wire.OpAcquire:
		if res, ok := s.reattach(cmd, k.seq); ok {
			return res
		}
	case cmd.Req.Op == wire.OpRenew:
	default:
		return wire.Result{}
	}
	if k == nil {
		if err := s.roomForKey(cmd); err != nil {
			var res wire.Result
			// the call is to be asked again, and its session remembers what is refused
			if res.Fail(err); isPart(cmd.Req.Key) {
				res.Code = wire.Unavailable
			}
			return res
		}
	}
	res := s.execute(cmd)
	s.keep(key, hash, cmd, &res)
	return res
}

// keepAnew has a kept answer begin its time anew.
func (s *State) keepAnew(k *kept) {
	k.deadline = s.now + int64(s.cfg.KeptMillis)
	s.deadlines.arm(k.timer, k.deadline)
}

// keeps says that an answer is one that is kept: neither a refusal nor CONFLICT
// nor LOST.
func keeps(op wire.Op, res *wire.Result) bool {
	switch {
	case res.Code != wire.OK:
		return false
	case op == wire.OpAcquire:
		return res.Status != wire.StatusConflict && res.Status != wire.StatusLost
	case op == wire.OpRenew:
		return res.Status != wire.RenewLost
	}
	return true
}

// keep stores an answer, if it is one that is kept.
func (s *State) keep(key string, hash uint64, cmd *Command, res *wire.Result) {
	req := cmd.Req
	if !keeps(req.Op, res) {
		s.forget(key)
		return
	}
	k := s.kept.Get(key)
	if k == nil {
		k = s.keepNew(key, markOf(cmd.Caller.Session))
	} else {
		k = s.kept.Edit(s.w, key)
	}
	k.hash, k.status, k.token, k.by, k.at = hash, res.Status, res.Token, cmd.Caller.mark(), about(cmd)
	_, k.attempt = partOf(req.Key)
	if req.Op == wire.OpAcquire && res.Status == wire.StatusQueued {
		s.follows(key, k, s.asked)
	} else {
		s.follows(key, k, 0)
	}
}

// follows notes which waiter a kept answer tells of, 0 for none.
func (s *State) follows(key string, k *kept, seq uint64) {
	if k.seq == seq {
		return
	}
	if k.seq != 0 {
		s.asking.Remove(s.w, string(appendSeq(nil, k.seq))+key)
	}
	if k.seq = seq; seq != 0 {
		s.asking.Insert(s.w, string(appendSeq(nil, seq))+key, trie.None, 0)
	}
}

// forget drops a kept answer.
func (s *State) forget(key string) {
	k := s.kept.Edit(s.w, key)
	if k == nil {
		return
	}
	s.follows(key, k, 0)
	s.keepers.add(k.of, -1)
	s.addTombstone(tableKept, key, k.born)
	s.deadlines.free(k.timer)
	s.kept.Remove(s.w, key)
}

// keptGranted makes the kept answers QUEUED that told of a waiter which is granted
// now an OK. There are several if it was asked for with several keys.
func (s *State) keptGranted(seq uint64, res wire.Result, by uint64) {
	if s.asking.Empty() {
		return
	}
	of := string(appendSeq(nil, seq))
	var told []string
	s.asking.Sub(of).Ascend(collect[struct{}](&told))
	for _, key := range told {
		k := s.kept.Edit(s.w, key[len(of):])
		k.status, k.token, k.seq, k.by = wire.StatusOK, res.Token, 0, by
		s.asking.Remove(s.w, key)
	}
}

// Repeat answers a command that its session asks a second time, having got first
// for an answer, or not: what time has overtaken is worked out anew, and nothing
// is carried out twice.
func (s *State) Repeat(c Clock, cmd *Command, first *wire.Result, out *Output) wire.Result {
	s.begin(c, out)
	res := *first
	switch {
	case cmd.Req.Op == wire.OpRenew || cmd.Req.Op == wire.OpBind:
		res = s.renewAgain(cmd)
	case cmd.Req.Op != wire.OpAcquire:
		if again := s.repeatPart(cmd); again.Code != wire.OK {
			res = again
		}
	case first.Status == wire.StatusOK:
		res = s.recheck(cmd, first.Token, s.mayHave(cmd)...)
	case first.Status == wire.StatusQueued:
		res = s.queuedAgain(cmd, first.Token)
	}
	s.settle()
	return res
}

// queuedAgain answers an acquire whose first answer was QUEUED with token. It is asked anew
// while it has its place, and while its key tells what became of that. Else it was granted,
// and either holds its paths or has lost them; or its place ended before that, which looks
// the same. It is not carried out any more: then its lock would be taken a second time.
func (s *State) queuedAgain(cmd *Command, token int64) wire.Result {
	if s.remembers(cmd) || s.polls(cmd) {
		return s.dispatch(cmd)
	}
	if res, moved := s.moved(cmd); moved {
		return res
	}
	return s.recheck(cmd, token, s.mayHave(cmd)...)
}

// mayHave is the requests that may rely on what a repeated acquire took: itself, and by its key another one that was
// told since.
func (s *State) mayHave(cmd *Command) []uint64 {
	by := []uint64{cmd.Caller.mark()}
	if s.remembers(cmd) {
		by = append(by, s.kept.Get(s.keptKey(cmd)).by)
	}
	return by
}

// remembers says that an answer is kept for the command's key.
func (s *State) remembers(cmd *Command) bool {
	if cmd.Req.Key == "" {
		return false
	}
	k := s.kept.Get(s.keptKey(cmd))
	return k != nil && k.deadline > s.now
}

// polls says that the owner has a polled entry for what the command asks for.
func (s *State) polls(cmd *Command) bool {
	a := asking{owner: cmd.Req.Owner, ns: cmd.NS, l: s.ownership(cmd.Req.Owner, cmd.NS)}
	if a.l == nil {
		return false
	}
	a.wants = s.parse(cmd.NS, cmd.Req.Locks)
	return s.pollFor(&a) != nil
}

// renewAgain carries a renewal out once more, where its namespace is now.
func (s *State) renewAgain(cmd *Command) wire.Result {
	if res, moved := s.moved(cmd); moved {
		return res
	}
	res := s.execute(cmd)
	if held, moved := s.lostInMove(cmd, &res); moved {
		return held
	}
	return res
}

// Waiting answers a command whose first call is still open: the call that asks
// now takes its place, unless it asks for something else under the id. ok is false when no
// such call is open.
func (s *State) Waiting(c Clock, cmd *Command, out *Output) (res wire.Result, ok bool) {
	s.begin(c, out)
	seq := s.callOf(cmd.Caller)
	if seq == 0 {
		return res, false
	}
	if w := s.waiter(seq); !s.late(w) && (cmd.Req.Op != wire.OpAcquire || w.hash != hashOf(cmd.Req)) {
		res.Fail(wire.Errorf(wire.InvalidArgument,
			"request id %d: another request of this session waits under it; ids must grow", cmd.Caller.ID))
		return res, true
	}
	if cmd.Req.Op != wire.OpAcquire {
		return res, false
	}
	res, ok = s.reattach(cmd, seq)
	s.settle() // leases that were met past their time
	return res, ok
}

// reattach gives a call back its waiter with the given arrival number: the place
// in the queue is kept. Its time starts anew, unless it is a node that asks again for the
// call it has: nobody has asked for more time then. A polled entry is asked for again by
// simply asking.
func (s *State) reattach(cmd *Command, seq uint64) (res wire.Result, ok bool) {
	if seq == 0 || cmd.Req.Flags&wire.FlagWait == 0 || s.waiter(seq) == nil {
		return res, false
	}
	if s.late(s.waiter(seq)) && Planted != PlantRevived { // over, and others have passed it since
		s.waiterOver(seq)
		return res, false
	}
	s.meetsCall(seq)
	w := s.waiter(seq)
	l := s.ownership(w.owner, w.ns)
	if s.waiter(seq) == nil { // it relied on a lease that had run out, and ends as the call's that it still is
		return res, false
	}
	w = s.editWaiter(seq)
	if w.caller != cmd.Caller {
		var res wire.Result
		res.Fail(wire.Errorf(wire.Aborted, "a later call with the same idempotency_key took this one's place "+
			"in the queue"))
		s.answer(w, res)
	}
	anew := w.caller != cmd.Caller || w.epoch != cmd.Epoch || w.adrift
	if anew {
		w.deadline = s.after(s.queueMillis(cmd.Req.QueueTTLMillis))
		s.deadlines.arm(w.timer, w.deadline)
	}
	s.closeCall(w.caller, seq)
	w.caller, w.epoch, w.adrift = cmd.Caller, cmd.Epoch, false
	w.past = s.past(cmd.Caller.Session, cmd.Epoch)
	s.openCall(w.caller, seq)
	if anew { // else a node asks again for the same connection, which may have been bound or unbound since
		w.bind = l.bound(cmd)
	}
	a := asking{owner: w.owner, ns: w.ns, alg: w.alg, l: l, wants: w.wants, token: w.token, own: w.own, seq: seq}
	v := s.waits(&a)
	res = v.result()
	res.Status, res.Token, res.Namespace = wire.StatusQueued, w.token, w.ns
	res.Position = s.position(seq, w)
	return res, true
}

// handOn lets the call that hears of an acquire with a key take back what it took, in place of
// the one that was told last. What another acquire relies on stays out of its reach.
func (s *State) handOn(cmd *Command, k *kept, res *wire.Result) {
	if res.Code != wire.OK || res.Status != wire.StatusOK || k.by == 0 {
		return
	}
	l := s.ownership(cmd.Req.Owner, cmd.NS)
	wants := s.parse(cmd.NS, cmd.Req.Locks)
	for i := range wants {
		if h, _ := s.holdOf(l, &wants[i]); h != nil && h.has(k.by) && k.by != cmd.Caller.mark() {
			s.editHold(l, &wants[i]).replace(k.by, cmd.Caller.mark())
		}
	}
	k.by = cmd.Caller.mark()
}

// recheck answers a repeated acquire that was answered OK with token: OK if what
// it took is still held, else LOST; never a second time. What is held may be what its owner took
// later, and for less time: so a hold is to be one that one of some requests relies on (Caller.mark), where
// it says which do; without any, it may be anyone's.
func (s *State) recheck(cmd *Command, token int64, by ...uint64) wire.Result {
	l := s.ownership(cmd.Req.Owner, cmd.NS)
	a := asking{owner: cmd.Req.Owner, ns: cmd.NS, l: l, wants: s.parse(cmd.NS, cmd.Req.Locks)}
	a.alg, _ = s.algorithm(cmd.NS)
	for i := range a.wants {
		w := &a.wants[i]
		if v := s.checkHeld(&a, w); v.status != wire.StatusOK {
			return v.result()
		}
	}
	for i := range a.wants {
		w := &a.wants[i]
		if h, _ := s.holdOf(a.l, w); w.state != wire.StateHeld && !h.of(by) {
			v := refused(wire.StatusLost, s.missingIn(cmd.NS, w.mode), w)
			return v.result()
		}
	}
	if now, keeps := s.heldToken(&a); keeps {
		token = now
	}
	if a.l.held() && Planted != PlantUntied {
		// It hangs on the connection that asks now, whatever became of the one before: as it is asked, or as its
		// session had it. The end of that one may have left it a grace, and another repeat its own time: each is told
		// its own.
		if b := a.l.kept(cmd, s.now); b != nil {
			s.extend(a.l, cmd.Req.TTLMillis)
			s.tie(a.l, b)
		}
	}
	return wire.Result{Token: token, Namespace: owned(cmd.NS)}
}
