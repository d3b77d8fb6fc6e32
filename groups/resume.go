package groups

import (
	"slices"
	"sync"
	"time"

	"github.com/pathlockd/pathlockd/groups/replica"
	"github.com/pathlockd/pathlockd/groups/rows"
	"github.com/pathlockd/pathlockd/wire"
)

// What ends or ties something of an owner wherever it is, and is asked again on a later connection.
//
// A log refuses what comes from an earlier connection of a session than the latest that it
// has seen (replica/session.go). A request that is one command goes to the same log when it is asked
// again, and so what became of the copy that was left behind is decided there. What is about
// an owner is looked up first, by the copy and by the repeat; the repeat may find nothing to
// do, and be answered, while the copy is looking still. What it found later it would do after
// the answer: it would end locks that were taken since, or tie them to a connection that is gone.
// So before such a request is carried out that was asked on an earlier connection of its session,
// every log is told of the connection, once: whichever namespaces it names, as they may have been
// moved to where the copy looks.
//
// An acquire may be left behind, too, and its repeat be refused before it reaches its log, which then knows nothing
// of the later connection. So a release_all, a force_release or a request_revoke tells the logs that it is about also
// when it is asked for the first time on a later connection: an acquire of an earlier one takes nothing after its
// answer. With domains that is so until a move takes such an acquire to another log, which was told nothing.
//
// A bind ties what there is before that (ties.go), and those of a client that comes back are new ones.
// Renewals and unbinds end nothing, are what a client asks first when it comes back, and
// must not hang on logs that its owner has nothing in: what they are carried out in is told by
// them.
//
// What ends or marks something of an owner is not carried out again either where that has come
// since it was answered. A group that it was not carried out in knows nothing of it; so
// a log that it was carried out in, the last one, is told that with this all of it is (WholeSub).
// A repeat asks every log for that, once they know of its connection: from then on no copy says so. One with a key
// is claimed (claims.go): the log that looks after the key is told with the end of the claim, and alone is asked.
// One that was cut short is carried out anew, wherever the owner is by then.

// askedEarlier says that a call may have been asked on an earlier connection of its session.
func askedEarlier(c *wire.Call) bool {
	return c.Session.Epoch > 1 && (c.Session.First == 0 || c.ID <= c.Session.First)
}

// repeats says that the call may have been asked before.
func (s *steps) repeats() bool { return s.c.Again || askedEarlier(s.c) }

// wasDone says that all of the call was carried out when it was asked before. It is asked once the
// replicas are up to date. One with a key is asked for, too: its id may outlive the key.
func (s *steps) wasDone() (bool, *wire.Error) {
	if !s.repeats() {
		return false, nil
	}
	q := &replica.Query{What: replica.AskWhole, Owner: string(s.c.Session.ID[:]), Token: int64(s.c.ID)}
	if s.c.Again {
		q.Page = 1
	}
	if s.claims() {
		var res wire.Result
		read := newTogether(s.n.tasks)
		read.add()
		s.n.read(s.n.logOf(s.keyGroup()), q, s.since, func(r *wire.Result) {
			res = *r
			read.done()
		})
		read.wait()
		s.doubt = s.told([]wire.Result{res}) // while the key is kept its claim says so, whatever the log has forgotten
		return s.doubt == nil && res.Flag, nil
	}
	results := s.askLogs(q)
	if slices.ContainsFunc(results, func(res wire.Result) bool { return res.Code == wire.OK && res.Flag }) {
		return true, nil
	}
	return false, s.told(results)
}

// whole notes that all of the call is carried out, in the log of a group that it has to do with.
func (s *steps) whole(group uint16) *wire.Error {
	return s.told(withoutRoom(s.propose([]command{wholeIn(group)})))
}

// wholeIn is the command that notes it.
func wholeIn(group uint16) command {
	return command{group: group, sub: replica.WholeSub, req: &wire.Request{Op: wire.OpResume}}
}

// withoutRoom is results but for a refusal of the first because its log has no room for a session more: that one goes
// without.
func withoutRoom(results []wire.Result) []wire.Result {
	if results[0].Code == wire.ResourceExhausted {
		results[0] = wire.Result{}
	}
	return results
}

// resumed has this node's replicas catch up, and the logs know of the call's connection before
// that, if it needs them to.
func (s *steps) resumed(caughtUp func() *wire.Error) *wire.Error {
	for {
		if err := caughtUp(); err != nil {
			return err
		}
		// With the routes that are known by now; what was looked up before does not count.
		if told, err := s.resume(); err != nil || !told {
			return err
		}
	}
}

// resume tells the logs of the call's connection that do not know of it and may have to, and
// says whether there were any.
func (s *steps) resume() (told bool, _ *wire.Error) {
	switch s.c.Op {
	case wire.OpReleaseAll, wire.OpForceRelease, wire.OpRequestRevoke, wire.OpBind:
	default:
		return false, nil
	}
	earlier := askedEarlier(s.c)
	if !earlier && (s.c.Op == wire.OpBind || s.c.Session.Epoch <= 1) {
		return false, nil
	}
	ln := lineOf(s.c.Session)
	var logs []*shardLog
	ln.mu.Lock()
	for _, l := range s.n.ordered() {
		if l.shard != rows.SystemLog && !ln.resumed[l.shard] && (earlier || s.asks(l.shard)) {
			logs = append(logs, l)
		}
	}
	ln.mu.Unlock()
	if len(logs) == 0 {
		return false, nil
	}
	if err := s.noneScarce(func(shard uint64) bool { return slices.Contains(logs, s.n.logs[shard]) }); err != nil {
		return false, err
	}
	var mu sync.Mutex
	var first *wire.Error
	all := newTogether(s.n.tasks)
	for _, l := range logs {
		all.add()
		s.n.tellResumed(l, s.c.Session, s.c.ID, s.since, func(_ *part, res *wire.Result) {
			defer all.done()
			mu.Lock()
			defer mu.Unlock()
			// One that has no room for a session more goes without: the copy is refused there as well,
			// while that lasts.
			if err := res.Err(); err != nil && err.Code != wire.ResourceExhausted {
				first = err
			}
		})
	}
	all.wait()
	mu.Lock()
	defer mu.Unlock()
	if first != nil {
		return false, first
	}
	ln.mu.Lock()
	defer ln.mu.Unlock()
	if ln.resumed == nil {
		ln.resumed = make(map[uint64]bool)
	}
	for _, l := range logs {
		ln.resumed[l.shard] = true
	}
	return true, nil
}

// tellResumed tells a log of a connection, because of a request.
func (n *Node) tellResumed(l *shardLog, s *wire.Session, id uint64, since time.Duration,
	done func(*part, *wire.Result)) {
	body, nargs := wire.AppendArgs(nil, &wire.Request{Op: wire.OpResume})
	n.inflight[n.slot(replica.EveryGroup)].Add(1)
	l.push(&part{
		Command: replica.Command{
			Group: replica.EveryGroup, Op: wire.OpResume, NArgs: nargs, Body: body, Session: s, ID: id,
		},
		since:   since,
		counted: true,
		done:    done,
	})
	l.start()
}
