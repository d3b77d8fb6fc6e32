package groups

import (
	"errors"
	"fmt"
	"io"

	"github.com/cockroachdb/pebble/v2"
	sm "github.com/lni/dragonboat/v4/statemachine"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/groups/rows"
)

// A raft snapshot of a log is all its rows at one index, as a stream of package rows.
// It is what a replica needs that is too far behind for the log. It is read from a
// snapshot of the database, over which the views of what has changed since the last
// checkpoint are laid; entries go on being applied while it streams.

// frozen is the instant a snapshot is of.
type frozen struct {
	im   *image
	disk *pebble.Snapshot
}

// PrepareSnapshot implements statemachine.IOnDiskStateMachine.
func (m *machine) PrepareSnapshot() (any, error) { return m.freeze(true), nil }

// freeze takes the instant that a snapshot or a backup is of, with the log's sessions
// or without.
func (m *machine) freeze(sessions bool) *frozen {
	m.checkpoints.Lock()
	defer m.checkpoints.Unlock()
	m.mu.Lock()
	defer m.mu.Unlock()
	im := &image{applied: m.applied, log: m.logRow(), sessions: make(map[engine.Session][]byte)}
	for _, g := range m.order {
		im.groups = append(im.groups, imageGroup{g, g.current()})
	}
	if m.system != nil {
		im.system, im.changes = m.system.AllRows(), m.system.Changes()
	}
	if sessions {
		for id, s := range m.sessions.byID {
			im.sessions[id] = s.row(nil)
		}
	}
	return &frozen{im: im, disk: m.store.db.NewSnapshot()}
}

// SaveSnapshot implements statemachine.IOnDiskStateMachine.
func (m *machine) SaveSnapshot(prepared any, to io.Writer, stop <-chan struct{}) error {
	f := prepared.(*frozen)
	defer f.disk.Close()
	w := &rowWriter{rows.NewWriter(to, m.node.formats.written()), stop}
	for i := range f.im.groups {
		if err := w.group(f.disk, &f.im.groups[i]); err != nil {
			return err
		}
	}
	for row, val := range f.im.system {
		w.Row(rows.System(nil, []byte(row)), val)
	}
	for id, val := range f.im.sessions {
		w.Row(logKey(m.shard, 's', id[:]), val)
	}
	w.Row(logKey(m.shard, 'a', nil), f.im.log)
	return w.End()
}

// rowWriter writes the rows of an image.
type rowWriter struct {
	*rows.Writer
	stop <-chan struct{}
}

// group writes the rows of a group: those on disk, but for what the view says
// otherwise, and those of the view.
func (w *rowWriter) group(disk *pebble.Snapshot, g *imageGroup) error {
	over := make(map[string][]byte)
	err := g.view.Rows(g.view.Since(), func(row, val []byte) error {
		if val != nil {
			val = append([]byte{}, val...)
		}
		over[string(row)] = val
		return nil
	})
	if err != nil {
		return err
	}
	head := groupKey(nil, g.g.number, nil)
	err = each(disk, head, upper(head), len(head), func(row, val []byte) error {
		select {
		case <-w.stop:
			return sm.ErrSnapshotStopped
		default:
		}
		if _, changed := over[string(row)]; !changed {
			w.Row(append(head[:len(head):len(head)], row...), val)
		}
		return w.Err()
	})
	if err != nil {
		return err
	}
	for row, val := range over {
		if val != nil {
			w.Row(append(head[:len(head):len(head)], row...), val)
		}
	}
	return w.Err()
}

// RecoverFromSnapshot implements statemachine.IOnDiskStateMachine: what the disk
// and the memory hold of the log is replaced.
func (m *machine) RecoverFromSnapshot(from io.Reader, stop <-chan struct{}) error {
	m.checkpoints.Lock()
	defer m.checkpoints.Unlock()
	b := m.store.db.NewBatch()
	defer b.Close()
	if err := clearRows(b, m.shard, m.node.groupsOf(m.shard)); err != nil {
		return err
	}
	if err := readRows(rows.NewReader(from), stop, b); err != nil {
		return fmt.Errorf("snapshot of log %d: %w", m.shard, err)
	}
	if err := b.Commit(pebble.Sync); err != nil {
		m.fail(err)
	}
	if err := m.load(); err != nil {
		m.fail(err)
	}
	m.node.hub.missed(m.shard, m.applied)
	if m.driver != nil {
		m.driver.overtaken(m.office, m.number)
	}
	return nil
}

// readRows puts the rows of a snapshot into a batch.
func readRows(r *rows.Reader, stop <-chan struct{}, b *pebble.Batch) error {
	for {
		select {
		case <-stop:
			return sm.ErrSnapshotStopped
		default:
		}
		key, val, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = b.Set(key, val, nil)
		}
		if err != nil {
			return err
		}
	}
}
