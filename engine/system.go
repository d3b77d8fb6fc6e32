package engine

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/zeebo/xxh3"

	"github.com/pathlockd/pathlockd/wire"
)

// System is the state of the one group that all nodes follow: which namespaces
// somebody chose, the changes to them that are under way, the cluster-wide token
// counter, and what operators want of nodes (mark.go). Like State it is changed by
// Apply alone.
//
// It is small and changes seldom, so it is kept as its rows, in a map, with a
// note of those that changed.
type System struct {
	now     int64
	counter int64
	version uint64 // of the routes
	nextID  uint64
	attempt uint64          // the last that a step of a policy change came of
	freezes bool            // it may have frozen something, and the routes are the same since it began
	roots   map[string]bool // chosen namespaces
	intents []Intent        // in order of arrival
	kept    map[string]systemKept
	keepers shares      // kept answers by session
	aging   []keptUntil // every kept answer but those of changes under way, in the order they end; some are gone
	marks   map[string]wire.Drain
	changed map[string]bool // rows to be written
	limits  Limits
}

// keptUntil is when a kept answer ends.
type keptUntil struct {
	deadline int64
	name     string
}

// compare is the order in which they end. It is that of what is kept, and not of when it was: a replica that was
// restarted lets go of the same ones when one entry does not end all that are over.
func (u keptUntil) compare(v keptUntil) int {
	return cmp.Or(cmp.Compare(u.deadline, v.deadline), strings.Compare(u.name, v.name))
}

// Intent is a policy change that was accepted and is not yet done.
type Intent struct {
	ID        uint64
	Op        wire.Op // OpSetPolicy or OpDeletePolicy
	Root      string
	Algorithm wire.Algorithm
	Committed bool   // the routes have it; what is left is to tell the groups
	Key       string // idempotency key, "" for none
	Hash      uint64
	Caller    Caller   // the request of a session it came from
	Joined    []Caller // those that came with its key while it was under way; replaced, never changed
}

// maxJoined is how many requests may join a change with its key. A client repeats one that it lost the
// answer to: more of them at once are refused until it is done.
const maxJoined = 8

// Of answers the requests that the change is for.
func (i *Intent) Of() []Caller { return append([]Caller{i.Caller}, i.Joined...) }

// has says that a request is one of them.
func (i *Intent) has(c Caller) bool { return i.Caller == c || slices.Contains(i.Joined, c) }

// systemKept is the answer to a keyed request.
type systemKept struct {
	hash     uint64
	token    int64
	pending  bool   // a policy change not yet done
	of       uint64 // the session that asked for it (markOf), 0 for none
	deadline int64
}

// Done tells how a policy change ended.
type Done struct {
	Intent
	Result wire.Result
}

// NewSystem makes an empty system state.
func NewSystem() *System {
	return &System{
		roots: make(map[string]bool), kept: make(map[string]systemKept), keepers: make(shares),
		marks: make(map[string]wire.Drain), changed: make(map[string]bool),
		limits: DefaultLimits(),
	}
}

// Routes answers the routes in force. They are not changed afterwards.
func (s *System) Routes(segments int) *wire.Routes {
	if Planted == PlantBareRoot {
		return wire.NewRoutes(s.version, segments, slices.DeleteFunc(sortedKeys(s.roots), func(root string) bool {
			return strings.HasSuffix(root, ":/")
		}))
	}
	return wire.NewRoutes(s.version, segments, sortedKeys(s.roots))
}

// Waits says that a request's policy change is under way.
func (s *System) Waits(c Caller) bool {
	return slices.ContainsFunc(s.intents, func(i Intent) bool { return i.has(c) })
}

// Asks says that a command asks for the policy change of its request that is under way, and for nothing else.
func (s *System) Asks(cmd *Command) bool {
	return slices.ContainsFunc(s.intents, func(i Intent) bool {
		return i.has(cmd.Caller) && i.Op == cmd.Req.Op && i.Hash == hashOf(cmd.Req)
	})
}

// Waiting is how many policy changes of a session are under way.
func (s *System) Waiting(id Session) (n int) {
	for i := range s.intents {
		for _, c := range s.intents[i].Of() {
			if c.Session == id {
				n++
			}
		}
	}
	return n
}

// Callers answers the sessions whose policy changes are under way, once for each.
func (s *System) Callers() (all []Session) {
	for i := range s.intents {
		for _, c := range s.intents[i].Of() {
			all = append(all, c.Session)
		}
	}
	return all
}

