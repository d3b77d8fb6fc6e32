package groups

import (
	"maps"
	"slices"
	"sync"

	"github.com/pathlockd/pathlockd/groups/replica"
	"github.com/pathlockd/pathlockd/groups/rows"
	"github.com/pathlockd/pathlockd/wire"
)

// What a call in steps reads. It first has the replicas of this node caught up, all at
// once, and then looks at them as often as it must; what is in other logs it asks their
// leaders. That an owner is nowhere else can only be said by every log, so a call that is
// about an owner wherever it is fails while one of them has no leader. One that names
// namespaces asks their logs, and the system log which namespaces there are.

// caughtUpIn is caughtUp for the logs that the domains of the request can be in.
func (s *steps) caughtUpIn() *wire.Error {
	for {
		s.only = s.n.logsOf(s.domains())
		if err := s.caughtUp(); err != nil || maps.Equal(s.only, s.n.logsOf(s.domains())) {
			return err // else the routes that were just learned say other logs
		}
	}
}

// logsOf answers the logs in which domains can be, nil for any.
func (n *Node) logsOf(ds []domain) map[uint64]bool {
	if len(ds) == 0 {
		return nil
	}
	logs := make(map[uint64]bool)
	for _, d := range ds {
		if wire.IsHandler(d.name) {
			return nil // a handler has namespaces in every log
		}
		logs[n.logOf(n.groupOf(d.name)).shard] = true
	}
	return logs
}

// policy answers the policy of exactly one namespace. Its group has the row of one that is
// being moved before it is decided that it is, and for a while when it is not: the row counts
// while the routes have the namespace, and those it is read between must be the same.
func (s *steps) policy() (res wire.Result, err *wire.Error) {
	q := &replica.Query{What: replica.AskPolicy, Group: s.n.groupOf(s.req.Namespace), NS: s.req.Namespace}
	s.only = map[uint64]bool{s.n.logOf(q.Group).shard: true}
	for {
		if err := s.caughtUp(); err != nil {
			return res, err
		}
		r := s.n.routes.Load()
		switch {
		case !r.Has(q.NS):
			return wire.Result{Algorithm: s.n.cfg.Algorithm}, nil
		case s.routes != nil && s.routes.Version == r.Version:
			return res, res.Err()
		}
		s.routes = r
		res = s.ask(q)
	}
}

// asks says that the call has to do with a log.
func (s *steps) asks(shard uint64) bool {
	return s.only == nil || s.only[shard] || shard == rows.SystemLog
}

// caughtUp waits until this node's replicas have applied all that was committed in their
// logs when it was called, and until it knows the routes that were in force then.
func (s *steps) caughtUp() *wire.Error {
	var (
		n     = s.n
		wait  = newTogether(s.n.tasks)
		mu    sync.Mutex
		first *wire.Error
	)
	if err := s.noneScarce(s.asks); err != nil {
		return err
	}
	s.own = make(map[uint64]*replica.Machine, len(n.logs))
	learns := n.logs[rows.SystemLog].own() == nil
	var routes *wire.Error
	if learns {
		wait.run(func() { routes = n.learnRoutes(s.since) })
	}
	for _, shard := range n.id.Logs() {
		l := n.logs[shard]
		if l.own() == nil || !s.asks(shard) {
			continue
		}
		wait.add()
		n.readers[shard].do(s.since, func(m *replica.Machine, err *wire.Error) {
			defer wait.done()
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				s.own[shard] = m
			case err != errReadElsewhere:
				first = err
			}
		})
	}
	wait.wait()
	if first == nil && !learns && s.own[rows.SystemLog] == nil { // its replica was given up just now
		routes = n.learnRoutes(s.since)
	}
	if first == nil {
		first = routes
	}
	return first
}

// ask answers a query of one group.
func (s *steps) ask(q *replica.Query) wire.Result {
	l := s.n.logOf(q.Group)
	if m := s.own[l.shard]; m != nil {
		return m.Answer(q)
	}
	return s.n.askLeader(l, q, s.since)
}

const (
	// askedAtOnce is how many bytes of questions a call has under way at other nodes, and one
	// question more: a peer answers at most maxPeerReads at once, and more than mesh bears
	// unsent would end the connection with all that is forwarded on it.
	askedAtOnce = 4 << 20
	// questionBytes is what a question counts for besides its names.
	questionBytes = askedAtOnce / maxPeerReads
)

