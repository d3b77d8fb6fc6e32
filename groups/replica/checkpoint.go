package replica

import (
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/groups/codec"
	"github.com/pathlockd/pathlockd/groups/rows"
)

// How a log's state gets to disk, and back.
//
// A checkpoint takes views of the groups that changed, under the machine's lock,
// and then writes their rows, its sessions and the applied index in one batch,
// while entries go on being applied. Its write is not synced: the raft log is the
// write-ahead log, and a crash only means that more of it is replayed. Sync, which
// raft calls before it drops entries, does the same with an fsync; the node asks
// for that right after a checkpoint, when little is left to write (node.go).

const (
	// checkpointCommands is how many commands are applied before a checkpoint that
	// is not due yet is taken: it bounds what a start replays, and the fences in
	// memory.
	checkpointCommands = 400_000
	// evictSlice is how many fences are looked at under one hold of the lock.
	evictSlice = 2000
)

// image is what a checkpoint writes: one instant of the log.
type image struct {
	Applied  uint64
	Groups   []imageGroup
	System   map[string][]byte
	Changes  uint64 // of the system group's policies, so far
	sessions *sessionImage
	log      []byte // the log's own row
}

type imageGroup struct {
	Group *Group
	View  *engine.View
}

// capture takes the image of what changed since the last checkpoint.
func (m *Machine) capture() *image {
	m.mu.Lock()
	defer m.mu.Unlock()
	im := &image{Applied: m.Applied, log: m.LogRow(""), sessions: m.Sessions.take()}
	for _, g := range m.Order {
		if g.State.Touched() {
			im.Groups = append(im.Groups, imageGroup{g, g.State.Checkpoint()})
		}
	}
	if m.System != nil {
		im.System = m.System.TakeChanged()
	}
	m.commands = 0
	return im
}

// LogRow encodes the log's own state, with marks of nodes in a backup.
func (m *Machine) LogRow(nodes string) []byte {
	m.time.Lock()
	defer m.time.Unlock()
	row := rows.State{
		Applied: m.Applied, Term: m.LeaderEpoch.Term, Node: m.LeaderEpoch.Node, Incarnation: m.LeaderEpoch.Incarnation,
		Number: m.Number, Now: m.time.clock.now, Wall: m.wall, Nodes: nodes,
	}
	if m.stated {
		row.Limits = string(m.Limits.append(nil))
	}
	return row.Append(nil)
}

// loadLogRow is its inverse.
func (m *Machine) loadLogRow(row []byte) error {
	s, err := rows.ParseState(row)
	if err != nil {
		return err
	}
	m.Applied, m.Number, m.wall = s.Applied, s.Number, s.Wall
	m.LeaderEpoch = LeaderEpoch{Term: s.Term, Node: s.Node, Incarnation: s.Incarnation}
	m.time.Lock()
	m.time.clock = newLeaseClock(s.Now, m.Clock.Mono())
	m.time.Unlock()
	m.Now.Store(s.Now)
	if s.Limits != "" {
		r := codec.Reader{Buf: []byte(s.Limits)}
		l := ReadLimits(&r)
		if r.Err != nil {
			return r.Err
		}
		m.Adopt(l)
	}
	return nil
}

// write appends the image to a batch.
func (im *image) write(b *pebble.Batch, shard uint64, sessions map[engine.Session][]byte) error {
	var key []byte
	for i := range im.Groups {
		g := &im.Groups[i]
		err := g.View.Rows(g.View.Since(), func(row, val []byte) error {
			key = GroupKey(key[:0], g.Group.Number, row)
			if val == nil {
				return b.Delete(key, nil)
			}
			g.Group.swept.written(row)
			return b.Set(key, val, nil)
		})
		if err != nil {
			return err
		}
	}
	for row, val := range im.System {
		key = append(append(key[:0], spaceSystem), row...)
		if err := setOrDelete(b, key, val); err != nil {
			return err
		}
	}
	for id, val := range sessions {
		if err := setOrDelete(b, LogKey(shard, 's', id[:]), val); err != nil {
			return err
		}
	}
	return b.Set(LogKey(shard, 'a', nil), im.log, nil)
}

func setOrDelete(b *pebble.Batch, key, val []byte) error {
	if val == nil {
		return b.Delete(key, nil)
	}
	return b.Set(key, val, nil)
}

