package groups

import (
	"strings"
	"testing"
	"time"
)

// TestHasALeaderAgain: a log that gets its leader between two looks at it has had none for no time, and not since its
// node was started: what is asked just then is not refused. So it is while that is told, and while a replica that has
// just come waits for what raft tells. One that has lost its leader says since when.
func TestHasALeaderAgain(t *testing.T) {
	r := newRig(t, nil)
	n := r.node
	r.clock.hurry(n.electedWithin() + time.Second)
	for _, shard := range n.id.Logs() {
		if d, why := n.noLeader(shard); d != 0 || !strings.HasSuffix(why, "had no leader until now") {
			t.Errorf("of log %d, which has a leader: %v, %q", shard, d, why)
		}
	}
	shard := n.id.Logs()[1]
	l := n.logs[shard]
	was := *l.lead.Load()
	l.lead.Store(&leadership{term: was.term}) // and it is not noted as lost
	if err := l.unled(); err != nil {
		t.Error("what does not wait is refused:", err)
	}
	n.noteLost(shard, true)
	if err := l.unled(); err != nil {
		t.Error("what does not wait is refused at once:", err)
	}
	r.clock.hurry(n.electedWithin())
	if l.unled() == nil {
		t.Error("what does not wait is not refused")
	}
	if d, why := n.noLeader(shard); d < n.electedWithin() || d > time.Minute ||
		!strings.Contains(why, "has had no leader for") {
		t.Errorf("of log %d, which has lost its leader: %v, %q", shard, d, why)
	}
	l.lead.Store(&was)
	n.noteLost(shard, false)
}

// TestLeaderOfAnEarlierTerm: a node that stood for election while it was cut off knows a later term, in which nobody
// was elected. Who leads on in an earlier one is its leader.
func TestLeaderOfAnEarlierTerm(t *testing.T) {
	r := newRig(t, nil)
	n, shard := r.node, r.node.id.Logs()[1]
	_, term := n.leaderOf(shard)
	n.noteLeader(shard, term+2, "")
	n.noteLeader(shard, term+1, "another")
	if host, of := n.leaderOf(shard); host != "another" || of != term+1 {
		t.Errorf("its leader is %q in term %d", host, of)
	}
	n.noteLeader(shard, term, "earlier")
	if host, _ := n.leaderOf(shard); host != "another" {
		t.Errorf("its leader is %q, of an earlier term", host)
	}
}

// TestCandidateLeadsYet: who led a log, and stands for election once more, says to who asks it that nobody leads, and
// leads in the next moment. That it leads is told once, and may be heard before that nobody does: it is not to be
// forgotten for it. But that it leads no more in a term that it led in is believed.
func TestCandidateLeadsYet(t *testing.T) {
	t.Parallel()
	f := newLocalCluster(t, 4, func(_ int, c *Config) { c.EvictionWindow, c.LogCount = time.Hour, 2 })
	f.placed(4)
	const path = "h:/x"
	leader := f.nodes[f.leader(path)]
	shard := leader.logOf(leader.groupOf(leader.routes.Load().Resolve(path))).shard
	l := leader.logs[shard]
	var asks *Node // has no replica
	for _, n := range f.nodes {
		if n.logs[shard].local.Load() == nil {
			asks = n
		}
	}
	host := leader.id.HostID
	knows := func() bool { return asks.leading(shard) == host }
	f.until("who asks knows the leader", knows)
	_, term := leader.leaderOf(shard)
	was := *l.lead.Load()

	says := func(own leaderInfo) uint64 { // what the leader answers with nobody in its term
		leader.leaders.mu.Lock()
		before := leader.leaders.by[shard]
		leader.leaders.by[shard] = own
		leader.leaders.mu.Unlock()
		l.lead.Store(&leadership{term: own.term})
		to, open := l.redirect()
		leader.leaders.mu.Lock()
		leader.leaders.by[shard] = before
		leader.leaders.mu.Unlock()
		l.lead.Store(&was)
		if to != "" {
			t.Fatalf("who asks is sent to %s", to)
		}
		return open
	}
	candidate, led := says(leaderInfo{term: term}), says(leaderInfo{term: term, host: host})
	asks.leadsNoMore(shard, candidate, asks.peer(host))
	if !knows() {
		t.Fatal("the leader is forgotten for what it said as a candidate")
	}
	asks.leadsNoMore(shard, led, asks.peer(host))
	if knows() {
		t.Fatal("who leads no more in the term that it led in is thought to")
	}
	if at, _ := asks.leaderOf(shard); at != host || !asks.logs[shard].leaderless() {
		t.Fatalf("who led last is asked no more who leads now, which may not reach this node to say so: %q; "+
			"leaderless %v", at, asks.logs[shard].leaderless())
	}
	asks.leaders.mu.Lock()
	asks.leaders.by[shard] = leaderInfo{term: term, host: host}
	asks.leaders.mu.Unlock()
	asks.leadsNoMore(shard, says(leaderInfo{term: term + 1}), asks.peer(host))
	if knows() {
		t.Fatal("who stands for election in a later term is thought to lead in an earlier one")
	}
}
