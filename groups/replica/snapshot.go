package replica

import (
	"io"
	"slices"

	"github.com/cockroachdb/pebble/v2"
	sm "github.com/lni/dragonboat/v4/statemachine"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/groups/rows"
)

// A raft snapshot of a log is all its rows at one index, as a stream of package rows.
// It is what a replica needs that is too far behind for the log. It is read from a
// snapshot of the database, over which the views of what has changed since the last
// checkpoint are laid; entries go on being applied while it streams.

// Frozen is the instant a snapshot is of.
type Frozen struct {
	Im   *image
	owed []*sessionImage // of sessions, to be laid over the disk, the last of this instant; nil for a backup
	disk *pebble.Snapshot
}

// Close lets go of the database's instant.
func (f *Frozen) Close() { f.disk.Close() }

// PrepareSnapshot implements statemachine.IOnDiskStateMachine.
func (m *Machine) PrepareSnapshot() (any, error) {
	if f := m.Freeze(true); f != nil {
		return f, nil
	}
	return nil, errHalfInstalled
}

// Freeze takes the instant that a snapshot or a backup is of, with the log's sessions
// or without; nil of a log that is half installed.
func (m *Machine) Freeze(sessions bool) *Frozen {
	if m.Installing.Load() {
		return nil
	}
	m.Checkpoints.Lock()
	defer m.Checkpoints.Unlock()
	if m.Installing.Load() {
		return nil
	}
	if sessions {
		m.whole(m.Sessions.image)
	}
	nodes := "" // a snapshot is of a cluster that goes on
	if !sessions {
		nodes = m.Host.ProcessMarks()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	im := &image{Applied: m.Applied, log: m.LogRow(nodes)}
	for _, g := range m.Order {
		im.Groups = append(im.Groups, imageGroup{g, g.current()})
	}
	if m.System != nil {
		im.System, im.Changes = m.System.AllRows(), m.System.Changes()
	}
	f := &Frozen{Im: im, disk: m.Store.db.NewSnapshot()}
	if sessions {
		m.owed = append(m.owed, m.Sessions.take())
		f.owed = slices.Clone(m.owed)
	}
	return f
}

// SaveSnapshot implements statemachine.IOnDiskStateMachine.
func (m *Machine) SaveSnapshot(prepared any, to io.Writer, stop <-chan struct{}) error {
	f := prepared.(*Frozen)
	defer f.Close()
	w := &rowWriter{rows.NewWriter(to, m.Host.SnapshotFormat()), stop}
	for i := range f.Im.Groups {
		if err := w.group(f.disk, &f.Im.Groups[i]); err != nil {
			return err
		}
	}
	for row, val := range f.Im.System {
		w.Row(rows.System(nil, []byte(row)), val)
	}
	if err := m.writeSessions(w, f); err != nil {
		return err
	}
	w.Row(LogKey(m.Shard, 'a', nil), f.Im.log)
	return w.End()
}

// writeSessions writes the rows of sessions: those on disk, but for what images say
// otherwise, and those of the images.
func (m *Machine) writeSessions(w *rowWriter, f *Frozen) error {
	if f.owed == nil {
		return nil
	}
	over := make(map[engine.Session][]byte)
	for _, im := range f.owed {
		m.whole(im)
		im.over(over)
	}
	head := LogKey(m.Shard, 's', nil)
	err := each(f.disk, head, upper(head), len(head), func(id, val []byte) error {
		if _, changed := over[engine.Session(id)]; !changed {
			w.Row(LogKey(m.Shard, 's', id), val)
		}
		return w.Err()
	})
	if err != nil {
		return err
	}
	for id, val := range over {
		if val != nil {
			w.Row(LogKey(m.Shard, 's', id[:]), val)
		}
	}
	return w.Err()
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
	err := g.View.Rows(g.View.Since(), func(row, val []byte) error {
		if val != nil {
			val = append([]byte{}, val...)
		}
		over[string(row)] = val
		return nil
	})
	if err != nil {
		return err
	}
	head, floors := GroupKey(nil, g.Group.Number, nil), g.View.Floors()
	err = each(disk, head, upper(head), len(head), func(row, val []byte) error {
		select {
		case <-w.stop:
			return sm.ErrSnapshotStopped
		default:
		}
		if len(floors) > 0 && engine.IsFenceRow(row) {
			if f, err := engine.ParseFence(val); err != nil || floors.Fold(row, f.Token) {
				return err
			}
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
