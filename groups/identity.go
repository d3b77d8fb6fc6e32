package groups

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/uuid"
	"github.com/zeebo/xxh3"
)

// identity is who a node is and what its cluster was founded with. It stands in
// the data directory and never changes but for the count of starts; addresses are not
// part of it.
type identity struct {
	Format      int    `json:"format"` // of the data directory
	ClusterID   string `json:"cluster_id"`
	NodeID      string `json:"node_id"`
	HostID      string `json:"raft_host_id"`
	Replica     uint64 `json:"replica"`
	GroupCount  int    `json:"group_count"`
	LogCount    int    `json:"log_count"`
	Segments    int    `json:"routing_prefix_segments"`
	Algorithm   string `json:"default_lock_algorithm"`
	Replication int    `json:"replication_factor"`
	Starts      uint64 `json:"starts"` // of the node on this directory, this one too
}

// dataFormat is the format of data directories that this build reads and writes.
const dataFormat = 1

const identityFile = "identity.json"

// ErrNoIdentity says that a data directory has not been used yet.
var ErrNoIdentity = errors.New("the data directory is empty")

// loadIdentity reads the identity of a data directory.
func loadIdentity(dir string) (*identity, error) {
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
	return id, nil
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
	return &identity{
		Format: dataFormat, ClusterID: uuid.NewString(), NodeID: c.NodeID, HostID: uuid.NewString(), Replica: 1,
		GroupCount: c.GroupCount, LogCount: c.LogCount, Segments: c.Segments,
		Algorithm: c.Algorithm.String(), Replication: c.ReplicationFactor,
	}
}

// check refuses a data directory that was made by other settings than these.
func (id *identity) check(c *Config) error {
	if id.Format != dataFormat {
		return fmt.Errorf("data_dir %s has format %d, this build reads format %d: use the version that wrote it, or another data_dir",
			c.DataDir, id.Format, dataFormat)
	}
	for _, k := range []struct {
		key       string
		here, now any
	}{
		{"node_id", id.NodeID, c.NodeID},
		{"group_count", id.GroupCount, c.GroupCount},
		{"log_count", id.LogCount, c.LogCount},
		{"routing_prefix_segments", id.Segments, c.Segments},
		{"default_lock_algorithm", id.Algorithm, c.Algorithm.String()},
		{"replication_factor", id.Replication, c.ReplicationFactor},
	} {
		if k.here != k.now {
			return fmt.Errorf("data_dir %s was made with %s = %v, the configuration says %v: it is fixed at birth; set it back, or use another data_dir",
				c.DataDir, k.key, k.here, k.now)
		}
	}
	return nil
}

// deployment tells the raft traffic of clusters apart.
func (id *identity) deployment() uint64 { return xxh3.HashString(id.ClusterID) | 1 }
