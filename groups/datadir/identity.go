package datadir

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/zeebo/xxh3"

	"github.com/pathlockd/pathlockd/groups/rows"
)

// Identity is who a node is and what its cluster was founded with. It stands in
// the data directory. All that changes of it is the format, the count of starts and which
// replicas the node hosts; addresses are not part of it.
type Identity struct {
	Format    uint32 `json:"format"` // the newest that anything in the data directory is in (formats.go)
	ClusterID string `json:"cluster_id"`
	NodeID    string `json:"node_id"`
	HostID    string `json:"raft_host_id"`
	Settings
	Starts  uint64 `json:"starts"`                   // of the node on this directory, this one too
	Earlier uint64 `json:"earlier_starts,omitempty"` // on others before it (rows.EarlierStarts); 0 for a founder
	Joined  bool   `json:"joined"`                   // it joined a cluster that somebody else founded
	Adopted bool   `json:"adopted,omitempty"`        // and was taken in by a member of it
	Began   bool   `json:"began,omitempty"`          // its replicas have started: their raft logs are on disk
	Marked  bool   `json:"marked,omitempty"`         // the state database says whose it is (parts.go)

	// Restored says that the logs began anew over a state from a backup, and that what
	// they began with is not compacted yet (groups/restored.go).
	Restored bool `json:"restored,omitempty"`

	Replicas map[uint64]Replica `json:"seats"`             // the replicas it hosts, by log
	Dropped  map[uint64]uint64  `json:"dropped,omitempty"` // by log, the last replica deleted here
}

// ErrNoIdentity says that a data directory has not been used yet.
var ErrNoIdentity = errors.New("the data directory is empty")

// Replica is a replica of a log that a node hosts.
type Replica struct {
	ID     uint64 `json:"replica"` // raft's id; never used again once it was removed
	Joined bool   `json:"joined"`  // added to a log that there was, and not one of its founders
	// Voter says that the last snapshot of a replica that joined knows it as a voter.
	// Raft has to be told how to begin, and goes wrong when that is not what the
	// snapshot says: one that begins as a learner and is a voter never stands for
	// election, and the other way round is a panic.
	Voter bool `json:"voter,omitempty"`
}

// Load reads the identity of a data directory.
func Load(dir string) (*Identity, error) {
	if _, err := os.Stat(filepath.Join(dir, rows.RestoringFile)); err == nil {
		return nil, fmt.Errorf("data_dir %s: a restore into it was not finished (%s is there): delete the directory "+
			"and restore again", dir, rows.RestoringFile)
	}
	path := filepath.Join(dir, rows.IdentityFile)
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNoIdentity
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	id := new(Identity)
	if err := json.Unmarshal(b, id); err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	if id.Replicas == nil && id.Format == 1 && !id.Joined {
		id.hostAll() // made by a build in which every node hosted everything
	}
	if id.Replicas == nil {
		id.Replicas = make(map[uint64]Replica)
	}
	if id.Dropped == nil {
		id.Dropped = make(map[uint64]uint64)
	}
	return id, nil
}

// Logs lists every log, hosted here or not, the system log first.
func (id *Identity) Logs() []uint64 { return rows.LogsOf(id.LogCount) }

// hostAll gives a founder its replicas: the first of each log.
func (id *Identity) hostAll() {
	id.Replicas = make(map[uint64]Replica)
	for _, shard := range id.Logs() {
		id.Replicas[shard] = Replica{ID: 1}
	}
}

// Save writes the identity so that it is there, whole, or not at all.
func (id *Identity) Save(dir string) error {
	b, err := json.MarshalIndent(id, "", "  ")
	if err != nil {
		return err
	}
	path := filepath.Join(dir, rows.IdentityFile)
	if err := WriteFileSync(path+".new", append(b, '\n')); err != nil {
		return err
	}
	if err := os.Rename(path+".new", path); err != nil {
		return err
	}
	return SyncDir(dir)
}

// Check refuses a data directory that was made by other settings than these.
func (id *Identity) Check(b *Birth) error {
	if err := rows.CheckFormat(id.Format); err != nil {
		return fmt.Errorf("data_dir %s has %w, or use another data_dir", b.Dir, err)
	}
	if id.NodeID != b.NodeID {
		return otherwise(b.Dir, "node_id", id.NodeID, b.NodeID)
	}
	here, now := id.Settings.values(), b.Settings.values()
	for i, key := range settingKeys {
		switch {
		case here[i] == now[i]:
		case id.Joined && !slices.Contains(b.Given, key):
		case id.Joined:
			return fmt.Errorf("the cluster has %s = %v, the configuration says %v: it is fixed when a cluster is "+
				"founded; take it out of the configuration or set it to %v",
				key, here[i], now[i], here[i])
		default:
			return otherwise(b.Dir, key, here[i], now[i])
		}
	}
	return nil
}

// otherwise says that a data directory was made with another value than the configuration has.
func otherwise(dir, key, here, now string) error {
	return fmt.Errorf("data_dir %s was made with %s = %v, the configuration says %v: it is fixed at birth; set it "+
		"back, or use another data_dir",
		dir, key, here, now)
}

// Deployment tells the raft traffic of clusters apart.
func (id *Identity) Deployment() uint64 { return xxh3.HashString(id.ClusterID) | 1 }

// Mark tells cursors of clusters apart. It is a number that every language has.
func (id *Identity) Mark() uint64 { return xxh3.HashString(id.ClusterID) >> 16 }