// Version is that of the routes in force.
func (s *System) Version() uint64 { return s.version }

// Roots answers the chosen namespaces in force, in order, and the version of the routes.
func (s *System) Roots() (version uint64, roots []string) { return s.version, sortedKeys(s.roots) }

// Ready answers the policy changes that can be carried out: the first in each handler.
// Those in one handler may be about the same paths, and are carried out in order.
func (s *System) Ready() (first []Intent) {
	seen := make(map[string]bool)
	for _, i := range s.intents {
		if h := wire.PathHandler(i.Root); !seen[h] {
			seen[h] = true
			first = append(first, i)
		}
	}
	return first
}

// Freezes says that an attempt that is not over may have frozen a subtree.
func (s *System) Freezes() bool { return s.freezes }

// at is where an intent stands, -1 when it is over.
func (s *System) at(id uint64) int {
	return slices.IndexFunc(s.intents, func(i Intent) bool { return i.ID == id })
}

// NextDeadline is when the next kept answer ends, ok false for never. Were it left to the next command, that would
// answer by it: in a log in which nothing goes on, time does not either. Nothing else here ends with time.
func (s *System) NextDeadline() (at int64, ok bool) {
	if len(s.aging) == 0 {
		return 0, false
	}
	return s.aging[0].deadline, true
}

// Apply carries out one command. A policy change is answered QUEUED with its
// number in Count; Done tells its end.
func (s *System) Apply(c Clock, cmd *Command, done *[]Done) wire.Result {
	if c.Now > s.now {
		s.now = c.Now
		s.changed[rowMeta] = true
	}
	s.Expire(s.now, len(s.aging))
	req := cmd.Req
	switch req.Op {
	case wire.OpIncrToken:
		return s.incr(cmd)
	case wire.OpSetPolicy, wire.OpDeletePolicy:
		return s.intend(cmd)
	case wire.OpRouteBegin, wire.OpRouteCommit, wire.OpRouteFinish:
		return s.step(req, done)
	case wire.OpMarkNode:
		return s.mark(req.Node, req.Drain)
	}
	var res wire.Result
	res.Fail(wire.Errorf(wire.Internal, "engine: operation %v cannot stand in the system log", req.Op))
	return res
}

// Expire drops answers whose time is over at an instant of the lease clock, so many at most, and says how many it did.
// That of a change that is still under way has no end before the change has.
func (s *System) Expire(now int64, budget int) (ended int) {
	for len(s.aging) > 0 && s.aging[0].deadline <= now && ended < budget {
		u := s.aging[0]
		s.aging = s.aging[1:]
		if k, ok := s.kept[u.name]; ok && !k.pending && k.deadline == u.deadline {
			s.forget(u.name)
			ended++
		}
	}
	return ended
}

// forget drops a kept answer.
func (s *System) forget(name string) {
	s.keepers.add(s.kept[name].of, -1)
	delete(s.kept, name)
	s.changed[rowKept+name] = true
}

// first looks a keyed request up; found says that res answers it.
func (s *System) first(cmd *Command, hash uint64) (res wire.Result, found bool) {
	req := cmd.Req
	k, ok := s.kept[keptName(req)]
	switch {
	case req.Key == "":
		return res, false
	case !ok && len(s.kept) >= s.limits.MaxSysKept:
		res.Fail(wire.Errorf(wire.ResourceExhausted,
			"idempotency_key: the system group keeps %d answers, at most %d are allowed; each is kept for %d s",
			len(s.kept), s.limits.MaxSysKept, s.limits.KeptMillis/1000))
		return res, true
	case !ok:
		if err := s.keepers.refuse(markOf(cmd.Caller.Session), s.limits.MaxSysKept, "the system group",
			s.limits.KeptMillis); err != nil {
			res.Fail(err)
			return res, true
		}
		return res, false
	case k.hash != hash:
		res.Fail(wire.Errorf(wire.InvalidArgument,
			"idempotency_key %s: was used for another request less than %d s ago", wire.Quote(req.Key),
			s.limits.KeptMillis/1000))
		return res, true
	case k.pending:
		for n := range s.intents {
			if i := &s.intents[n]; i.Op == req.Op && i.Key == req.Key {
				return s.join(i, cmd.Caller), true
			}
		}
	}
	return wire.Result{Token: k.token}, true
}

