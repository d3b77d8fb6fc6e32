package backup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/cockroachdb/pebble/v2"
	"github.com/google/uuid"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/groups/rows"
)

const (
	// DefaultJump is how far tokens are raised above all that the backup knows of: so
	// many can the old cluster have minted, in all its groups and IncrFencingToken,
	// after it was taken. At a million a second that is twelve days.
	DefaultJump = 1 << 40
	// maxBase bounds what tokens are raised to, so that they never run out.
	maxBase = 1<<62 + 1<<61
	// batchBytes is how much is written to the database at once.
	batchBytes = 4 << 20
)

// Options of a restore.
type Options struct {
	From    string // directory of the backup
	DataDir string // of the new node: where nothing is, or an empty directory
	NodeID  string
	Jump    int64 // 0: DefaultJump
}

// Restored is what a restore made.
type Restored struct {
	Report    *Report
	ClusterID string // of the new cluster
	Base      int64  // no token up to this counts any more
}

// Restore founds a new cluster of one node with what is in a backup. It is all there,
// or the node refuses to start on it.
//
// The node's logs begin anew at entry 1, over a state that is not empty. So nobody may
// join them until they are compacted: the identity says so (restored), and the node
// sees to it when it starts.
func Restore(ctx context.Context, o Options) (*Restored, error) {
	m, err := readManifest(o.From)
	if err != nil {
		return nil, err
	}
	if o.Jump == 0 {
		o.Jump = DefaultJump
	}
	if err := unused(o.DataDir); err != nil {
		return nil, err
	}
	report, err := m.verify(ctx, o.From)
	if err != nil {
		return nil, err
	}
	if o.Jump < 1 || report.Highest > maxBase-o.Jump {
		return nil, fmt.Errorf("tokens cannot be raised by %d above %d: they must stay below %d", o.Jump,
			report.Highest, int64(maxBase))
	}
	out := &Restored{Report: report, ClusterID: uuid.NewString(), Base: report.Highest + o.Jump}
	if err := os.MkdirAll(o.DataDir, 0o700); err != nil {
		return nil, fmt.Errorf("make data_dir: %w", err)
	}
	marker := filepath.Join(o.DataDir, rows.RestoringFile)
	if err := errors.Join(writeSynced(marker, []byte("of "+o.From+"\n")), syncDir(o.DataDir),
		syncDir(filepath.Dir(o.DataDir))); err != nil {
		return nil, fmt.Errorf("begin in data_dir %s: %w", o.DataDir, err)
	}
	if err := m.writeState(ctx, &o, out); err != nil {
		return nil, fmt.Errorf("%w; data_dir %s is of no use now: delete it", err, o.DataDir)
	}
	if err := m.writeIdentity(&o, out.ClusterID); err != nil {
		return nil, fmt.Errorf("write the identity: %w; data_dir %s is of no use now: delete it", err, o.DataDir)
	}
	if err := errors.Join(os.Remove(marker), syncDir(o.DataDir)); err != nil {
		return nil, fmt.Errorf("end in data_dir %s: %w", o.DataDir, err)
	}
	return out, nil
}

// unused says that there is no data directory yet, or nothing in it.
func unused(dir string) error {
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("data_dir: %w", err)
	case len(entries) > 0:
		return fmt.Errorf("data_dir %s %w and has %s in it: restore where nothing is", dir, ErrExists,
			entries[0].Name())
	}
	return nil
}

