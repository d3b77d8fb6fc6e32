package engine

import (
	"slices"
	"strings"

	"github.com/pathlockd/pathlockd/trie"
	"github.com/pathlockd/pathlockd/wire"
)

// setRow sets or deletes the policy of one namespace of the group. If that
// changes the algorithm in force, the namespace's locks and waiters go, and every
// owner that had one is told once (contract.md section 4).
func (s *State) setRow(cmd *Command) wire.Result {
	ns := cmd.Req.Namespace
	before, _ := s.algorithm(ns)
	s.writePolicy(ns, cmd.Req.Algorithm, cmd.Req.Explicit)
	if after, _ := s.algorithm(ns); after != before {
		s.clear(ns)
	}
	return wire.Result{}
}

func (s *State) writePolicy(ns string, alg wire.Algorithm, chosen bool) {
	switch p := s.policies.Get(ns); {
	case !chosen && p != nil:
		s.addTombstone(tablePolicy, ns, 0)
		s.policies.Delete(s.w, ns)
	case chosen && p == nil:
		s.policies.Insert(s.w, owned(ns), trie.None, 0).algorithm = alg
	case chosen:
		s.policies.Edit(s.w, ns).algorithm = alg
	}
}

// clear takes everything in exactly one namespace away.
func (s *State) clear(ns string) {
	key := string(appendKey(nil, ns, ns))
	var owners []string
	s.holds.Sub(key).AscendClass(liveHolds, func(_ string, h *hold) bool {
		owners = append(owners, h.owner)
		return true
	})
	s.queue.Sub(key).Ascend(func(_ string, p *place) bool {
		owners = append(owners, p.owner)
		return true
	})
	slices.Sort(owners)
	for _, o := range slices.Compact(owners) {
		l := s.ownership(o, ns)
		if l == nil {
			continue // its time was over before
		}
		o, space := l.owner, l.ns
		for {
			key, ok := firstKey(&l.waits)
			if !ok {
				break
			}
			s.abort(seqOf(key), wire.Errorf(wire.Aborted,
				"the locking policy of namespace %s changed while the request waited", wire.Quote(ns)))
			if l = s.ownership(o, space); l == nil {
				break
			}
		}
		if l != nil {
			s.tell(l, wire.EventKilled)
			s.endQuietly(l)
		}
		s.event(wire.EventKilled, o, "", space, 0)
	}
}

// liveHolds are the classes of leaves that are holds.
var liveHolds = classWrite.Mask() | classRead.Mask()

// policyStep carries one step of a policy change out, unless an attempt that began later
// has come by: a step may be under way for as long as a request may, after its leader was
// deposed, and a freeze that arrives when the change is over would never be thawed.
func (s *State) policyStep(cmd *Command) (res wire.Result) {
	req := cmd.Req
	if req.Attempt < s.attempt {
		res.Fail(overtaken(req.Attempt, s.attempt))
		return res
	}
	s.attempt = req.Attempt
	switch req.Op {
	case wire.OpSetRow:
		return s.setRow(cmd)
	case wire.OpFreeze:
		return s.freeze(cmd)
	case wire.OpThaw:
		return s.thaw(req.Namespace)
	case wire.OpOpen:
		return s.open(cmd)
	}
	return s.leave(cmd)
}

// overtaken refuses a step of an attempt that another one has followed.
func overtaken(attempt, last uint64) *wire.Error {
	return wire.Errorf(wire.Aborted, "the step is of attempt %d to carry a policy change out, and attempt %d has begun",
		attempt, last)
}

// freeze is the first step of a routing change: it checks that the subtree at a
// root has no live lock and no recursive write above it, and from then on lets
// nothing into it. It answers the counter, above which the tokens of the subtree
// go on elsewhere; or CONFLICT with the lock that is in the way.
//
// cmd.NS is the namespace the root lies in, or "" to look at every namespace of
// the group below the root.
func (s *State) freeze(cmd *Command) wire.Result {
	root := cmd.Req.Namespace
	if path, owner, found := s.lockIn(root, cmd.NS); found {
		return wire.Result{Status: wire.StatusConflict, Path: path, Owner: owner}
	}
	f := freezing{owned(root), owned(cmd.NS), cmd.Req.Target}
	s.frozen = slices.Clone(s.frozen)
	if i := s.freezes(root); i >= 0 {
		s.frozen[i] = f
	} else {
		s.frozen = append(s.frozen, f)
	}
	return wire.Result{Token: s.counter}
}