// join has a request wait for a change that is under way.
func (s *System) join(i *Intent, c Caller) (res wire.Result) {
	switch {
	case c == (Caller{}) || i.has(c):
	case len(i.Joined) == maxJoined:
		res.Fail(wire.Errorf(wire.ResourceExhausted,
			"idempotency_key %s: %d more requests wait for the policy change with this key, at most %d are allowed",
			wire.Quote(i.Key), len(i.Joined), maxJoined))
		return res
	default:
		i.Joined = append(slices.Clone(i.Joined), c)
		s.changed[intentRow(i.ID)] = true
	}
	return wire.Result{Status: wire.StatusQueued, Count: i.ID}
}

func keptName(req *wire.Request) string { return string(byte(req.Op)) + req.Key }

func (s *System) keep(name string, k systemKept) {
	k.deadline = s.now + int64(s.limits.KeptMillis)
	if old, ok := s.kept[name]; ok {
		k.of = old.of
	} else {
		s.keepers.add(k.of, 1)
	}
	s.kept[name] = k
	s.changed[rowKept+name] = true
	if !k.pending { // else its time begins when the change is over
		u := keptUntil{k.deadline, name} // not always the last: the limit may have been lowered since
		at, _ := slices.BinarySearchFunc(s.aging, u, keptUntil.compare)
		s.aging = slices.Insert(s.aging, at, u)
	}
}

func (s *System) incr(cmd *Command) wire.Result {
	hash := hashOf(cmd.Req)
	if res, found := s.first(cmd, hash); found {
		return res
	}
	s.counter++
	s.changed[rowMeta] = true
	if cmd.Req.Key != "" {
		s.keep(keptName(cmd.Req), systemKept{hash: hash, token: s.counter, of: markOf(cmd.Caller.Session)})
	}
	return wire.Result{Token: s.counter}
}

// intend accepts a policy change, to be carried out when those before it are.
func (s *System) intend(cmd *Command) wire.Result {
	req, hash := cmd.Req, hashOf(cmd.Req)
	for _, i := range s.intents {
		if cmd.Caller != (Caller{}) && i.has(cmd.Caller) {
			return wire.Result{Status: wire.StatusQueued, Count: i.ID}
		}
	}
	res, found := s.first(cmd, hash)
	if found {
		return res
	}
	switch {
	case len(s.intents) >= s.limits.MaxIntents:
		res.Fail(wire.Errorf(wire.ResourceExhausted,
			"%d policy changes are under way, at most %d are allowed", len(s.intents), s.limits.MaxIntents))
		return res
	case req.Op == wire.OpSetPolicy && !s.has(req.Namespace) && len(s.roots)+s.pendingSets() >= s.limits.MaxRoots:
		res.Fail(wire.Errorf(wire.ResourceExhausted,
			"namespace: %d namespaces have a policy, at most %d are allowed", len(s.roots), s.limits.MaxRoots))
		return res
	}
	s.nextID++
	i := Intent{
		ID: s.nextID, Op: req.Op, Root: owned(req.Namespace), Algorithm: req.Algorithm,
		Key: owned(req.Key), Hash: hash, Caller: cmd.Caller,
	}
	s.intents = append(s.intents, i)
	s.changed[rowMeta], s.changed[intentRow(i.ID)] = true, true
	if i.Key != "" {
		s.keep(keptName(req), systemKept{hash: hash, pending: true, of: markOf(cmd.Caller.Session)})
	}
	return wire.Result{Status: wire.StatusQueued, Count: i.ID}
}

func (s *System) has(root string) bool {
	_, ok := s.roots[root]
	return ok
}

func (s *System) pendingSets() (n int) {
	for _, i := range s.intents {
		if i.Op == wire.OpSetPolicy {
			n++
		}
	}
	return n
}

// step carries one step of a policy change out, unless an attempt that began later has
// come by, as in the groups. Each attempt begins with one, so that nothing of those before
// it happens here between its steps.
func (s *System) step(req *wire.Request, done *[]Done) (res wire.Result) {
	if req.Attempt < s.attempt {
		res.Fail(overtaken(req.Attempt, s.attempt))
		return res
	}
	if req.Attempt > s.attempt {
		s.attempt = req.Attempt
		s.changed[rowMeta] = true
	}
	switch req.Op {
	case wire.OpRouteBegin:
		// What the attempts before it froze counts for nobody who knows the next routes.
		if s.freezes {
			s.version++
		}
		s.freezes = req.Explicit
		s.changed[rowMeta] = true
	case wire.OpRouteCommit:
		return s.commit(req.Target)
	case wire.OpRouteFinish:
		return s.finish(req.Target, req.Detail, done)
	}
	return res
}

