package gossip

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// TestKeptName: the name of a member that is away waits for its data directory, for so
// long or until it is forgotten; that of a node that was never a member does not. Nobody waits
// once another disk speaks at the address where the member did.
func TestKeptName(t *testing.T) {
	member := sample()
	member.State = Member
	other := member
	other.HostID, other.State, other.RaftAddr = hostID(8), Joining, "elsewhere:50052"
	was := map[string]Holder{"node-7": {member.HostID, member.RaftAddr}}
	for name, c := range map[string]struct {
		before func(tab *table)
		want   error
	}{
		"a member that is away": {func(tab *table) {
			tab.hear(member, 1)
			tab.gone(said(member, 1))
		}, ErrKept},
		"one that left": {func(tab *table) {
			leaves := member
			leaves.State = Leaving
			tab.hear(member, 1)
			tab.hear(leaves, 1)
			tab.gone(said(leaves, 1))
		}, ErrKept},
		"away for long": {func(tab *table) {
			tab.hear(member, 1)
			tab.gone(said(member, 1))
			tab.mu.nodes["node-7"].since = time.Now().Add(-time.Hour)
		}, nil},
		"forgotten": {func(tab *table) {
			tab.hear(member, 1)
			tab.gone(said(member, 1))
			if err := tab.forget("node-7"); err != nil {
				t.Error(err)
			}
		}, nil},
		"one that only was to join": {func(tab *table) {
			joins := member
			joins.State = Joining
			tab.hear(joins, 1)
			tab.gone(said(joins, 1))
		}, nil},
		"known from before": {func(tab *table) {
			tab.keepFor(was, time.Hour)
		}, ErrKept},
		"known from before, and replaced": {func(tab *table) {
			tab.keepFor(was, time.Hour)
			in := other
			in.State = Member
			if why := tab.hear(in, 2); why != nil {
				t.Errorf("a member is refused the name that it got while this node was away: %v", why)
			}
		}, nil},
		"known from long before": {func(tab *table) {
			tab.keepFor(was, time.Hour)
			tab.mu.before["node-7"] = former{was["node-7"], time.Now()}
		}, nil},
		"known from before and forgotten": {func(tab *table) {
			tab.keepFor(was, time.Hour)
			if err := tab.forget("node-7"); err != nil {
				t.Error(err)
			}
		}, nil},
		"its own, known from before": {func(tab *table) {
			tab.keepFor(map[string]Holder{"node-7": {other.HostID, other.RaftAddr}}, time.Hour)
		}, nil},
	} {
		tab, _ := writtenDown()
		tab.keepFor(nil, time.Minute)
		c.before(tab)
		why := tab.hear(other, 2)
		if (why == nil) != (c.want == nil) || why != nil && !errors.Is(why, c.want) {
			t.Errorf("%s: another data directory is refused for %v, want %v", name, why, c.want)
		}
		if c.want == nil {
			continue
		}
		there, _ := writtenDown()
		there.keepFor(nil, time.Minute)
		c.before(there)
		same := other
		same.RaftAddr = member.RaftAddr
		if why := there.hear(same, 2); why != nil {
			t.Errorf("%s: another disk at the member's own address is refused: %v", name, why)
		}
		for _, want := range []string{hostID(8), member.HostID, "another node_id", "wait if its disk was replaced",
			member.RaftAddr, "eviction_window_secs"} {
			if !strings.Contains(why.Error(), want) {
				t.Errorf("%s: it is told %q, want %q in it", name, why, want)
			}
		}
		member := member
		member.Incarnation++
		if why := tab.hear(member, 3); why != nil {
			t.Errorf("%s: it is refused itself: %v", name, why)
		}
	}
}