// freezes is where a root stands among those that are being moved, -1 if it does not.
func (s *State) freezes(root string) int {
	return slices.IndexFunc(s.frozen, func(f freezing) bool { return f.root == root })
}

// lockIn finds a live lock at or below a root, or a recursive write above it in
// namespace above.
func (s *State) lockIn(root, above string) (path, owner string, found bool) {
	live := func(key string, h *hold) bool {
		return s.lasts(h.owner, namespaceOf(key))
	}
	eachMoving(s, &s.holds, liveHolds, root, func(key string, h *hold) bool {
		if live(key, h) {
			path, owner, found = pathOf(key), h.owner, true
		}
		return !found
	})
	if found || above == "" {
		return path, owner, found
	}
	key := string(appendKey(nil, above, root))
	s.holds.Walk(key, func(at int, st trie.Step[hold]) bool {
		if h := st.Value(); h != nil && isBoundary(key, at) && h.owner != "" && h.alg.Recursive() && live(key[:at], h) {
			path, owner, found = pathOf(key[:at]), h.owner, true
		}
		return true
	})
	return owned(path), owner, found
}

// eachMoving calls f, until it is false, with the keys of a tree, and of its classes, whose paths a routing change at
// root moves. Namespaces that it does not move are passed over as a whole, however much is in them.
func eachMoving[V any](s *State, t *trie.Tree[V], m trie.Mask, root string, f func(key string, v *V) bool) {
	s.eachInside(root, func(prefix string) bool { return eachMovingIn(s, t, m, root, prefix, f) })
}

// eachMovingIn is eachMoving for those with one of the prefixes. It is false if f was.
func eachMovingIn[V any](
	s *State, t *trie.Tree[V], m trie.Mask, root, prefix string, f func(key string, v *V) bool,
) (more bool) {
	more = true
	for from := prefix; from != ""; {
		next := ""
		t.AscendFrom(prefix, m, from, func(key string, v *V) bool {
			if s.moves(root, key) {
				more = f(key, v)
				return more
			}
			next = past(unmoved(root, prefix, key))
			return false
		})
		from = next
	}
	return more
}

// unmoved is the beginning of a key that a routing change at root does not move, and that has the prefix of those it
// moves (eachInside): nothing that begins so is moved.
func unmoved(root, prefix, key string) string {
	ns := namespaceOf(key)
	// the path is one beside root, whose name only begins alike
	if len(key) > len(prefix) && contains(rootPath(ns), root) {
		return key[:len(prefix)+1]
	}
	return key[:keyHead+len(strings.TrimSuffix(ns, "/"))]
}

// past is the first string that is behind all with a prefix, "" when there is none.
func past(prefix string) string {
	for n := len(prefix); n > 0; n-- {
		if c := prefix[n-1]; c < 0xff {
			return prefix[:n-1] + string([]byte{c + 1})
		}
	}
	return ""
}

// eachInside calls f with prefixes of keys that together take in every path at
// and below a root, whatever namespace it is in.
func (s *State) eachInside(root string, f func(prefix string) bool) {
	lengths := make(map[string]bool)
	s.lengths(lengths)
	path := strings.TrimSuffix(rootPath(root), "/")
	for _, l := range sortedKeys(lengths) {
		if !f(l + path) {
			return
		}
	}
}

// lengths collects the heads of all path keys: the lengths of the namespaces
// that have any.
func (s *State) lengths(into map[string]bool) {
	for from := ""; ; {
		key, _, ok := s.holds.Ceiling("", from, 0)
		if !ok {
			break
		}
		into[key[:keyHead]] = true
		from = key[:keyHead] + "\xff"
	}
	for from := ""; ; {
		key, _, ok := s.queue.Ceiling("", from, 0)
		if !ok {
			break
		}
		into[key[:keyHead]] = true
		from = key[:keyHead] + "\xff"
	}
}

func sortedKeys(m map[string]bool) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// moves says that the path of a key is one that a routing change at root moves:
// it lies there, and not in a namespace of its own that somebody chose within.
func (s *State) moves(root, key string) bool {
	return movesPath(&s.policies, root, namespaceOf(key), pathOf(key))
}