// commit puts the change that is being carried out into the routes.
func (s *System) commit(id uint64) wire.Result {
	at := s.at(id)
	if at < 0 {
		return wire.Result{Code: wire.Aborted, Message: fmt.Sprintf("policy change %d is over", id)}
	}
	if s.intents[at].Committed {
		return wire.Result{Count: s.version} // by an earlier attempt
	}
	i := &s.intents[at]
	i.Committed = true
	s.version++
	s.freezes = false
	if i.Op == wire.OpSetPolicy {
		s.roots[i.Root] = true
	} else {
		delete(s.roots, i.Root)
	}
	s.changed[rowRoot+i.Root], s.changed[rowMeta], s.changed[intentRow(id)] = true, true, true
	return wire.Result{Count: s.version}
}

// finish ends the change that is being carried out: refused if detail says why.
func (s *System) finish(id uint64, detail string, done *[]Done) wire.Result {
	at := s.at(id)
	if at < 0 {
		return wire.Result{}
	}
	i := s.intents[at]
	s.intents = slices.Delete(s.intents, at, at+1)
	s.changed[intentRow(id)] = true
	var res wire.Result
	name := string(byte(i.Op)) + i.Key
	if detail != "" {
		// A group that an earlier attempt opened stands at the next version: it must come
		// to be, or the group would wait for it.
		s.version++
		s.freezes = false
		s.changed[rowMeta] = true
		res.Fail(&wire.Error{Code: wire.FailedPrecondition, Message: owned(detail)})
		s.forget(name)
	} else if i.Key != "" {
		s.keep(name, systemKept{hash: i.Hash})
	}
	*done = append(*done, Done{Intent: i, Result: res})
	return wire.Result{}
}

// Rows of the system state, by their first byte.
const (
	rowRoot   = "r"
	rowIntent = "i"
	rowKept   = "k"
	rowMark   = "n"
	rowMeta   = "m"
)

func intentRow(id uint64) string {
	return string(binary.BigEndian.AppendUint64([]byte(rowIntent), id))
}

// TakeChanged answers the rows that changed since the last call, a nil value
// for one that is gone.
func (s *System) TakeChanged() map[string][]byte {
	rows := make(map[string][]byte, len(s.changed))
	for row := range s.changed {
		rows[row] = s.row(row)
	}
	clear(s.changed)
	return rows
}

// AllRows answers every row.
func (s *System) AllRows() map[string][]byte {
	rows := map[string][]byte{rowMeta: s.row(rowMeta)}
	for root := range s.roots {
		rows[rowRoot+root] = s.row(rowRoot + root)
	}
	for _, i := range s.intents {
		rows[intentRow(i.ID)] = s.row(intentRow(i.ID))
	}
	for name := range s.kept {
		rows[rowKept+name] = s.row(rowKept + name)
	}
	for node := range s.marks {
		rows[rowMark+node] = s.row(rowMark + node)
	}
	return rows
}

// row encodes one row, nil when it is gone.
func (s *System) row(row string) []byte {
	name := row[1:]
	switch row[:1] {
	case rowRoot:
		switch {
		case !s.has(name):
		case handlerRoot(name):
			return wire.AppendBool(wire.AppendArray(nil, 1), true)
		default:
			return wire.AppendArray(nil, 0)
		}
	case rowIntent:
		for _, i := range s.intents {
			if intentRow(i.ID) == row {
				dst := wire.AppendUint(wire.AppendArray(nil, 8+2*len(i.Joined)), uint64(i.Op))
				dst = wire.AppendStr(dst, i.Root)
				dst = wire.AppendUint(dst, uint64(i.Algorithm))
				dst = wire.AppendBool(dst, i.Committed)
				dst = wire.AppendStr(dst, i.Key)
				dst = wire.AppendUint(dst, i.Hash)
				for _, c := range i.Of() {
					dst = wire.AppendUint(wire.AppendBin(dst, c.Session[:]), c.ID)
				}
				return dst
			}
		}
	case rowKept:
		if k, ok := s.kept[name]; ok {
			dst := wire.AppendUint(wire.AppendArray(nil, 5), k.hash)
			dst = wire.AppendInt(dst, k.token)
			dst = wire.AppendBool(dst, k.pending)
			return wire.AppendUint(wire.AppendInt(dst, k.deadline), k.of)
		}
	case rowMark:
		if d := s.marks[name]; d != wire.DrainNone {
			return wire.AppendUint(wire.AppendArray(nil, 1), uint64(d))
		}
	case rowMeta:
		dst := wire.AppendInt(wire.AppendArray(nil, 6), s.now)
		dst = wire.AppendInt(dst, s.counter)
		dst = wire.AppendUint(dst, s.version)
		dst = wire.AppendUint(dst, s.nextID)
		return wire.AppendBool(wire.AppendUint(dst, s.attempt), s.freezes)
	}
	return nil
}

