package groups

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/groups/replica"
	"github.com/pathlockd/pathlockd/groups/rows"
	"github.com/pathlockd/pathlockd/wire"
)

// Policy changes are carried out one after the other, by the node that leads the
// system log, from the list of intents kept there: whoever leads it next goes on
// where this one stopped. Each step may be done twice.
//
// Who was deposed may still have steps under way, and so may an attempt whose answer was
// lost. So attempts are numbered, by the term and within it; each begins with an entry in
// the system log, each step says which it is of, and groups and system group refuse steps
// of an attempt before the last that they heard of.
//
// A change that moves no path is: write the row in the namespace's group, commit.
//
// A change that does goes through every group involved (the one that had the
// subtree's paths, or all of them when they were spread; and the one that gets
// them):
//
//	freeze   no live lock inside, no recursive write above; from now on nothing
//	         gets in; answers the group's counter. Refused: thaw, and say why.
//	open     in the group that takes over: go on above the highest counter, with the
//	         answers that were kept for requests with keys
//	commit   in the system log: the routes have changed
//	leave    waiters inside are told; older routes are refused from now on
//
// What is frozen is so for who does not know the next routes, and those come in any case:
// with the commit, with the refusal, or with the beginning of what follows on an attempt that
// failed (undo). So nothing stays frozen where a group cannot be asked, and who was held back
// goes on. An attempt begins only when all logs that it involves answer, and gives up soon.
//
// Changes in different handlers do not wait for each other.

const (
	// changePause is how long the loop waits, at first and at most, after changes could not be
	// carried out.
	changePause, maxChangePause = 50 * time.Millisecond, time.Second
	// probeWithin is how long a log has to answer before a change that involves it is begun.
	probeWithin = time.Second
	// stepWithin and maxStepWithin are how long a step of a change has, at first and at most:
	// after an attempt that failed it has twice as long, and never more than half of
	// request_timeout_ms.
	stepWithin, maxStepWithin = 2 * time.Second, 5 * time.Second
)

// policyWork makes the loop look for intents.
func (n *Node) policyWork() {
	select {
	case n.policy <- struct{}{}:
	default:
	}
}

// attemptBits is how much of an attempt's number counts within a term.
const attemptBits = 32

// policies is what the loop knows.
type policies struct {
	n       *Node
	attempt uint64
	term    uint64         // of the system log
	failed  map[uint64]int // attempts at each change
}

// policyLoop carries intents out while this node leads the system log.
func (n *Node) policyLoop() {
	p := &policies{n: n, failed: make(map[uint64]int)}
	for n.tasks.wait(forever, n.stop, n.policy) != 0 {
		pause := changePause
		for {
			done, left := p.pass()
			if left == 0 {
				break
			}
			if done > 0 {
				pause = changePause
				continue
			}
			if n.tasks.wait(pause, n.stop) == 0 {
				return
			}
			pause = min(2*pause, maxChangePause)
		}
	}
}

// within is how long a step of a change has.
func (p *policies) within(id uint64) time.Duration {
	return min(stepWithin<<min(p.failed[id], 2), maxStepWithin, p.n.cfg.RequestTimeout/2)
}

// next numbers the next attempt.
func (p *policies) next() uint64 {
	p.attempt = max(p.attempt+1, p.term<<attemptBits)
	return p.attempt
}

// pass makes an attempt at each change that can be carried out. It answers how many of them
// were, and how many are left; none when this node does not lead.
func (p *policies) pass() (done, left int) {
	sys := p.n.logs[rows.SystemLog]
	ready, freezes := p.n.intents()
	if p.term = sys.held.Load(); p.term == 0 || !sys.leads() {
		return 0, 0
	}
	if freezes && len(ready) > 0 { // an attempt of this node, or of one that led before
		c := p.change(0)
		c.attempt = p.next()
		if err := c.begin(false); err != nil {
			p.n.log.Warn("policy changes are held up, trying again", "attempt", c.attempt, "error", err)
			return 0, len(ready)
		}
	}
	maps.DeleteFunc(p.failed, func(id uint64, _ int) bool {
		return !slices.ContainsFunc(ready, func(i engine.Intent) bool { return i.ID == id })
	})
	slices.SortStableFunc(ready, func(a, b engine.Intent) int { return cmp.Compare(p.failed[a.ID], p.failed[b.ID]) })
	for _, i := range ready {
		if p.n.leaving() { // each attempt may take a second to find that a log does not answer
			return 0, 0
		}
		c := p.change(i.ID)
		if err := c.make(p); err != nil {
			p.failed[i.ID]++
			p.n.log.Warn("a policy change is held up, trying again", "namespace", i.Root, "attempt", p.attempt,
				"error", err)
			continue
		}
		done++
	}
	ready, _ = p.n.intents()
	return done, len(ready)
}