func movesPath(policies *trie.Tree[policy], root, ns, path string) bool {
	return contains(root, path) && (ns == root || !within(root, ns) || policies.Get(ns) == nil)
}

// within says that a namespace lies in a root, and not around it: "h" holds as much
// as "h:/" and gives way to it.
func within(root, ns string) bool {
	return contains(root, rootPath(ns)) && root != ns+":/"
}

// rootPath is a namespace as a path, as contains takes it.
func rootPath(ns string) string {
	if segments(ns) == 0 && len(ns) > 0 && ns[len(ns)-1] != slash {
		return ns + ":/"
	}
	return ns
}

// isFrozen says that the path of a key is being moved.
func (s *State) isFrozen(key string) bool {
	return slices.ContainsFunc(s.frozen, func(f freezing) bool { return s.moves(f.root, key) })
}

// overFrozen says that a new lock would cover a subtree that is being moved: freeze saw that
// there is none, and so it stays until the move is over.
func (s *State) overFrozen(alg wire.Algorithm, mode wire.Mode, state wire.LockState, path string) bool {
	if mode != wire.ModeWrite || state != wire.StateNew || !alg.Recursive() {
		return false
	}
	return slices.ContainsFunc(s.frozen, func(f freezing) bool { return liesAbove(path, rootPath(f.root)) })
}

// liesAbove says that a path is a true ancestor of another one.
func liesAbove(above, path string) bool {
	above = strings.TrimSuffix(above, "/")
	return len(path) > len(above)+1 && path[len(above)] == slash && strings.HasPrefix(path, above)
}

// bars says that what was resolved with routes of a version came before the move is over.
func (f *freezing) bars(version uint64) bool { return f.until == 0 || version < f.until }

// involves says that a namespace gains or loses paths by a move.
func (s *State) involves(f *freezing, ns string) bool {
	return ns == f.root || ns == f.above && ns != "" || movesPath(&s.policies, f.root, ns, rootPath(ns))
}

// moved refuses a command whose paths were resolved with routes that a change here has
// overtaken, or whose namespace is being moved right now: who asked resolves them anew, once
// it knows the routes that the answer names.
//
// What is refused of a namespace depends on nothing but the version that it was resolved
// with, and what was refused once is refused from then on. So of what a session asks in a
// namespace nothing passes what it asked there before: it comes with the same version, or
// when that is answered (groups/line.go).
func (s *State) moved(cmd *Command) (res wire.Result, moved bool) {
	if !moving(cmd.Req) {
		return res, false
	}
	need := s.version
	moved = cmd.Version < s.version
	for i := range s.frozen {
		if f := &s.frozen[i]; f.bars(cmd.Version) && s.heldBack(f, cmd) {
			moved, need = true, max(need, f.until)
		}
	}
	if moved {
		res = movedTo(need)
	}
	return res, moved
}

// heldBack reports whether a request is not to be carried out while a namespace of its is being moved. A part of a
// claimed release_all is not: once the move is decided a repeat goes by it, leaves out what has moved, and may be done
// before this group is told of the end.
func (s *State) heldBack(f *freezing, cmd *Command) bool {
	switch cmd.Req.Op {
	case wire.OpAcquire, wire.OpRelease:
		return s.involves(f, cmd.NS)
	case wire.OpReleaseAll:
		return isPart(cmd.Req.Key) && slices.ContainsFunc(cmd.Req.Domains, func(d string) bool {
			return !wire.IsHandler(d) && s.involves(f, d)
		})
	}
	return false
}

// Overtaken is what a command is refused with whose routes are older than what its group knows, without carrying
// anything out.
func (s *State) Overtaken(cmd *Command) (res wire.Result, overtaken bool) { return s.moved(cmd) }

// moving says that a request is about namespaces that the routes were asked for.
func moving(req *wire.Request) bool {
	switch req.Op {
	case wire.OpAcquire, wire.OpRelease:
		return true
	case wire.OpRenew, wire.OpReleaseAll:
		if Planted == PlantFalseLost && req.Op == wire.OpRenew {
			return false
		}
		return slices.ContainsFunc(req.Domains, func(d string) bool { return !wire.IsHandler(d) })
	}
	return false
}