// TestClash: a node id that is in use is another's once it was for longer than a death
// goes unnoticed, without a break.
func TestClash(t *testing.T) {
	t.Parallel()
	n := start(t, 1, self(func(r *Record) { r.State = Joining }))
	inUse := refuse(ErrNodeID, "told")
	long := func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.mu.clash = n.mu.clash.Add(-n.timing.clash)
	}
	n.fault(inUse)
	if err := n.Clash(); err != nil {
		t.Errorf("told for the first time: %v", err)
	}
	long()
	n.fault(inUse)
	if err := n.Clash(); !errors.Is(err, ErrNodeID) {
		t.Errorf("told for long: %v", err)
	}
	n.fault(refuse(ErrKept, "told"))
	if err := n.Clash(); err != nil {
		t.Errorf("the other one is gone: %v", err)
	}
	n.fault(inUse)
	if err := n.Clash(); err != nil {
		t.Errorf("told anew: %v", err)
	}
	long()
	n.mu.Lock()
	n.mu.faultAt = time.Now().Add(-2 * faultTime)
	n.mu.Unlock()
	n.fault(inUse)
	if err := n.Clash(); err != nil {
		t.Errorf("told again after a long silence: %v", err)
	}
	n.fault(refuse(ErrKept, "told"))
	n.joined(time.Now())
	if err := n.Fault(); !errors.Is(err, ErrKept) {
		t.Errorf("that it joins shows that its name is its own: %v", err)
	}
	if err := n.Update(func(r *Record) { r.State = Member }); err != nil || n.Fault() != nil {
		t.Errorf("it was taken in, and is kept out: %v (%v)", n.Fault(), err)
	}
}

// TestCondition: who comes is kept out by a stranger; between a member and a stranger,
// somebody strayed.
func TestCondition(t *testing.T) {
	t.Parallel()
	stranger := start(t, 9, func(c *Config) { c.Token += "!" })
	for _, c := range []struct {
		state    State
		says, no string
	}{{Joining, "this node is kept out of the cluster", "strayed"}, {Member, "one of the two strayed", "kept out"}} {
		n := start(t, 1, seeds(stranger), self(func(r *Record) { r.State = c.state }))
		eventually(t, "the stranger is met", func() bool { return errors.Is(n.Fault(), ErrToken) })
		eventually(t, "it logs how it stands", func() bool {
			return len(n.log.lines("level=ERROR", c.says,
				"all nodes of a cluster need the same internal_auth_token")) > 0
		})
		if len(n.log.lines(c.no)) > 0 {
			t.Errorf("a node that is %s logs:\n%s", c.state, n.log)
		}
	}
	member := start(t, 2)
	if got := member.Condition(refuse(ErrStale, "told")); got != "kept out of the cluster" {
		t.Errorf("a copy is %s", got)
	}
}

// TestStrangerAmongSeeds: a member that finds its cluster is not kept out of it, though a
// seed belongs to a stranger, who answers first.
func TestStrangerAmongSeeds(t *testing.T) {
	t.Parallel()
	stranger := start(t, 9, func(c *Config) { c.Token += "!" })
	a := start(t, 1)
	b := start(t, 2, seeds(stranger, a))
	allSee(t, a, b)
	if err := b.Fault(); err != nil {
		t.Errorf("it takes itself for kept out: %v", err)
	}
	if lines := b.log.lines("level=ERROR"); len(lines) > 0 {
		t.Errorf("it logs %q", lines)
	}
}

// TestKeptFromWhoIsAlive: a name is refused to another data directory while the member that has it is alive, also to
// who asks before the member's coming back was looked at.
func TestKeptFromWhoIsAlive(t *testing.T) {
	t.Parallel()
	m := start(t, 1)
	m.table.mu.Lock()
	m.table.mu.nodes["back"] = &entry{rec: Record{NodeID: "back", HostID: hostID(2)}, alive: true}
	m.table.mu.Unlock()
	if err := m.Kept("back", hostID(2)); err != nil {
		t.Errorf("it is refused itself: %v", err)
	}
	if err := m.Kept("back", hostID(3)); !errors.Is(err, ErrNodeID) {
		t.Errorf("another data directory is told %v", err)
	}
}
