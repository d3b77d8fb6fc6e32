package gossip

import (
	"errors"

	"github.com/hashicorp/memberlist"
)

// delegate is what memberlist calls. NotifyAlive and the three events come under a
// lock of memberlist's, so nothing here calls it back or blocks.
type delegate struct{ m *Members }

var (
	_ memberlist.Delegate         = delegate{}
	_ memberlist.AliveDelegate    = delegate{}
	_ memberlist.MergeDelegate    = delegate{}
	_ memberlist.EventDelegate    = delegate{}
	_ memberlist.ConflictDelegate = delegate{}
)

// NodeMeta is what this node tells of itself. Its length was checked before.
func (d delegate) NodeMeta(int) []byte {
	self := d.m.table.self()
	return self.encode()
}

// NotifyMsg takes a notice in.
func (d delegate) NotifyMsg(b []byte) {
	if err := decodeNotice(b, d.m.name); err != nil {
		d.m.told(err)
	}
}

// GetBroadcasts has nothing to add to what memberlist gossips.
func (d delegate) GetBroadcasts(int, int) [][]byte { return nil }

// LocalState is what whoever joins or asks is told about the cluster.
func (d delegate) LocalState(join bool) []byte {
	if !join {
		return nil
	}
	self := d.m.table.self()
	return encodeAnswer(&self, d.m.config.Settings)
}

// MergeRemoteState needs nothing of it: a member knows its cluster.
func (d delegate) MergeRemoteState([]byte, bool) {}

// NotifyAlive decides on each message that says that a node is alive.
func (d delegate) NotifyAlive(n *memberlist.Node) error {
	why := d.m.table.admit(n)
	if why == nil {
		return nil
	}
	if self := d.m.table.self(); errors.Is(why, ErrNodeID) && sameIDAsOurs(&self, n) {
		d.m.fault(why)
	} else {
		d.m.refused(n, why)
	}
	return why
}

// sameIDAsOurs says that n has this node's id from another data directory, and that
// this node may be the one that is wrong: it is new itself, or n is not.
func sameIDAsOurs(self *Record, n *memberlist.Node) bool {
	rec, err := decodeRecord(n.Name, n.Meta)
	return err == nil && rec.NodeID == self.NodeID && rec.HostID != self.HostID &&
		(self.State == Joining || rec.State != Joining)
}

// NotifyMerge decides whether to exchange anything with a node that joins, or that
// this node joins. All of what the other knows comes at once, so what is refused
// here leaves both as they were.
func (d delegate) NotifyMerge(peers []*memberlist.Node) error {
	self := d.m.table.self()
	lone := d.m.table.alone()
	comes := lone && self.State == Joining // to the others, rather than they to it
	others := false
	refuseMerge := func(n *memberlist.Node, why *refusal) error {
		if comes || errors.Is(why, ErrNodeID) && sameIDAsOurs(&self, n) {
			d.m.fault(why)
		} else {
			d.m.refused(n, why)
		}
		return why
	}
	for _, n := range peers {
		if n.Name == d.m.name {
			continue
		}
		others = true
		if n.State == memberlist.StateDead || n.State == memberlist.StateLeft {
			continue
		}
		rec, err := decodeRecord(n.Name, n.Meta)
		switch {
		case err != nil:
			return refuseMerge(n, refuse(ErrRecord, "%s at %s: %v", n.Name, n.Address(), err))
		case rec.State == asking:
			return errAsking
		case rec.ClusterID != self.ClusterID:
			return refuseMerge(n, otherCluster(&self, &rec, n.Address()))
		case rec.NodeID == self.NodeID && rec.HostID != self.HostID:
			return refuseMerge(n, sameNodeID(&self, d.m.GossipAddr(), rec.HostID, n.Address()))
		case lone && !self.fits(&rec):
			// It is this node that comes to a cluster. A member goes on with those
			// that it can work with, and refuses the others one by one.
			return refuseMerge(n, refuse(ErrFormat,
				"node %s at %s works with formats %d to %d, this node with %d to %d: use a version that works with "+
					"one of the cluster's formats",
				rec.NodeID, n.Address(), rec.FormatMin, rec.FormatMax, self.FormatMin, self.FormatMax))
		}
	}
	if !others {
		return errSelf
	}
	return nil
}

func (d delegate) NotifyJoin(n *memberlist.Node)   { d.m.table.heard(n) }
func (d delegate) NotifyUpdate(n *memberlist.Node) { d.m.table.heard(n) }
func (d delegate) NotifyLeave(n *memberlist.Node)  { d.m.table.gone(n) }

// NotifyConflict hears of a process that has another's name at another address: the
// same start of the same data directory, so one of the two is a copy.
func (d delegate) NotifyConflict(known, other *memberlist.Node) {
	why := refuse(ErrNodeID, "%s speaks from %s and from %s: two processes run with copies of one data directory; "+
		"stop one and give it an empty data_dir",
		known.Name, known.Address(), other.Address())
	if known.Name == d.m.name {
		d.m.fault(why)
		return
	}
	d.m.refused(other, why)
}