// intents answers the policy changes that can be carried out, and whether an attempt at one
// may have frozen something.
func (n *Node) intents() (ready []engine.Intent, freezes bool) {
	m := n.logs[rows.SystemLog].local.Load()
	if m == nil {
		return nil, false
	}
	return m.Intents()
}

// intent answers a policy change that is not done.
func (n *Node) intent(id uint64) (engine.Intent, bool) {
	ready, _ := n.intents()
	at := slices.IndexFunc(ready, func(i engine.Intent) bool { return i.ID == id })
	if at < 0 {
		return engine.Intent{}, false
	}
	return ready[at], true
}

// change is one policy change as it is carried out.
type change struct {
	steps
	id       uint64
	attempt  uint64
	i        engine.Intent
	routes   *wire.Routes
	parent   string // namespace of the subtree without the root, "" for several
	involved []uint16
	takes    []uint16      // groups that take the subtree over
	froze    bool          // groups may be frozen
	within   time.Duration // for a step, 0: as long as it takes
}

// limit is how long a step is waited for.
func (c *change) limit() time.Duration {
	if c.within == 0 {
		return forever
	}
	return c.within
}

// change is an attempt at a change that has not begun.
func (p *policies) change(id uint64) *change {
	c := &change{id: id, within: p.within(id)}
	c.steps = steps{n: p.n, c: &wire.Call{}, since: p.n.clock.Mono()}
	return c
}

// make makes an attempt to do what is left of the change.
func (c *change) make(p *policies) error {
	i, ok := c.n.intent(c.id)
	if !ok {
		return nil
	}
	c.i, c.routes = i, c.n.routes.Load()
	if err := c.probe(); err != nil {
		return err
	}
	c.attempt = p.next()
	if err := c.begin(c.freezes()); err != nil {
		return err
	}
	// Only now nothing of an earlier attempt changes the intent and the routes.
	if i, ok = c.n.intent(c.id); !ok {
		return nil
	}
	c.i, c.routes = i, c.n.routes.Load()
	err := c.carryOut()
	if err != nil {
		c.undo(p)
	}
	return err
}

// freezes says that the change has to freeze something.
func (c *change) freezes() bool {
	set := c.i.Op == wire.OpSetPolicy
	return !c.i.Committed && c.routes.Moves(c.i.Root) && set != c.routes.Has(c.i.Root)
}

// probe says which of the logs that the change involves does not answer. What is not begun
// does not keep anybody waiting.
func (c *change) probe() error {
	c.plan()
	groups := c.involved
	if !c.routes.Moves(c.i.Root) {
		groups = groups[:1]
	}
	asked := make(map[uint64]bool)
	all := newTogether(c.n.tasks)
	var mu sync.Mutex
	var first error
	since := c.n.clock.Mono() - c.n.cfg.RequestTimeout + min(probeWithin, c.n.cfg.RequestTimeout)
	for _, g := range groups {
		l := c.n.logOf(g)
		if asked[l.shard] {
			continue
		}
		asked[l.shard] = true
		all.add()
		c.n.read(l, &replica.Query{What: replica.AskAny}, since, func(res *wire.Result) {
			defer all.done()
			if err := res.Err(); err != nil {
				mu.Lock()
				first = fmt.Errorf("log %d does not answer: %w", l.shard, err)
				mu.Unlock()
			}
		})
	}
	all.wait()
	return first
}

// undo lets go of what an attempt that failed froze, as far as it can. What was held back goes
// on with the first step, also where the others do not get to.
func (c *change) undo(p *policies) {
	if !c.froze {
		return
	}
	c.attempt = p.next()
	if err := c.begin(false); err != nil {
		return // who leads the system log does it before anything else
	}
	if i, ok := c.n.intent(c.id); !ok || i.Committed {
		return // its end was not heard of; what waits inside must not be granted there
	}
	thaws := make([]command, len(c.involved))
	for i, g := range c.involved {
		thaws[i] = command{group: g, req: &wire.Request{Op: wire.OpThaw, Namespace: c.i.Root, Attempt: c.attempt}}
	}
	c.proposeWithin(thaws, 0) // they come before the next attempt, or are too late for it
}

