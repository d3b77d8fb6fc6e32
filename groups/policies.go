package groups

import (
	"fmt"
	"time"

	"github.com/pathlockd/pathlockd/engine"
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
//	open     in the group that takes over: go on above the highest counter
//	commit   in the system log: the routes have changed
//	leave    waiters inside are told; older routes are refused from now on

// policyWork makes the loop look for intents.
func (n *Node) policyWork() {
	select {
	case n.policy <- struct{}{}:
	default:
	}
}

// attemptBits is how much of an attempt's number counts within a term.
const attemptBits = 32

// policyLoop carries intents out while this node leads the system log.
func (n *Node) policyLoop() {
	attempt := uint64(0)
	for {
		select {
		case <-n.stop:
			return
		case <-n.policy:
		}
		for {
			i, ok := n.nextIntent()
			term := n.logs[systemShard].held.Load()
			if !ok || term == 0 || !n.logs[systemShard].leads() {
				break
			}
			attempt = max(attempt+1, term<<attemptBits)
			if err := n.attempt(attempt); err != nil {
				n.log.Warn("a policy change is held up, trying again", "namespace", i.Root, "attempt", attempt, "error", err)
				select {
				case <-n.stop:
					return
				case <-time.After(100 * time.Millisecond):
				}
			}
		}
	}
}

func (n *Node) nextIntent() (engine.Intent, bool) {
	m := n.logs[systemShard].local.Load()
	if m == nil {
		return engine.Intent{}, false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.system.Next()
}

// change is one policy change as it is carried out.
type change struct {
	steps
	attempt  uint64
	i        engine.Intent
	routes   *wire.Routes
	parent   string // namespace of the subtree without the root, "" for several
	involved []uint16
	takes    []uint16 // groups that take the subtree over
}

// attempt makes an attempt to do what is left of the first policy change.
func (n *Node) attempt(number uint64) error {
	c := &change{attempt: number}
	c.steps = steps{n: n, c: &wire.Call{}, since: n.clock.Mono()}
	if err := c.begin(); err != nil {
		return err
	}
	// Only now nothing of an earlier attempt changes the intent and the routes.
	i, ok := n.nextIntent()
	if !ok {
		return nil
	}
	c.i, c.routes = i, n.routes.Load()
	return c.carryOut()
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
	if err := c.all(cmds); err != nil {
		return err
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
	if err := c.one(systemGroup, req); err != nil {
		return err
	}
	if held := c.n.logs[systemShard].held.Load(); held != c.attempt>>attemptBits {
		return wire.Errorf(wire.Aborted, "the system log has another leader than attempt %d was begun under", c.attempt)
	}
	return nil
}

// begin ends the attempts before this one, as far as the system group is asked.
func (c *change) begin() error { return c.decide(&wire.Request{Op: wire.OpRouteBegin}) }

// commit changes the routes.
func (c *change) commit() error {
	return c.decide(&wire.Request{Op: wire.OpRouteCommit, Target: c.i.ID})
}

// finish ends the change: refused when detail says why.
func (c *change) finish(detail string) error {
	return c.decide(&wire.Request{Op: wire.OpRouteFinish, Target: c.i.ID, Detail: detail})
}

// plan works out which groups a move involves.
func (c *change) plan() {
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
		freezes[i] = command{group: g, ns: ns, req: &wire.Request{Op: wire.OpFreeze, Namespace: root, Attempt: c.attempt}}
	}
	floor, refusal := int64(0), ""
	for _, res := range c.propose(freezes) {
		if err := res.Err(); err != nil {
			return err
		}
		floor = max(floor, res.Token)
		if res.Status != wire.StatusOK {
			refusal = fmt.Sprintf("namespace %s: %s is locked by %s: no lock may be held in a subtree, nor a recursive write above it, when its namespace changes",
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
	err := c.each(c.takes, &wire.Request{
		Op: wire.OpOpen, Namespace: root, Target: c.routes.Version + 1, Token: floor,
		Algorithm: c.i.Algorithm, Explicit: c.i.Op == wire.OpSetPolicy,
	})
	if err != nil {
		return err
	}
	if err := c.commit(); err != nil {
		return err
	}
	return c.conclude()
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
