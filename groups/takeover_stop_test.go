package groups

import (
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/pathlockd/pathlockd/groups/raft"
	"github.com/pathlockd/pathlockd/groups/rows"
)

// TestTakeoverEndsWithTheNode: a node that stops while it takes a log over does not stand for election over and over
// until the time for that is up: each time is a term more for all who vote.
func TestTakeoverEndsWithTheNode(t *testing.T) {
	t.Parallel()
	var stood atomic.Int32
	var instead atomic.Pointer[func()]
	r := newRig(t, standsIn(&instead))
	n, l := r.node, r.node.logs[rows.FirstLog]
	m := l.local.Load()
	eventually(t, "it leads", l.leads)
	count := func() { stood.Add(1) }
	instead.Store(&count)
	l.lead.Store(&leadership{leader: m.Replica + 1, term: 99}) // who asks for it
	over := make(chan error, 1)
	go func() {
		over <- n.takeOver("", orderedTakeover{Log: l.shard, Replica: m.Replica, Index: m.AppliedIndex(), Term: 99,
			Within: holdFor})
	}()
	eventually(t, "it stands", func() bool { return stood.Load() > 0 })
	r.close()
	if err := <-over; err == nil {
		t.Error("it has taken the log over")
	}
	if most := int32(holdFor/standEvery) + 1; stood.Load() > most {
		t.Errorf("it stood for election %d times, where there is time for %d", stood.Load(), most)
	}
}

// standsIn has a rig's node run on dragonboat, but stands in for it, once there is something to be called instead,
// where a replica is to stand for election.
func standsIn(stood *atomic.Pointer[func()]) func(*Config) {
	return func(c *Config) {
		dir := filepath.Join(c.DataDir, "raft")
		c.seams = &seams{
			tasks: goroutines{}, process: newIncarnation(), peer: func(string) peerConn { return nil },
			cutOff: func() map[string]bool { return nil },
			raft: func(n *Node) raft.Host {
				host, err := n.newDragon(dir)
				if err != nil {
					panic(err)
				}
				return standIn{host, stood}
			},
		}
	}
}

type standIn struct {
	raft.Host
	stood *atomic.Pointer[func()]
}

func (s standIn) Campaign(shard, replica uint64) {
	if f := s.stood.Load(); f != nil {
		(*f)()
		return
	}
	s.Host.Campaign(shard, replica)
}
