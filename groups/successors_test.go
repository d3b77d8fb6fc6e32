package groups

import (
	"strings"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/groups/gossip"
	"github.com/pathlockd/pathlockd/groups/link"
	"github.com/pathlockd/pathlockd/groups/replica"
	"github.com/pathlockd/pathlockd/groups/status"
)

// succession is a node that leads a log, another one that could take it over, and the order
// that has it do so.
type succession struct {
	from, to  *Node
	l         *shardLog        // of from
	successor *replica.Machine // of to
	order     orderedTakeover
}

// succession waits until a node has applied all that the leader of a path's log has.
func (f *localCluster) succession(path string) *succession {
	f.t.Helper()
	at := f.leader(path)
	s := &succession{from: f.nodes[at], to: f.nodes[(at+1)%3]}
	s.l = s.from.logOf(s.from.groupOf(s.from.routes.Load().Resolve(path)))
	shard := s.l.shard
	s.successor = s.to.logs[shard].local.Load()
	f.until("the successor has applied what the leader has", func() bool {
		return s.successor.Voting.Load() && s.successor.AppliedIndex() == s.l.local.Load().AppliedIndex() &&
			s.to.logs[shard].lead.Load().term == s.l.mine()
	})
	s.order = orderedTakeover{Log: shard, Replica: s.successor.Replica, Index: s.successor.AppliedIndex(),
		Term: s.l.mine(), Within: holdFor}
	return s
}

// refused holds that an order of somebody is refused so, and changes nothing.
func (s *succession) refused(t *testing.T, what, want, host string, order orderedTakeover) {
	t.Helper()
	if err := s.to.takeOver(host, order); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%s: %v, want %q", what, err, want)
	}
	if got := s.l.mine(); got != s.order.Term {
		t.Fatalf("%s: the leader of term %d is disturbed, it leads in term %d now", what, s.order.Term, got)
	}
}

// TestSuccessors: a node that is to take a leadership over refuses while it drains, and while
// its replica has no vote.
func TestSuccessors(t *testing.T) {
	t.Parallel()
	f := calm(t, nil)
	s := f.succession("h:/successors/x")
	s.to.draining.Store(true)
	s.refused(t, "one that drains", "draining", s.from.id.HostID, s.order)
	s.to.draining.Store(false)
	s.successor.Voting.Store(false)
	s.refused(t, "one without a vote", "is no voter here", s.from.id.HostID, s.order)
	s.successor.Voting.Store(true)
}

// TestCloseHandsOver: a node that is stopped with time for it gives its leaderships away
// before it takes no more requests, and tells the others that it goes.
func TestCloseHandsOver(t *testing.T) {
	t.Parallel()
	f := calm(t, nil)
	n := f.nodes[1]
	if len(n.ledLogs()) == 0 {
		t.Fatal("it leads nothing")
	}
	closed := make(chan error, 1)
	go func() { closed <- n.Close(10 * time.Second) }()
	f.until("it drains", n.draining.Load)
	if led := n.ledLogs(); len(led) > 0 {
		t.Errorf("it drains and leads %d logs", len(led))
	}
	if err := <-closed; err != nil {
		t.Fatal(err)
	}
	f.nodes[1] = nil
	f.each(2, func(o *Node) {
		f.until(o.id.NodeID+" heard it say goodbye", func() bool {
			s, ok := o.cluster.sighting(n.id.HostID)
			return ok && !s.Alive && s.State == gossip.Leaving
		})
	})
}

// TestOldPlans: what a node found out about a log that it led is not shown once somebody
// is known to lead it in a later term; and nobody is admitted under a name that is in use.
func TestOldPlans(t *testing.T) {
	t.Parallel()
	f := calm(t, nil)
	n, other := f.nodes[0], f.nodes[1]
	led := n.ledLogs()
	if len(led) == 0 {
		t.Fatal("it leads nothing")
	}
	shard := led[0].Shard
	told := func() *status.Log {
		s := n.survey()
		for i := range s.Logs {
			if s.Logs[i].ID == shard {
				return &s.Logs[i]
			}
		}
		t.Fatalf("log %d is not in the survey", shard)
		return nil
	}
	if l := told(); l.Leader != n.id.NodeID || len(l.Target) != 3 {
		t.Fatalf("its leader tells %+v", l)
	}
	n.noteLeader(shard, n.logs[shard].mine()+1, other.id.HostID)
	if l := told(); l.Leader != other.id.NodeID || l.Target != nil || len(l.Replicas) != 0 {
		t.Errorf("another node leads, and what the last leader found is shown: %+v", l)
	}

	if err := n.admitPeer(link.Peer{Node: other.id.NodeID, Host: other.id.HostID}); err != nil {
		t.Errorf("a node that is known is not admitted: %v", err)
	}
	err := n.admitPeer(link.Peer{Node: other.id.NodeID, Host: "another"})
	if err == nil || !strings.Contains(err.Error(), "is in use by a node that is alive") {
		t.Errorf("another node of the name is told %v", err)
	}
}