// lostInMove says that a renewal found no lease in a namespace that is being moved: what its
// owner asked for before may be held back. One that found it has renewed it.
func (s *State) lostInMove(cmd *Command, found *wire.Result) (res wire.Result, moved bool) {
	if cmd.Req.Op != wire.OpRenew || found.Code != wire.OK || found.Status != wire.RenewLost ||
		Planted == PlantFalseLost {
		return res, false
	}
	need := s.version
	for i := range s.frozen {
		f := &s.frozen[i]
		if f.bars(cmd.Version) && slices.ContainsFunc(cmd.Req.Domains,
			func(d string) bool { return s.involves(f, d) }) {
			moved, need = true, max(need, f.until)
		}
	}
	return movedTo(need), moved
}

func movedTo(version uint64) wire.Result {
	return wire.Result{
		Code: wire.Unavailable, Message: "the namespace is being moved to another group",
		Position: Moved, Count: version,
	}
}

// thaw undoes a freeze: what waits there, or above it, may be granted again. The routes come
// to have the version that the freeze named, or have it by now.
func (s *State) thaw(root string) wire.Result {
	i := s.freezes(root)
	if i < 0 {
		return wire.Result{}
	}
	s.atVersion(s.frozen[i].until) // what it refused is refused from now on as well
	s.frozen = slices.Delete(slices.Clone(s.frozen), i, i+1)
	s.eachInside(root, func(prefix string) bool {
		s.freed = append(s.freed, freed{key: prefix, root: root})
		return true
	})
	return wire.Result{}
}

// open takes a subtree over: its tokens go on above the floor, which also stands
// for the fences of all its paths.
//
// cmd.NS is the namespace that its paths are in from now on, or "" when they are in
// several: then the floor counts for namespaces within that were chosen, too, which
// is safe and less kind.
//
// It brings kept answers along, and is repeated for as long as there are more (carry.go).
func (s *State) open(cmd *Command) wire.Result {
	root := cmd.Req.Namespace
	if res := s.bring(cmd.Req.Cursor); res.Code != wire.OK {
		return res
	}
	if Planted != PlantGivenUpRoot {
		s.raise(cmd.Req.Token)
		s.addFloor(root, cmd.NS, cmd.Req.Token)
	}
	if cmd.Req.Explicit {
		s.writePolicy(root, cmd.Req.Algorithm, true)
	}
	s.atVersion(cmd.Req.Target)
	return wire.Result{}
}

// atVersion notes the routes that the group's paths must be resolved with.
func (s *State) atVersion(v uint64) {
	if v > s.version {
		s.version = v
	}
}

func (s *State) addFloor(root, ns string, token int64) {
	if token == 0 {
		return
	}
	s.floors = slices.Clone(s.floors)
	for i := range s.floors {
		if s.floors[i].Root == root && s.floors[i].NS == ns {
			s.floors[i].Token = max(s.floors[i].Token, token)
			return
		}
	}
	s.floors = append(s.floors, floor{owned(root), owned(ns), token})
	if len(s.floors) > s.cfg.MaxFloors {
		merged := floor{}
		for _, f := range s.floors {
			merged.Token = max(merged.Token, f.Token)
		}
		s.floors = []floor{merged}
	}
}

// leave is the last step of a routing change: who waits for a path of the subtree
// is told, and requests resolved with older routes are refused from now on. The event names
// the path, as what its owner holds it holds on.
func (s *State) leave(cmd *Command) wire.Result {
	root := cmd.Req.Namespace
	var gone []uint64
	inside := make(map[uint64]string) // the first path of each
	eachMoving(s, &s.queue, classWait.Mask(), root, func(key string, _ *place) bool {
		if seq := seqOf(key); inside[seq] == "" {
			gone, inside[seq] = append(gone, seq), owned(pathOf(key))
		}
		return true
	})
	slices.Sort(gone)
	told := make(map[string]bool)
	for _, seq := range gone {
		w := s.waiter(seq)
		if w == nil {
			continue
		}
		if !told[w.owner] {
			told[w.owner] = true
			s.event(wire.EventKilled, w.owner, inside[seq], w.ns, 0)
		}
		s.abort(seq, wire.Errorf(wire.Aborted, "namespace %s was moved while the request waited", wire.Quote(root)))
	}
	s.thaw(root) // for those above it, as nobody waits inside
	s.atVersion(cmd.Req.Target)
	return wire.Result{}
}
