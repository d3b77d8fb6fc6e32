package wire

import (
	"encoding/json"
	"fmt"
)

// Drain says how far an operator wants a node emptied. Each includes the one before.
type Drain uint8

// Drains. Their numbers are part of the protocol and of replicated entries.
const (
	DrainNone     Drain = 0
	DrainLeads    Drain = 1 // it leads nothing
	DrainReplicas Drain = 2 // it holds no replica either
	DrainRemoved  Drain = 3 // and it does not come back: nobody waits for it
)

var drainNames = [...]string{"none", "leads", "replicas", "removed"}

// String is the drain's name, as cluster_status writes it.
func (d Drain) String() string { return enumName(drainNames[:], uint64(d), "DRAIN") }

// SystemLog is the number of the log that no group lives in; those of the groups
// follow it.
const SystemLog = 1

// States of a node, as cluster_status writes them.
const (
	NodeMember   = "member"   // counts for placement
	NodeJoining  = "joining"  // seen, and not yet for the stability window
	NodeDraining = "draining" // leads nothing, or is about to
	NodeLeaving  = "leaving"  // its replicas move away; with none left it can be stopped
	NodeDead     = "dead"     // not seen, or it left
	NodeUnknown  = "unknown"  // holds a replica, and was never seen by the node that answers
)

// ClusterStatus is the document that cluster_status answers, as JSON: the cluster as
// one node sees it. What it says of a log comes from that log's leader. Fields may be
// added, and none changes its meaning or goes.
type ClusterStatus struct {
	ClusterID string          `json:"cluster_id"`
	Format    uint32          `json:"format"` // of shared data, that all nodes work with
	Settings  ClusterSettings `json:"settings"`
	Self      string          `json:"self"` // node_id of the node that answers
	// every log has a leader and its target voters, caught up, and every node that is seen is placed
	Healthy bool `json:"healthy"`
	// why not, and which nodes are short of disk space: one sentence each, that says what to do
	Problems []string     `json:"problems"`
	Warnings []string     `json:"warnings"` // what is worth a look though nothing is wrong yet
	Nodes    []NodeStatus `json:"nodes"`    // by node_id
	Logs     []LogStatus  `json:"logs"`     // by number, the system log first
}

// ClusterSettings is what the cluster was founded with.
type ClusterSettings struct {
	GroupCount        int    `json:"group_count"`
	LogCount          int    `json:"log_count"`
	ReplicationFactor int    `json:"replication_factor"`
	Segments          int    `json:"routing_prefix_segments"`
	Algorithm         string `json:"default_lock_algorithm"`
}

// NodeStatus is one node.
type NodeStatus struct {
	NodeID     string    `json:"node_id"`
	HostID     string    `json:"host_id"` // of its data directory
	State      string    `json:"state"`
	Alive      bool      `json:"alive"`
	ForMillis  int64     `json:"for_ms"` // how long alive has been so
	Stable     bool      `json:"stable"` // counts for placement, unless it leaves
	Placed     bool      `json:"placed"` // logs are laid out with it, as every leader tells
	Drain      string    `json:"drain"`  // none, leads, replicas, removed
	NativeAddr string    `json:"native_addr"`
	RaftAddr   string    `json:"raft_addr"`
	LinkAddr   string    `json:"link_addr"`
	GossipAddr string    `json:"gossip_addr"`
	Formats    [2]uint32 `json:"formats"`  // lowest and highest that it works with; 0, 0: not known
	Replicas   int       `json:"replicas"` // voting or not
	Leads      int       `json:"leads"`
	// What follows is told while the node is short of disk space, and is 0 else.
	DiskFree    uint64 `json:"disk_free_bytes"`    // where its data is
	DiskReserve uint64 `json:"disk_reserve_bytes"` // as it is configured
}

// LogStatus is one replicated log.
type LogStatus struct {
	Log     uint64 `json:"log"`
	Name    string `json:"name"`    // system, or the number
	Healthy bool   `json:"healthy"` // a leader whose writes pass, and the target voters, caught up
	Leader  string `json:"leader"`  // node_id, "" for none
	// node_id of who led it last, of a log that nobody is known to lead; "" if that is not known
	LastLeader string          `json:"last_leader"`
	Term       uint64          `json:"term"`
	Version    uint64          `json:"version"` // of the membership
	Target     []string        `json:"target_voters"`
	Voters     []ReplicaStatus `json:"voters"`
	Learners   []ReplicaStatus `json:"learners"` // replicas without a vote
	Step       string          `json:"step"`     // what is done about it, or waited for
	StepMillis int64           `json:"step_for_ms"`
	// StalledMillis is how long nothing was applied of what its leader proposed: while it is
	// more than 0, writes do not pass.
	StalledMillis int64 `json:"stalled_for_ms"`
	Groups        int   `json:"groups"` // how many live in it
}

// ReplicaStatus is one replica of a log.
type ReplicaStatus struct {
	Node     string `json:"node"`
	Replica  uint64 `json:"replica"`
	Applied  uint64 `json:"applied"` // entry that it last reported; 0: none
	Lag      uint64 `json:"lag"`     // entries behind the leader
	CaughtUp bool   `json:"caught_up"`
}

// Encode is the document's text.
func (s *ClusterStatus) Encode() (string, error) {
	b, err := json.Marshal(s)
	if err != nil {
		return "", fmt.Errorf("encode the cluster's status: %w", err)
	}
	return string(b), nil
}

// DecodeClusterStatus reads a document; fields that it does not know are skipped.
func DecodeClusterStatus(text string) (*ClusterStatus, error) {
	s := new(ClusterStatus)
	if err := json.Unmarshal([]byte(text), s); err != nil {
		return nil, fmt.Errorf("decode the cluster's status: %w", err)
	}
	return s, nil
}
