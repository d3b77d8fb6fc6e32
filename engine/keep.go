package engine

import (
	"slices"

	"github.com/zeebo/xxh3"

	"github.com/pathlockd/pathlockd/wire"
)

// kept is the answer to a keyed request (contract.md section 11).
type kept struct {
	hash     uint64 // of the request
	status   wire.Status
	token    int64
	seq      uint64 // of the waiter a QUEUED answer told of
	deadline int64  // ms of the lease clock
	timer    *timer
	born     uint32
}

// keptKey is the scope of a keyed request in the group: its operation, its key,
// and for a release its namespace, since a release of paths in several is
// carried out in each.
func (s *State) keptKey(cmd *Command) string {
	s.key2 = append(append(s.key2[:0], byte(cmd.Req.Op)), cmd.Req.Key...)
	if cmd.Req.Op == wire.OpRelease {
		s.key2 = append(append(s.key2, nul), cmd.NS...)
	}
	return string(s.key2)
}

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
	case k.hash != hash:
		var res wire.Result
		res.Fail(wire.Errorf(wire.InvalidArgument,
			"idempotency_key %s: was used for another request less than %d s ago", wire.Quote(cmd.Req.Key), KeptMillis/1000))
		return res
	case cmd.Req.Op == wire.OpAcquire && k.status == wire.StatusOK:
		return s.recheck(cmd, k.token)
	case cmd.Req.Op == wire.OpAcquire:
		if res, ok := s.reattach(cmd, k.seq); ok {
			return res
		}
	case cmd.Req.Op == wire.OpRenew:
	default:
		return wire.Result{}
	}
	if sum := s.kept.Sum(); k == nil && int(sum.Count[0]) >= s.cfg.MaxKept {
		var res wire.Result
		res.Fail(wire.Errorf(wire.ResourceExhausted,
			"idempotency_key: this group keeps %d answers, at most %d are allowed; each is kept for %d s",
			sum.Count[0], s.cfg.MaxKept, KeptMillis/1000))
		return res
	}
	res := s.execute(cmd)
	s.keep(key, hash, cmd.Req, &res)
	return res
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
func (s *State) keep(key string, hash uint64, req *wire.Request, res *wire.Result) {
	if !keeps(req.Op, res) {
		s.forget(key)
		return
	}
	k := s.kept.Get(key)
	if k == nil {
		k = s.kept.Insert(s.w, key, 0, 0)
		k.born = s.w.Mark()
		k.timer = s.deadlines.timer(timeKept, key)
		k.deadline = s.now + KeptMillis
		s.deadlines.arm(k.timer, k.deadline)
	} else {
		k = s.kept.Edit(s.w, key)
	}
	k.hash, k.status, k.token = hash, res.Status, res.Token
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
	if i := slices.Index(s.asking[k.seq], key); i >= 0 {
		if s.asking[k.seq] = slices.Delete(s.asking[k.seq], i, i+1); len(s.asking[k.seq]) == 0 {
			delete(s.asking, k.seq)
		}
	}
	if k.seq = seq; seq != 0 {
		s.asking[seq] = append(s.asking[seq], key)
	}
}

// forget drops a kept answer.
func (s *State) forget(key string) {
	k := s.kept.Edit(s.w, key)
	if k == nil {
		return
	}
	s.follows(key, k, 0)
	s.bury(tableKept, key, k.born)
	s.deadlines.free(k.timer)
	s.kept.Remove(s.w, key)
}

// keptGranted makes the kept answers QUEUED that told of a waiter which is granted
// now an OK. There are several if it was asked for with several keys.
func (s *State) keptGranted(seq uint64, res wire.Result) {
	for _, key := range s.asking[seq] {
		k := s.kept.Edit(s.w, key)
		k.status, k.token, k.seq = wire.StatusOK, res.Token, 0
	}
	delete(s.asking, seq)
}

// Repeat answers a command that its session asks a second time, having got first
// for an answer, or not: what time has overtaken is worked out anew, and nothing
// is carried out twice.
func (s *State) Repeat(c Clock, cmd *Command, first *wire.Result, out *Output) wire.Result {
	s.begin(c, out)
	res := *first
	switch {
	case cmd.Req.Op == wire.OpRenew || cmd.Req.Op == wire.OpBind:
		res = s.execute(cmd)
	case cmd.Req.Op != wire.OpAcquire:
	case first.Status == wire.StatusOK:
		res = s.recheck(cmd, first.Token)
	case first.Status == wire.StatusQueued:
		res = s.dispatch(cmd) // its paths may have moved since, and it may have a key
	}
	s.settle()
	return res
}

// Waiting answers a command whose first call is still open: the call that asks
// now takes its place. ok is false when no such call is open.
func (s *State) Waiting(c Clock, cmd *Command, out *Output) (res wire.Result, ok bool) {
	s.begin(c, out)
	if cmd.Req.Op != wire.OpAcquire || cmd.Req.Flags&wire.FlagWait == 0 {
		return res, false
	}
	res, ok = s.reattach(cmd, s.callers[cmd.Caller])
	s.settle() // leases that were met past their time
	return res, ok
}

// reattach gives a call back its waiter with the given arrival number: the place
// in the queue is kept, its time starts anew. A polled entry is asked for again
// by simply asking.
func (s *State) reattach(cmd *Command, seq uint64) (res wire.Result, ok bool) {
	if seq == 0 || cmd.Req.Flags&wire.FlagWait == 0 || s.waiter(seq) == nil {
		return res, false
	}
	w := s.editWaiter(seq)
	if w.caller != cmd.Caller {
		var res wire.Result
		res.Fail(wire.Errorf(wire.Aborted, "a later call with the same idempotency_key took this one's place in the queue"))
		s.answer(w, res)
	}
	delete(s.callers, w.caller)
	w.caller, w.epoch, w.adrift = cmd.Caller, cmd.Epoch, false
	s.callers[w.caller] = seq
	w.deadline = s.now + queueMillis(cmd.Req.QueueTTLMillis)
	s.deadlines.arm(w.timer, w.deadline)
	l := s.standing(w.owner, w.ns)
	if s.waiter(seq) == nil {
		return res, false
	}
	w.bind = l.bound(cmd)
	a := asking{owner: w.owner, ns: w.ns, alg: w.alg, l: l, wants: w.wants, token: w.token, own: w.own, seq: seq}
	v := s.waits(&a)
	res = v.result()
	res.Status, res.Token, res.Namespace = wire.StatusQueued, w.token, w.ns
	res.Position = s.position(seq, w)
	return res, true
}

// recheck answers a repeated acquire that was answered OK with token: OK if what
// it took is still held, else LOST; never a second time.
func (s *State) recheck(cmd *Command, token int64) wire.Result {
	l := s.standing(cmd.Req.Owner, cmd.NS)
	a := asking{owner: cmd.Req.Owner, ns: cmd.NS, l: l, wants: s.parse(cmd.NS, cmd.Req.Locks)}
	a.alg, _ = s.algorithm(cmd.NS)
	for i := range a.wants {
		w := &a.wants[i]
		if v := s.checkHeld(&a, w); v.status != wire.StatusOK {
			return v.result()
		}
	}
	if now, keeps := s.heldToken(&a); keeps {
		token = now
	}
	if a.l.held() { // and hangs on the connection that asks now
		s.tie(a.l, a.l.bound(cmd))
	}
	return wire.Result{Token: token, Namespace: owned(cmd.NS)}
}