// carryOut does what is left of a policy change.
func (c *change) carryOut() error {
	i, r := c.i, c.routes
	set := i.Op == wire.OpSetPolicy
	switch {
	case i.Committed && !r.Moves(i.Root):
		return c.finish("")
	case i.Committed:
		c.plan()
		return c.conclude()
	case !set && !r.Has(i.Root):
		return c.finish("") // there is nothing to delete
	case set && r.Has(i.Root):
		if err := c.row(); err != nil {
			return err
		}
		return c.finish("")
	case !r.Moves(i.Root):
		if err := c.row(); err != nil {
			return err
		}
		if err := c.commit(); err != nil {
			return err
		}
		return c.finish("")
	}
	c.plan()
	return c.move()
}

// one sends a command to one group.
func (c *change) one(group uint16, req *wire.Request) error { return c.each([]uint16{group}, req) }

// each sends a command to several groups.
func (c *change) each(groups []uint16, req *wire.Request) error {
	req.Attempt = c.attempt
	cmds := make([]command, len(groups))
	for i, g := range groups {
		cmds[i] = command{group: g, req: req}
	}
	return c.send(cmds)
}

// send sends commands, each to its group.
func (c *change) send(cmds []command) error {
	for i, res := range c.proposeWithin(cmds, c.limit()) {
		if err := res.Err(); err != nil {
			return fmt.Errorf("%v in log %d: %w", cmds[i].req.Op, c.n.logOf(cmds[i].group).shard, err)
		}
	}
	return nil
}

// row writes the namespace's policy in its group, or deletes it.
func (c *change) row() error {
	return c.one(c.n.groupOf(c.i.Root), &wire.Request{
		Op: wire.OpSetRow, Namespace: c.i.Root, Algorithm: c.i.Algorithm, Explicit: c.i.Op == wire.OpSetPolicy,
	})
}

// decide sends a command to the system group. The attempt is over when it was not applied
// here first: another node answered it then, which leads now, and this one may not know yet
// what the change and the routes have become.
func (c *change) decide(req *wire.Request) error {
	if err := c.one(replica.SystemGroup, req); err != nil {
		return err
	}
	if held := c.n.logs[rows.SystemLog].held.Load(); held != c.attempt>>attemptBits {
		return wire.Errorf(wire.Aborted, "the system log has another leader than attempt %d was begun under", c.attempt)
	}
	return nil
}

// begin ends the attempts before this one, as far as the system group is asked. It says
// whether this one is about to freeze something.
func (c *change) begin(freezes bool) error {
	return c.decide(&wire.Request{Op: wire.OpRouteBegin, Explicit: freezes})
}

// commit changes the routes.
func (c *change) commit() error {
	return c.decide(&wire.Request{Op: wire.OpRouteCommit, Target: c.i.ID})
}

// finish ends the change: refused when detail says why.
func (c *change) finish(detail string) error {
	return c.decide(&wire.Request{Op: wire.OpRouteFinish, Target: c.i.ID, Detail: detail})
}

// plan works out which groups a move involves, the root's first.
func (c *change) plan() {
	c.involved = nil
	root := c.n.groupOf(c.i.Root)
	c.parent = c.routes.Parent(c.i.Root)
	var others []uint16
	if c.parent != "" {
		others = []uint16{c.n.groupOf(c.parent)}
	} else {
		for g := range c.n.cfg.GroupCount {
			others = append(others, uint16(g))
		}
	}
	c.involved = append(c.involved, root)
	for _, g := range others {
		if g != root {
			c.involved = append(c.involved, g)
		}
	}
	if c.i.Op == wire.OpSetPolicy {
		c.takes = []uint16{root}
	} else {
		c.takes = others
	}
}

