package groups

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/cockroachdb/pebble/v2"
	sm "github.com/lni/dragonboat/v4/statemachine"

	"github.com/pathlockd/pathlockd/engine"
)

// A raft snapshot of a log is all its rows at one index:
//
//	snapshot = format(1) row… 0
//	row      = key length + 1, key, value length, value
//
// Lengths are unsigned varints. It is what a replica needs that is too far behind
// for the log. It is read from a snapshot of the database, over which the views of
// what has changed since the last checkpoint are laid; entries go on being applied
// while it streams.

const snapshotFormat = 1

// frozen is the instant a snapshot is of.
type frozen struct {
	im   *image
	disk *pebble.Snapshot
}

// PrepareSnapshot implements statemachine.IOnDiskStateMachine.
func (m *machine) PrepareSnapshot() (any, error) {
	m.checkpoints.Lock()
	defer m.checkpoints.Unlock()
	m.mu.Lock()
	defer m.mu.Unlock()
	im := &image{applied: m.applied, log: m.logRow(), sessions: make(map[engine.Session][]byte)}
	for _, g := range m.order {
		im.groups = append(im.groups, imageGroup{g: g, from: g.state.WrittenMark() + 1, view: g.current()})
	}
	if m.system != nil {
		im.system = m.system.AllRows()
	}
	for id, s := range m.sessions.byID {
		im.sessions[id] = s.row(nil)
	}
	return &frozen{im: im, disk: m.store.db.NewSnapshot()}, nil
}

// SaveSnapshot implements statemachine.IOnDiskStateMachine.
func (m *machine) SaveSnapshot(prepared any, to io.Writer, stop <-chan struct{}) error {
	f := prepared.(*frozen)
	defer f.disk.Close()
	w := &rowWriter{w: bufio.NewWriterSize(to, 1<<20), stop: stop}
	w.w.WriteByte(snapshotFormat)
	for _, g := range f.im.groups {
		if err := w.group(f.disk, &g); err != nil {
			return err
		}
	}
	for row, val := range f.im.system {
		w.row(append([]byte{spaceSystem}, row...), val)
	}
	for id, val := range f.im.sessions {
		w.row(logKey(m.shard, 's', id[:]), val)
	}
	w.row(logKey(m.shard, 'a', nil), f.im.log)
	w.w.WriteByte(0)
	return w.end()
}

// rowWriter writes rows; the first error sticks.
type rowWriter struct {
	w    *bufio.Writer
	stop <-chan struct{}
	err  error
	len  []byte
}

func (w *rowWriter) row(key, val []byte) {
	w.len = binary.AppendUvarint(w.len[:0], uint64(len(key))+1)
	w.bytes(w.len)
	w.bytes(key)
	w.len = binary.AppendUvarint(w.len[:0], uint64(len(val)))
	w.bytes(w.len)
	w.bytes(val)
}

func (w *rowWriter) bytes(b []byte) {
	if w.err == nil {
		_, w.err = w.w.Write(b)
	}
}

func (w *rowWriter) end() error {
	if w.err == nil {
		w.err = w.w.Flush()
	}
	return w.err
}

// group writes the rows of a group: those on disk, but for what the view says
// otherwise, and those of the view.
func (w *rowWriter) group(disk *pebble.Snapshot, g *imageGroup) error {
	over := make(map[string][]byte)
	err := g.view.Rows(g.from, func(row, val []byte) error {
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
			w.row(append(head[:len(head):len(head)], row...), val)
		}
		return w.err
	})
	if err != nil {
		return err
	}
	for row, val := range over {
		if val != nil {
			w.row(append(head[:len(head):len(head)], row...), val)
		}
	}
	return w.err
}

// RecoverFromSnapshot implements statemachine.IOnDiskStateMachine: what the disk
// and the memory hold of the log is replaced.
func (m *machine) RecoverFromSnapshot(from io.Reader, stop <-chan struct{}) error {
	m.checkpoints.Lock()
	defer m.checkpoints.Unlock()
	b := m.store.db.NewBatch()
	defer b.Close()
	for _, number := range m.node.groupsOf(m.shard) {
		head := groupKey(nil, number, nil)
		if err := b.DeleteRange(head, upper(head), nil); err != nil {
			return err
		}
	}
	head := logKey(m.shard, 's', nil)
	if err := b.DeleteRange(head, upper(head), nil); err != nil {
		return err
	}
	if m.shard == systemShard {
		if err := b.DeleteRange([]byte{spaceSystem}, []byte{spaceSystem + 1}, nil); err != nil {
			return err
		}
	}
	if err := readRows(bufio.NewReaderSize(from, 1<<20), stop, b); err != nil {
		return fmt.Errorf("snapshot of log %d: %w", m.shard, err)
	}
	if err := b.Commit(pebble.Sync); err != nil {
		m.fail(err)
	}
	if err := m.load(); err != nil {
		m.fail(err)
	}
	m.node.hub.missed(m.shard, m.applied)
	return nil
}

// readRows puts the rows of a snapshot into a batch.
func readRows(r *bufio.Reader, stop <-chan struct{}, b *pebble.Batch) error {
	if format, err := r.ReadByte(); err != nil || format != snapshotFormat {
		return errors.Join(fmt.Errorf("format %d, this build reads %d", format, snapshotFormat), err)
	}
	for {
		select {
		case <-stop:
			return sm.ErrSnapshotStopped
		default:
		}
		n, err := binary.ReadUvarint(r)
		if err != nil {
			return err
		}
		if n == 0 {
			return nil
		}
		key, err := readBytes(r, n-1)
		if err != nil {
			return err
		}
		if n, err = binary.ReadUvarint(r); err != nil {
			return err
		}
		val, err := readBytes(r, n)
		if err != nil {
			return err
		}
		if err := b.Set(key, val, nil); err != nil {
			return err
		}
	}
}

// maxRow bounds a row of a snapshot: a bulk acquire's waiter is the largest.
const maxRow = 64 << 20

func readBytes(r io.Reader, n uint64) ([]byte, error) {
	if n > maxRow {
		return nil, fmt.Errorf("row of %d bytes", n)
	}
	b := make([]byte, n)
	_, err := io.ReadFull(r, b)
	return b, err
}