// handlerRoot says that a namespace is a handler's root path, "h:/". Its row says that
// it holds the whole handler: to an early build it held that path alone.
func handlerRoot(ns string) bool { return wire.Segments(ns) == 0 && strings.HasSuffix(ns, "/") }

// Loaded ends the rows of Load.
func (s *System) Loaded() {
	slices.SortFunc(s.intents, func(a, b Intent) int { return cmp.Compare(a.ID, b.ID) })
	slices.SortFunc(s.aging, keptUntil.compare)
}

// Load takes one row into an empty system state, in any order; Loaded ends them.
func (s *System) Load(row, val []byte) error {
	if len(row) == 0 {
		return fmt.Errorf("engine: system row without a table")
	}
	r := wire.NewReader(val)
	n := r.Array()
	read := func(fields ...func()) {
		for i := range n {
			if i < len(fields) {
				fields[i]()
			} else {
				r.Skip()
			}
		}
	}
	name := string(row[1:])
	switch string(row[:1]) {
	case rowRoot:
		whole := false
		if read(func() { whole = r.Bool() }); handlerRoot(name) && !whole {
			return fmt.Errorf("engine: namespace %s was given a policy by an older build, in which it held "+
				"that one path: "+
				"delete the policy with that build, and set it again with this one", wire.Quote(name))
		}
		s.roots[name] = true
	case rowIntent:
		i := Intent{ID: binary.BigEndian.Uint64(row[1:])}
		fields := []func(){func() { i.Op = wire.Op(r.Uint()) }, func() { i.Root = text(&r) },
			func() { i.Algorithm = wire.Algorithm(r.Uint()) }, func() { i.Committed = r.Bool() },
			func() { i.Key = text(&r) }, func() { i.Hash = r.Uint() },
			func() { copy(i.Caller.Session[:], r.Bin()) }, func() { i.Caller.ID = r.Uint() }}
		for range maxJoined {
			fields = append(fields, func() {
				var c Caller
				copy(c.Session[:], r.Bin())
				i.Joined = append(i.Joined, c)
			}, func() { i.Joined[len(i.Joined)-1].ID = r.Uint() })
		}
		read(fields...)
		s.intents = append(s.intents, i)
	case rowKept:
		var k systemKept
		read(func() { k.hash = r.Uint() }, func() { k.token = r.Int() },
			func() { k.pending = r.Bool() }, func() { k.deadline = r.Int() }, func() { k.of = r.Uint() })
		s.kept[name] = k
		s.keepers.add(k.of, 1)
		if !k.pending {
			s.aging = append(s.aging, keptUntil{k.deadline, name})
		}
	case rowMark:
		read(func() { s.marks[name] = wire.Drain(r.Uint()) })
	case rowMeta:
		read(func() { s.now = r.Int() }, func() { s.counter = r.Int() },
			func() { s.version = r.Uint() }, func() { s.nextID = r.Uint() }, func() { s.attempt = r.Uint() },
			func() { s.freezes = r.Bool() })
	default:
		return fmt.Errorf("engine: system row of unknown table %q", row[0])
	}
	if err := r.Err(); err != nil {
		return fmt.Errorf("engine: system row %q: %w", row, err)
	}
	return nil
}

// Digest is a hash of all that the system state means.
func (s *System) Digest() uint64 { return DigestRows(s.AllRows()) }

// DigestRows is the Digest of the system state whose rows are given, all of them.
func DigestRows(rows map[string][]byte) uint64 {
	h := xxh3.New()
	for _, row := range sortedRows(rows) {
		if _, err := fmt.Fprintf(h, "%d %s %d %s\n", len(row), row, len(rows[row]), rows[row]); err != nil {
			panic(err) // a hash takes every write
		}
	}
	return h.Sum64()
}

func sortedRows(rows map[string][]byte) []string {
	keys := make([]string, 0, len(rows))
	for k := range rows {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, strings.Compare)
	return keys
}