// move takes the subtree from the groups that have it to those that get it.
func (c *change) move() error {
	root := c.i.Root
	freezes := make([]command, len(c.involved))
	for i, g := range c.involved {
		ns := ""
		if c.parent != "" && g == c.n.groupOf(c.parent) {
			ns = c.parent
		}
		freezes[i] = command{group: g, ns: ns, req: &wire.Request{
			Op: wire.OpFreeze, Namespace: root, Attempt: c.attempt, Target: c.routes.Version + 1,
		}}
	}
	floor, refusal := int64(0), ""
	c.froze = true
	for i, res := range c.proposeWithin(freezes, c.limit()) {
		if err := res.Err(); err != nil {
			return fmt.Errorf("freeze in log %d: %w", c.n.logOf(c.involved[i]).shard, err)
		}
		floor = max(floor, res.Token)
		if res.Status != wire.StatusOK {
			refusal = fmt.Sprintf("namespace %s: %s is locked by %s: no lock may be held in a subtree, nor a "+
				"recursive write above it, when its namespace changes",
				wire.Quote(root), wire.Quote(res.Path), wire.Quote(res.Owner))
		}
	}
	if refusal != "" {
		if err := c.each(c.involved, &wire.Request{Op: wire.OpThaw, Namespace: root}); err != nil {
			return err
		}
		if c.i.Op == wire.OpSetPolicy { // an image of the log may have been taken after an open
			err := c.one(c.n.groupOf(root), &wire.Request{Op: wire.OpSetRow, Namespace: root, Algorithm: c.i.Algorithm})
			if err != nil {
				return err
			}
		}
		return c.finish(refusal)
	}
	into := c.parent // the namespace that the paths come to
	if c.i.Op == wire.OpSetPolicy {
		into = root
	}
	carried, err := c.carried()
	if err != nil {
		return err
	}
	if engine.Planted == engine.PlantKeysStay {
		clear(carried)
	}
	for first := true; first || len(carried) > 0; first = false {
		var opens []command
		for _, g := range c.takes {
			brings := carried[g]
			if !first && len(brings) == 0 {
				continue
			}
			req := &wire.Request{
				Op: wire.OpOpen, Namespace: root, Target: c.routes.Version + 1, Token: floor,
				Algorithm: c.i.Algorithm, Explicit: c.i.Op == wire.OpSetPolicy, Attempt: c.attempt,
			}
			if n := min(len(brings), carriedAtOnce); n > 0 {
				req.Cursor, carried[g] = engine.AppendCarried(nil, brings[:n]), brings[n:]
			}
			if len(carried[g]) == 0 {
				delete(carried, g)
			}
			opens = append(opens, command{group: g, ns: into, req: req})
		}
		if err := c.send(opens); err != nil {
			return err
		}
	}
	if err := c.commit(); err != nil {
		return err
	}
	return c.conclude()
}

const (
	// carriedAtOnce is how many are brought to a group at once.
	carriedAtOnce = 1024
)

// carried answers the kept answers that move, by the group that their paths will be in. All is
// frozen, so they do not change.
func (c *change) carried() (map[uint16][]engine.Carried, error) {
	var roots []string
	for _, root := range c.routes.Roots() {
		if root != c.i.Root {
			roots = append(roots, root)
		}
	}
	if c.i.Op == wire.OpSetPolicy {
		roots = append(roots, c.i.Root)
	}
	next := wire.NewRoutes(c.routes.Version+1, c.routes.Segments, roots)
	moves := make(map[uint16][]engine.Carried)
	for _, g := range c.involved {
		for after, more := "", true; more; {
			all, to, err := c.carriedFrom(g, after)
			if err != nil {
				return nil, fmt.Errorf("kept answers in log %d: %w", c.n.logOf(g).shard, err)
			}
			for i := range all {
				was := all[i].NS
				all[i].NS = next.Resolve(all[i].Path)
				if into := c.n.groupOf(all[i].NS); into != g || all[i].Op == wire.OpRelease && all[i].NS != was {
					moves[into] = append(moves[into], all[i])
				}
			}
			after, more = to, to != ""
		}
	}
	maps.DeleteFunc(moves, func(g uint16, _ []engine.Carried) bool { return !slices.Contains(c.takes, g) })
	return moves, nil
}

// carriedFrom asks a group for some of them.
func (c *change) carriedFrom(group uint16, after string) (all []engine.Carried, next string, err error) {
	asked := newTogether(c.n.tasks)
	asked.add()
	since := c.n.clock.Mono() - c.n.cfg.RequestTimeout + min(maxStepWithin, c.n.cfg.RequestTimeout)
	c.n.read(c.n.logOf(group), &replica.Query{What: replica.AskKept, Group: group, Path: c.i.Root, After: after}, since,
		func(res *wire.Result) {
			defer asked.done()
			if e := res.Err(); e != nil {
				err = e
				return
			}
			if all, err = engine.ReadCarried(res.List.Cursor); len(res.List.Names) > 0 {
				next = res.List.Names[0]
			}
		})
	asked.wait()
	return all, next, err
}

// conclude is what is left of a move once the routes have changed.
func (c *change) conclude() error {
	err := c.each(c.involved, &wire.Request{
		Op: wire.OpLeave, Namespace: c.i.Root, Target: c.n.routes.Load().Version,
	})
	if err == nil && c.i.Op == wire.OpDeletePolicy {
		err = c.row()
	}
	if err != nil {
		return err
	}
	return c.finish("")
}
