package backup

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/pathlockd/pathlockd/groups/rows"
	"github.com/pathlockd/pathlockd/wire"
)

// backupFormat is the format of backups that this build writes and reads.
const backupFormat = 1

// manifestFile is the name of the manifest in a backup.
const manifestFile = "manifest.json"

// maxManifest bounds a manifest: that of 65 536 logs takes less.
const maxManifest = 32 << 20

// ErrDamaged says that a backup is not what was written, or was not written by a
// cluster. It is always wrapped with what is wrong.
var ErrDamaged = errors.New("the backup is damaged")

// ErrFormat says that a backup was written by a version that this build does not know.
var ErrFormat = errors.New("the backup has another format")

// ErrNone says that a directory has no manifest that can be read: Commit did not make
// it. It is always wrapped with the directory's name.
var ErrNone = errors.New("is no backup")

// damaged is ErrDamaged with what is wrong.
func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrDamaged, fmt.Errorf(format, args...))
}

// Manifest is what a backup says of itself.
type Manifest struct {
	Format        int     `json:"format"`
	ServerVersion string  `json:"server_version"` // of the node that was asked first
	ClusterID     string  `json:"cluster_id"`
	GroupCount    int     `json:"group_count"`
	LogCount      int     `json:"log_count"`
	Segments      int     `json:"routing_prefix_segments"`
	Algorithm     string  `json:"default_lock_algorithm"`
	Replication   int     `json:"replication_factor"`
	Local         bool    `json:"local"`  // images that one node had, which may have lagged behind
	Logs          []Saved `json:"logs"`   // the system log first, then in the order of their numbers
	SHA256        string  `json:"sha256"` // of this file with this field empty
}

// Saved is one log of a backup.
type Saved struct {
	Log          uint64 `json:"log"`
	File         string `json:"file"`
	Bytes        int64  `json:"bytes"`
	Rows         int    `json:"rows"`
	SHA256       string `json:"sha256"`
	AppliedIndex uint64 `json:"applied_index"` // the log's entry that the image is as of
	UnixMillis   int64  `json:"made_unix_ms"`  // when, by the wall clock of the node
}

// FileOf is the name of a log's file.
func FileOf(log uint64) string { return fmt.Sprintf("log-%04d.rows", log) }

// encode is the manifest's file, with its checksum.
func (m *Manifest) encode() ([]byte, error) {
	m.SHA256 = ""
	b, err := m.text()
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(b)
	m.SHA256 = hex.EncodeToString(sum[:])
	return m.text()
}

func (m *Manifest) text() ([]byte, error) {
	b, err := json.MarshalIndent(m, "", "  ")
	return append(b, '\n'), err
}

// readManifest reads and checks the manifest of a backup.
func readManifest(dir string) (*Manifest, error) {
	f, err := os.Open(filepath.Join(dir, manifestFile))
	if err != nil {
		return nil, fmt.Errorf("%s %w: %w", dir, ErrNone, err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxManifest+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the manifest: %w", err)
	case len(b) > maxManifest:
		return nil, damaged("%s is longer than %d bytes", manifestFile, maxManifest)
	}
	var format struct{ Format int }
	if err := json.Unmarshal(b, &format); err != nil {
		return nil, damaged("%s: %w", manifestFile, err)
	}
	if format.Format != backupFormat {
		return nil, fmt.Errorf("%w: %d, this build reads %d: use the version that wrote it", ErrFormat, format.Format,
			backupFormat)
	}
	m := new(Manifest)
	if err := json.Unmarshal(b, m); err != nil {
		return nil, damaged("%s: %w", manifestFile, err)
	}
	said := m.SHA256
	want, err := m.encode()
	if err != nil {
		return nil, err
	}
	if said != m.SHA256 || !bytes.Equal(b, want) {
		return nil, damaged("%s: its checksum is wrong: somebody changed it, or it was not copied whole", manifestFile)
	}
	return m, m.check()
}

// check refuses what no cluster could have been.
func (m *Manifest) check() error {
	switch _, known := wire.ParseAlgorithm(m.Algorithm); {
	case !known:
		return damaged("default_lock_algorithm %q is not known", m.Algorithm)
	case m.GroupCount < 1 || m.GroupCount > rows.SystemGroup-1:
		return damaged("group_count is %d", m.GroupCount)
	case m.LogCount < 1 || m.LogCount > m.GroupCount:
		return damaged("log_count is %d, with %d groups", m.LogCount, m.GroupCount)
	case m.Segments < 0 || m.Segments > wire.MaxPathSegments:
		return damaged("routing_prefix_segments is %d", m.Segments)
	case m.Replication < 1 || m.Replication%2 == 0:
		return damaged("replication_factor is %d", m.Replication)
	}
	want := rows.LogsOf(m.LogCount)
	if len(m.Logs) != len(want) {
		return damaged("it has %d logs, the cluster had %d", len(m.Logs), len(want))
	}
	for i, log := range want {
		if l := &m.Logs[i]; l.Log != log || l.File != FileOf(log) {
			return damaged("entry %d of its logs is log %d in %q, want log %d in %s", i+1, l.Log, l.File,
				log, FileOf(log))
		}
	}
	return nil
}

// algorithm is default_lock_algorithm.
func (m *Manifest) algorithm() wire.Algorithm {
	a, _ := wire.ParseAlgorithm(m.Algorithm)
	return a
}

// Bytes is how long all files of the logs are.
func (m *Manifest) Bytes() (n int64) {
	for i := range m.Logs {
		n += m.Logs[i].Bytes
	}
	return n
}