// writeState makes the node's database.
func (m *Manifest) writeState(ctx context.Context, o *Options, r *Restored) (err error) {
	db, err := pebble.Open(filepath.Join(o.DataDir, rows.StateDir), &pebble.Options{
		FormatMajorVersion: pebble.FormatNewest, MemTableSize: 32 << 20, Logger: silent{}, ErrorIfExists: true,
	})
	if err != nil {
		return fmt.Errorf("make the state database: %w", err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	w := &rowWriter{db: db, b: db.NewBatch()}
	for i := range m.Logs {
		if err := m.writeLog(ctx, o.From, &m.Logs[i], w, r); err != nil {
			return err
		}
	}
	if err := w.flush(pebble.Sync); err != nil {
		return fmt.Errorf("write the state database: %w", err)
	}
	return syncDir(filepath.Join(o.DataDir, rows.StateDir))
}

// writeLog writes what the new cluster has of one log: its groups, each raised above
// base, those that nothing was known of too; its clock, so that leases have as long
// left as they had; and no leader epoch, no sessions, and no calls of gRPC and HTTP, which
// were the old cluster's. Of a local backup it ends what is on paths that others would be given elsewhere.
func (m *Manifest) writeLog(ctx context.Context, from string, l *Saved, w *rowWriter, r *Restored) error {
	c, err := m.read(ctx, from, l)
	if err != nil {
		return err
	}
	state := rows.State{Now: c.state.Now, Wall: c.state.Wall}
	w.row(rows.Log(l.Log, rows.LogState, nil), state.Append(nil))
	if c.system != nil {
		c.system.Raise(r.Base)
		c.system.RaiseRoutes(r.Report.version())
		for row, val := range c.system.AllRows() {
			w.row(rows.System(nil, []byte(row)), val)
		}
		return w.err
	}
	for number := range m.GroupCount {
		if rows.Home(number, m.LogCount) != l.Log {
			continue
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		s := c.groups[uint16(number)]
		if s == nil {
			s = engine.New(m.engineConfig(), nil, nil)
		}
		s.Raise(r.Base)
		s.EndCalls(c.state.Now, c.served)
		if m.Local {
			s.EndStrays(engine.Clock{Now: c.state.Now, Wall: c.state.Wall}, r.Report.routes.Resolve)
		}
		var key []byte
		err := s.View().Rows(0, func(row, val []byte) error {
			key = rows.Group(key[:0], uint16(number), row)
			w.row(key, val)
			return w.err
		})
		if err != nil {
			return fmt.Errorf("write group %d: %w", number, err)
		}
	}
	return w.err
}

// rowWriter writes rows to the database, in batches; the first error sticks.
type rowWriter struct {
	db  *pebble.DB
	b   *pebble.Batch
	err error
}

func (w *rowWriter) row(key, val []byte) {
	if w.err == nil {
		w.err = w.b.Set(key, val, nil)
	}
	if w.err == nil && w.b.Len() >= batchBytes {
		w.err = w.flush(pebble.NoSync)
		w.b = w.db.NewBatch()
	}
}

func (w *rowWriter) flush(how *pebble.WriteOptions) error {
	return errors.Join(w.b.Commit(how), w.b.Close())
}

// silent is a logger of the database that says nothing: its errors are answered.
type silent struct{}

func (silent) Infof(string, ...any)  {}
func (silent) Errorf(string, ...any) {}
func (silent) Fatalf(format string, args ...any) {
	panic(fmt.Sprintf("backup: the state database gave up: "+format, args...))
}

// identity is what datadir.Load reads of a data directory (groups/datadir/identity.go), as
// the founder of a cluster writes it.
type identity struct {
	Format      uint32          `json:"format"`
	ClusterID   string          `json:"cluster_id"`
	NodeID      string          `json:"node_id"`
	HostID      string          `json:"raft_host_id"`
	GroupCount  int             `json:"group_count"`
	LogCount    int             `json:"log_count"`
	Segments    int             `json:"routing_prefix_segments"`
	Algorithm   string          `json:"default_lock_algorithm"`
	Replication int             `json:"replication_factor"`
	Starts      uint64          `json:"starts"`
	Earlier     uint64          `json:"earlier_starts"`
	Restored    bool            `json:"restored"`
	Seats       map[uint64]seat `json:"seats"`
}

type seat struct {
	Replica uint64 `json:"replica"`
	Joined  bool   `json:"joined"`
}

// writeIdentity makes the directory a node's. It is the last that is written.
func (m *Manifest) writeIdentity(o *Options, cluster string) error {
	id := &identity{
		Format: rows.NewestFormat, ClusterID: cluster, NodeID: o.NodeID, HostID: uuid.NewString(),
		GroupCount: m.GroupCount, LogCount: m.LogCount, Segments: m.Segments, Algorithm: m.Algorithm,
		Replication: m.Replication,
		Restored:    true, Seats: make(map[uint64]seat),
	}
	for _, log := range rows.LogsOf(m.LogCount) {
		id.Seats[log] = seat{Replica: 1}
	}
	id.Earlier = rows.EarlierStarts(id.HostID)
	b, err := json.MarshalIndent(id, "", "  ")
	if err != nil {
		return err
	}
	path := filepath.Join(o.DataDir, rows.IdentityFile)
	if err := writeSynced(path+".new", append(b, '\n')); err != nil {
		return err
	}
	return errors.Join(os.Rename(path+".new", path), syncDir(o.DataDir))
}
