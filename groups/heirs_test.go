package groups

import (
	"strings"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/groups/link"
	"github.com/pathlockd/pathlockd/groups/members"
)

// TestHeirs: a node that is to take a leadership over refuses while it drains, and while
// its replica has no vote.
func TestHeirs(t *testing.T) {
	t.Parallel()
	f := calm(t, nil)
	const path = "h:/heirs/x"
	at := f.leader(path)
	from, to := f.nodes[at], f.nodes[(at+1)%3]
	l := from.logOf(from.groupOf(from.routes.Load().Resolve(path)))
	heir := to.logs[l.shard].local.Load()
	f.until("the heir has applied what the leader has", func() bool {
		return heir.voting.Load() && heir.appliedIndex() == l.local.Load().appliedIndex() && to.logs[l.shard].lead.Load().term == l.mine()
	})
	order := orderedTakeover{Log: l.shard, Replica: heir.replica, Index: heir.appliedIndex(), Term: l.mine(), Within: holdFor}
	refuses := func(want string) {
		t.Helper()
		if err := to.takeOver(from.id.HostID, order); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
		if l.mine() != order.Term {
			t.Fatalf("the leader of term %d is disturbed", order.Term)
		}
	}
	to.draining.Store(true)
	refuses("draining")
	to.draining.Store(false)
	heir.voting.Store(false)
	refuses("is no voter here")
	heir.voting.Store(true)
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
			return ok && !s.Alive && s.State == members.Leaving
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
	shard := led[0].shard
	told := func() *logSeen {
		s := n.survey()
		for i := range s.logs {
			if s.logs[i].ID == shard {
				return &s.logs[i]
			}
		}
		t.Fatalf("log %d is not in the survey", shard)
		return nil
	}
	if l := told(); l.leader != n.id.NodeID || len(l.target) != 3 {
		t.Fatalf("its leader tells %+v", l)
	}
	n.noteLeader(shard, n.logs[shard].mine()+1, other.id.HostID)
	if l := told(); l.leader != other.id.NodeID || l.target != nil || len(l.Replicas) != 0 {
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
