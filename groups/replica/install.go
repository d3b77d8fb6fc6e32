package replica

import (
	"errors"
	"fmt"
	"io"

	"github.com/cockroachdb/pebble/v2"
	sm "github.com/lni/dragonboat/v4/statemachine"

	"github.com/pathlockd/pathlockd/groups/rows"
)

// A snapshot may be larger than any batch of the database (4 GiB) and than the memory, so
// it is installed piece by piece, behind a marker:
//
//	1  the marker, and nothing else of the log: not even how far it was applied   synced
//	2  the rows, in batches
//	3  the log's own row, and no marker any more                                  synced
//
// What lies under the marker is not state. A start that finds it begins with nothing
// applied, and raft, which keeps the snapshot until its installation is over, installs it
// again. Should raft go on with entries instead, the node stops (Update).

// InstallBytes is about how much of a snapshot is in memory and not in the database.
const InstallBytes = 4 << 20

var errHalfInstalled = errors.New("groups: the replica is half installed: the installation of a snapshot was cut short")

// RecoverFromSnapshot implements statemachine.IOnDiskStateMachine: what the disk
// and the memory hold of the log is replaced.
func (m *Machine) RecoverFromSnapshot(from io.Reader, stop <-chan struct{}) error {
	m.Checkpoints.Lock()
	defer m.Checkpoints.Unlock()
	in := &installation{m: m, b: m.Store.db.NewBatch(), log: LogKey(m.Shard, rows.LogState, nil)}
	defer in.close()
	if err := in.all(rows.NewReader(from), stop); err != nil {
		return fmt.Errorf("snapshot of log %d: %w", m.Shard, err)
	}
	m.owed = nil
	if err := m.Load(); err != nil {
		m.Fail(err)
	}
	m.Installing.Store(false)
	m.Hub.Missed(m.Shard, m.Applied)
	if m.Proposer != nil {
		m.Proposer.Overtaken(m.LeaderEpoch, m.Number)
	}
	return nil
}

// installation is a snapshot on its way to the disk.
type installation struct {
	m     *Machine
	b     *pebble.Batch
	log   []byte // key of the log's own row
	state []byte // its value
}

// all replaces the log's rows by those of a snapshot. A disk that fails ends the process;
// an error is the stream's.
func (in *installation) all(r *rows.Reader, stop <-chan struct{}) error {
	key, val, err := r.Next() // one that cannot be read at all does no harm
	if err == nil {
		err = in.begin()
	}
	for err == nil {
		if err = in.row(key, val); err != nil {
			return err
		}
		select {
		case <-stop:
			return sm.ErrSnapshotStopped
		default:
			key, val, err = r.Next()
		}
	}
	if !errors.Is(err, io.EOF) {
		return err
	}
	if in.state == nil {
		return errors.New("it does not say as of which entry it is")
	}
	return in.end()
}

// begin takes away what there was.
func (in *installation) begin() error {
	in.m.installs.Add(1)
	in.m.writes++
	in.m.Installing.Store(true)
	err := clearRows(in.b, in.m.Shard, in.m.Numbers)
	if err == nil {
		err = in.b.Set(in.marker(), nil, nil)
	}
	if err == nil {
		in.commit(pebble.Sync)
	}
	return err
}

// end makes what is there state.
func (in *installation) end() error {
	err := errors.Join(in.b.Set(in.log, in.state, nil), in.b.Delete(in.marker(), nil))
	if err == nil {
		in.commit(pebble.Sync)
	}
	return err
}

func (in *installation) marker() []byte { return LogKey(in.m.Shard, rows.LogInstalling, nil) }

// row takes one row. The log's own comes last of all, wherever it stands in the stream.
func (in *installation) row(key, val []byte) error {
	if string(key) == string(in.log) {
		in.state = append([]byte{}, val...)
		return nil
	}
	if err := in.b.Set(key, val, nil); err != nil {
		return err
	}
	if in.b.Len() >= InstallBytes {
		in.commit(pebble.NoSync) // the last one's sync is theirs too
	}
	return nil
}

// commit writes the batch and begins another.
func (in *installation) commit(how *pebble.WriteOptions) {
	if err := errors.Join(in.b.Commit(how), in.b.Close()); err != nil {
		in.m.Fail(fmt.Errorf("install a snapshot of log %d: %w", in.m.Shard, err))
	}
	in.b = in.m.Store.db.NewBatch()
}

func (in *installation) close() {
	if err := in.b.Close(); err != nil {
		in.m.Logger.Warn("a batch of an installation is not closed", "error", err)
	}
}

// HalfInstalled looks for the marker.
func (s *Store) HalfInstalled(shard uint64) (bool, error) {
	return s.Get(LogKey(shard, rows.LogInstalling, nil), func([]byte) error { return nil })
}

// goesOn ends the process if entries come to a state that is none.
func (m *Machine) goesOn(index uint64) {
	if m.Installing.Load() {
		m.Fail(fmt.Errorf("entry %d of log %d: %w, and raft goes on without it: "+
			"the raft logs and the state in data_dir do not belong together; %s", index, m.Shard, errHalfInstalled,
			rows.Remedy))
	}
}