// askAll is ask for several at once.
func (s *steps) askAll(qs []*replica.Query) ([]wire.Result, *wire.Error) {
	results := make([]wire.Result, len(qs))
	for from := 0; from < len(qs); {
		next := from + s.askedNext(qs[from:])
		wait := newTogether(s.n.tasks)
		for i := from; i < next; i++ {
			if s.own[s.n.logOf(qs[i].Group).shard] != nil {
				results[i] = s.ask(qs[i])
				continue
			}
			wait.run(func() { results[i] = s.ask(qs[i]) })
		}
		wait.wait()
		from = next
	}
	if err := s.told(results); err != nil {
		return nil, err
	}
	return results, nil
}

// askedNext answers how many of the first of some questions are asked at once.
func (s *steps) askedNext(qs []*replica.Query) int {
	bytes := 0
	for i, q := range qs {
		if bytes >= askedAtOnce {
			return i
		}
		if s.own[s.n.logOf(q.Group).shard] == nil {
			bytes += questionBytes
			for _, name := range q.Names {
				bytes += len(name)
			}
		}
	}
	return len(qs)
}

// askWhere asks a question about an owner of the groups where that is.
func (s *steps) askWhere(q *replica.Query) ([]wire.Result, *wire.Error) {
	present, err := s.find(q.Owner)
	if err != nil {
		return nil, err
	}
	return s.askIn(present, q)
}

// askIn is askWhere for groups that are known.
func (s *steps) askIn(present []uint16, q *replica.Query) ([]wire.Result, *wire.Error) {
	qs := make([]*replica.Query, len(present))
	for i, g := range present {
		own := *q
		own.Group, own.Version = g, s.version()
		if own.What == replica.AskList {
			own.Token = s.found[s.n.logOf(g).shard]
		}
		qs[i] = &own
	}
	return s.askAll(qs)
}

// any asks a question of the groups where an owner is, and whether one says yes.
func (s *steps) any(what replica.What, owner string, domains []string) (bool, *wire.Error) {
	results, err := s.askWhere(&replica.Query{What: what, Owner: owner, Names: domains})
	return slices.ContainsFunc(results, func(res wire.Result) bool { return res.Flag }), err
}

// find answers the groups in which an owner has an ownership record, in order.
func (s *steps) find(owner string) ([]uint16, *wire.Error) {
	return s.groupsOf(&replica.Query{What: replica.AskFind, Owner: owner})
}

// groupsOf asks every log of groups that the call has to do with for some of its groups.
func (s *steps) groupsOf(q *replica.Query) ([]uint16, *wire.Error) {
	var all []uint16
	var first *wire.Error
	for i, res := range s.askLogs(q) {
		if err := res.Err(); err != nil {
			first = err
		}
		if q.What == replica.AskFind && s.found != nil {
			s.found[s.n.id.Logs()[i]] = int64(res.Count)
		}
		all = append(all, groupsIn(&res)...)
	}
	slices.Sort(all)
	return all, first
}

// askLogs asks every log of groups that the call has to do with.
func (s *steps) askLogs(q *replica.Query) []wire.Result {
	wait := newTogether(s.n.tasks)
	shards := s.n.id.Logs()
	results := make([]wire.Result, len(shards))
	for i, shard := range shards {
		l := s.n.logs[shard]
		switch {
		case shard == rows.SystemLog || !s.asks(shard):
		case s.own[shard] != nil:
			results[i] = s.own[shard].Answer(q)
		default:
			wait.run(func() { results[i] = s.n.askLeader(l, q, s.since) })
		}
	}
	wait.wait()
	return results
}

// assert checks paths of several namespaces; the first that fails decides.
func (s *steps) assert() (res wire.Result, err *wire.Error) {
	if len(s.req.Paths) == 0 {
		return res, nil
	}
	for {
		s.routes = s.n.routes.Load()
		s.only = make(map[uint64]bool)
		for _, path := range s.req.Paths {
			s.only[s.n.logOf(s.n.groupOf(s.routes.Resolve(path))).shard] = true
		}
		if err := s.caughtUp(); err != nil {
			return res, err
		}
		if s.n.routes.Load() == s.routes { // else the routes that were just learned say other logs
			break
		}
	}
	for _, path := range s.req.Paths {
		ns := s.routes.Resolve(path)
		res = s.ask(&replica.Query{
			What: replica.AskAssert, Group: s.n.groupOf(ns), Version: s.routes.Version, NS: ns, Owner: s.req.Owner,
			Token: s.req.Token, Names: []string{path},
		})
		if err := s.told([]wire.Result{res}); err != nil || res.Status != wire.StatusOK {
			return res, err
		}
	}
	return res, nil
}
