package groups

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/uuid"
	"github.com/zeebo/xxh3"

	"github.com/pathlockd/pathlockd/groups/rows"
)

// identity is who a node is and what its cluster was founded with. It stands in
// the data directory. All that changes of it is the format, the count of starts and which
// replicas the node hosts; addresses are not part of it.
type identity struct {
	Format      uint32 `json:"format"` // the newest that anything in the data directory is in (formats.go)
	ClusterID   string `json:"cluster_id"`
	NodeID      string `json:"node_id"`
	HostID      string `json:"raft_host_id"`
	GroupCount  int    `json:"group_count"`
	LogCount    int    `json:"log_count"`
	Segments    int    `json:"routing_prefix_segments"`
	Algorithm   string `json:"default_lock_algorithm"`
	Replication int    `json:"replication_factor"`
	Starts      uint64 `json:"starts"`                   // of the node on this directory, this one too
	Earlier     uint64 `json:"earlier_starts,omitempty"` // on others before it (rows.EarlierStarts); 0 for a founder
	Joined      bool   `json:"joined"`                   // it joined a cluster that somebody else founded
	Adopted     bool   `json:"adopted,omitempty"`        // and was taken in by a member of it
	Began       bool   `json:"began,omitempty"`          // its replicas have started: their raft logs are on disk
	Marked      bool   `json:"marked,omitempty"`         // the state database says whose it is (parts.go)

	// Restored says that the logs began anew over a state from a backup, and that what
	// they began with is not compacted yet (restored.go).
	Restored bool `json:"restored,omitempty"`

	Seats   map[uint64]seat   `json:"seats"`             // the replicas it hosts, by log
	Dropped map[uint64]uint64 `json:"dropped,omitempty"` // by log, the last replica deleted here
}

const identityFile = rows.IdentityFile

// ErrNoIdentity says that a data directory has not been used yet.
var ErrNoIdentity = errors.New("the data directory is empty")

// loadIdentity reads the identity of a data directory.
func loadIdentity(dir string) (*identity, error) {
	if _, err := os.Stat(filepath.Join(dir, rows.RestoringFile)); err == nil {
		return nil, fmt.Errorf("data_dir %s: a restore into it was not finished (%s is there): delete the directory and restore again", dir, rows.RestoringFile)
	}
	path := filepath.Join(dir, identityFile)
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNoIdentity
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	id := new(identity)
	if err := json.Unmarshal(b, id); err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	if id.Seats == nil && id.Format == 1 && !id.Joined {
		id.sit() // made by a build in which every node hosted everything
	}
	if id.Seats == nil {
		id.Seats = make(map[uint64]seat)
	}
	if id.Dropped == nil {
		id.Dropped = make(map[uint64]uint64)
	}
	return id, nil
}

// sit gives a founder its replicas: the first of each log.
func (id *identity) sit() {
	id.Seats = make(map[uint64]seat)
	for _, shard := range id.shards() {
		id.Seats[shard] = seat{Replica: 1}
	}
}

// save writes the identity so that it is there, whole, or not at all.
func (id *identity) save(dir string) error {
	b, err := json.MarshalIndent(id, "", "  ")
	if err != nil {
		return err
	}
	path := filepath.Join(dir, identityFile)
	if err := writeFileSync(path+".new", append(b, '\n')); err != nil {
		return err
	}
	if err := os.Rename(path+".new", path); err != nil {
		return err
	}
	return syncDir(dir)
}

func writeFileSync(path string, b []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	return errors.Join(err, f.Sync(), f.Close())
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// found makes the identity of a cluster's first node.
func (c *Config) found() *identity {
	id := &identity{
		Format: rows.NewestFormat, ClusterID: uuid.NewString(), NodeID: c.NodeID, HostID: uuid.NewString(),
		GroupCount: c.GroupCount, LogCount: c.LogCount, Segments: c.Segments,
		Algorithm: c.Algorithm.String(), Replication: c.ReplicationFactor,
		Dropped: make(map[uint64]uint64),
	}
	id.sit()
	return id
}

// began takes note that the node's replicas have their raft logs.
func (n *Node) began() error {
	n.seats.Lock()
	defer n.seats.Unlock()
	if n.id.Began {
		return nil
	}
	n.id.Began = true
	return n.id.save(n.cfg.DataDir)
}

// check refuses a data directory that was made by other settings than these.
func (id *identity) check(c *Config) error {
	if err := rows.CheckFormat(id.Format); err != nil {
		return fmt.Errorf("data_dir %s has %w, or use another data_dir", c.DataDir, err)
	}
	for _, k := range []struct {
		key       string
		here, now any
	}{
		{"node_id", id.NodeID, c.NodeID},
		{keyGroups, id.GroupCount, c.GroupCount},
		{keyLogs, id.LogCount, c.LogCount},
		{keySegments, id.Segments, c.Segments},
		{keyAlgorithm, id.Algorithm, c.Algorithm.String()},
		{keyReplication, id.Replication, c.ReplicationFactor},
	} {
		switch {
		case k.here == k.now:
		case id.Joined && k.key != "node_id" && !c.given(k.key):
		case id.Joined && k.key != "node_id":
			return fmt.Errorf("the cluster has %s = %v, the configuration says %v: it is fixed when a cluster is founded; take it out of the configuration or set it to %v",
				k.key, k.here, k.now, k.here)
		default:
			return fmt.Errorf("data_dir %s was made with %s = %v, the configuration says %v: it is fixed at birth; set it back, or use another data_dir",
				c.DataDir, k.key, k.here, k.now)
		}
	}
	return nil
}

// deployment tells the raft traffic of clusters apart.
func (id *identity) deployment() uint64 { return xxh3.HashString(id.ClusterID) | 1 }

// mark tells cursors of clusters apart. It is a number that every language has.
func (id *identity) mark() uint64 { return xxh3.HashString(id.ClusterID) >> 16 }

// newIncarnation tells this run of the process from every other.
func newIncarnation() uint64 {
	var b [8]byte
	if _, err := rand.Read(b[:]); err != nil {
		panic(err) // crypto/rand never fails on supported systems
	}
	return binary.BigEndian.Uint64(b[:])>>1 | 1
}

// NodeID is the node's name.
func (n *Node) NodeID() string { return n.id.NodeID }

// ClusterID tells the cluster from every other.
func (n *Node) ClusterID() string { return n.id.ClusterID }

// Run counts how often the node was started on its data directory, this time too: from 1 for a founder, for others from
// where other directories of the node have hardly been. It grows with each start, before anybody can see anything of
// the new run.
func (n *Node) Run() uint64 { return n.id.Earlier + n.id.Starts }