// Checkpoint brings the disk up to what is applied now. With sync it is there
// after a power loss too.
func (m *Machine) Checkpoint(sync bool) error {
	if m.Installing.Load() { // which may take minutes, and other logs wait for their turn
		return nil
	}
	m.Checkpoints.Lock()
	defer m.Checkpoints.Unlock()
	if m.Gone || m.Installing.Load() {
		return nil
	}
	m.whole(m.Sessions.image)
	im := m.capture()
	sessions := m.owing(im.sessions)
	b := m.Store.db.NewBatch()
	defer b.Close()
	if err := im.write(b, m.Shard, sessions); err != nil {
		return fmt.Errorf("checkpoint of log %d: %w", m.Shard, err)
	}
	options := pebble.NoSync
	if sync {
		options = pebble.Sync
	}
	m.writes++
	if err := b.Commit(options); err != nil {
		return fmt.Errorf("checkpoint of log %d: %w", m.Shard, err)
	}
	m.owed = nil
	m.mu.Lock()
	for i := range im.Groups {
		im.Groups[i].Group.swept.floors = im.Groups[i].View.Floors()
		im.Groups[i].Group.State.Written(im.Groups[i].View.Mark())
	}
	m.mu.Unlock()
	return nil
}

// Evict drops fences from memory that the last checkpoint wrote, a slice at a
// time, so that entries are not held up.
func (m *Machine) Evict() {
	m.mu.Lock()
	groups := append([]*Group(nil), m.Order...)
	m.mu.Unlock()
	for _, g := range groups {
		for done := false; !done; {
			m.mu.Lock()
			done = g.State.EvictFences(evictSlice)
			m.mu.Unlock()
		}
	}
}

// Sync implements statemachine.IOnDiskStateMachine.
func (m *Machine) Sync() error {
	if err := m.Checkpoint(true); err != nil {
		m.Fail(err)
	}
	return nil
}

// AppliedIndex is the index of the last entry applied.
func (m *Machine) AppliedIndex() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.Applied
}

// Open implements statemachine.IOnDiskStateMachine: it reads the live part of the
// state back into memory. Fences of paths that nobody holds stay on disk.
func (m *Machine) Open(<-chan struct{}) (uint64, error) {
	if err := m.Load(); err != nil {
		m.Fail(fmt.Errorf("load log %d: %w", m.Shard, err))
	}
	m.Host.Opened(m)
	return m.Applied, nil
}

// Load fills an empty machine from the database.
func (m *Machine) Load() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.empty()
	half, err := m.Store.HalfInstalled(m.Shard)
	if err != nil {
		return err
	}
	if half {
		m.Installing.Store(true)
		m.Logger.Warn("the installation of a snapshot was cut short by the end of the process, it is begun anew")
		return nil
	}
	if _, err := m.Store.Get(LogKey(m.Shard, 'a', nil), m.loadLogRow); err != nil {
		return err
	}
	from := LogKey(m.Shard, 's', nil)
	err = each(m.Store.db, from, upper(from), len(from), func(row, val []byte) error {
		return m.Sessions.load(engine.Session(row), val, &m.Limits)
	})
	if err != nil {
		return err
	}
	if m.System != nil {
		from := []byte{spaceSystem}
		if err := each(m.Store.db, from, upper(from), 1, m.System.Load); err != nil {
			return err
		}
		m.System.Loaded()
		m.Host.SystemChanged(m.System)
	}
	for _, number := range m.Numbers {
		if err := m.loadGroup(number); err != nil {
			return fmt.Errorf("group %d: %w", number, err)
		}
	}
	m.Sessions.loaded(m.Waiting())
	m.arm()
	return nil
}

// Waiting answers the sessions that wait for something, once for each.
func (m *Machine) Waiting() (all []engine.Session) {
	for _, g := range m.Order {
		for _, c := range g.State.OpenCalls() {
			all = append(all, c.Session)
		}
	}
	if m.System != nil {
		all = append(all, m.System.Callers()...)
	}
	return all
}

// loadGroup reads a group's rows, but for the fences.
func (m *Machine) loadGroup(number uint16) error {
	fenceFrom, fenceTo := engine.FenceTable()
	head := GroupKey(nil, number, nil)
	ranges := [2][2][]byte{
		{head, GroupKey(nil, number, []byte(fenceFrom))},
		{GroupKey(nil, number, []byte(fenceTo)), upper(head)},
	}
	for _, r := range ranges {
		err := each(m.Store.db, r[0], r[1], len(head), func(row, val []byte) error {
			return m.Groups[number].State.Load(row, val)
		})
		if err != nil {
			return err
		}
	}
	g := m.Groups[number]
	defer g.Stepped()
	g.swept.floors = g.State.Floors()
	return g.State.Loaded()
}
