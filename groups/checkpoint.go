package groups

import (
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/pathlockd/pathlockd/engine"
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
	applied  uint64
	groups   []imageGroup
	system   map[string][]byte
	changes  uint64 // of the system group's policies, so far
	sessions *sessionImage
	log      []byte // the log's own row
}

type imageGroup struct {
	g    *group
	view *engine.View
}

// capture takes the image of what changed since the last checkpoint.
func (m *machine) capture() *image {
	m.mu.Lock()
	defer m.mu.Unlock()
	im := &image{applied: m.applied, log: m.logRow(""), sessions: m.sessions.take()}
	for _, g := range m.order {
		if g.state.Touched() {
			im.groups = append(im.groups, imageGroup{g, g.state.Checkpoint()})
		}
	}
	if m.system != nil {
		im.system = m.system.TakeChanged()
	}
	m.commands = 0
	return im
}

// logRow encodes the log's own state, with marks of nodes in a backup.
func (m *machine) logRow(nodes string) []byte {
	m.time.Lock()
	defer m.time.Unlock()
	row := rows.State{
		Applied: m.applied, Term: m.leaderEpoch.term, Node: m.leaderEpoch.node, Incarnation: m.leaderEpoch.incarnation,
		Number: m.number, Now: m.time.clock.now, Wall: m.wall, Nodes: nodes,
	}
	if m.stated {
		row.Limits = string(m.limits.append(nil))
	}
	return row.Append(nil)
}

// loadLogRow is its inverse.
func (m *machine) loadLogRow(row []byte) error {
	s, err := rows.ParseState(row)
	if err != nil {
		return err
	}
	m.applied, m.number, m.wall = s.Applied, s.Number, s.Wall
	m.leaderEpoch = leaderEpoch{term: s.Term, node: s.Node, incarnation: s.Incarnation}
	m.time.Lock()
	m.time.clock = newLeaseClock(s.Now, m.clock.Mono())
	m.time.Unlock()
	m.now.Store(s.Now)
	if s.Limits != "" {
		r := entryReader{buf: []byte(s.Limits)}
		l := readLimits(&r)
		if r.err != nil {
			return r.err
		}
		m.adopt(l)
	}
	return nil
}

// write appends the image to a batch.
func (im *image) write(b *pebble.Batch, shard uint64, sessions map[engine.Session][]byte) error {
	var key []byte
	for i := range im.groups {
		g := &im.groups[i]
		err := g.view.Rows(g.view.Since(), func(row, val []byte) error {
			key = groupKey(key[:0], g.g.number, row)
			if val == nil {
				return b.Delete(key, nil)
			}
			g.g.swept.written(row)
			return b.Set(key, val, nil)
		})
		if err != nil {
			return err
		}
	}
	for row, val := range im.system {
		key = append(append(key[:0], spaceSystem), row...)
		if err := setOrDelete(b, key, val); err != nil {
			return err
		}
	}
	for id, val := range sessions {
		if err := setOrDelete(b, logKey(shard, 's', id[:]), val); err != nil {
			return err
		}
	}
	return b.Set(logKey(shard, 'a', nil), im.log, nil)
}

func setOrDelete(b *pebble.Batch, key, val []byte) error {
	if val == nil {
		return b.Delete(key, nil)
	}
	return b.Set(key, val, nil)
}

// checkpoint brings the disk up to what is applied now. With sync it is there
// after a power loss too.
func (m *machine) checkpoint(sync bool) error {
	if m.installing.Load() { // which may take minutes, and other logs wait for their turn
		return nil
	}
	m.checkpoints.Lock()
	defer m.checkpoints.Unlock()
	if m.gone || m.installing.Load() {
		return nil
	}
	m.whole(m.sessions.image)
	im := m.capture()
	sessions := m.owing(im.sessions)
	b := m.store.db.NewBatch()
	defer b.Close()
	if err := im.write(b, m.shard, sessions); err != nil {
		return fmt.Errorf("checkpoint of log %d: %w", m.shard, err)
	}
	options := pebble.NoSync
	if sync {
		options = pebble.Sync
	}
	m.writes++
	if err := b.Commit(options); err != nil {
		return fmt.Errorf("checkpoint of log %d: %w", m.shard, err)
	}
	m.owed = nil
	m.mu.Lock()
	for i := range im.groups {
		im.groups[i].g.swept.floors = im.groups[i].view.Floors()
		im.groups[i].g.state.Written(im.groups[i].view.Mark())
	}
	m.mu.Unlock()
	return nil
}

// evict drops fences from memory that the last checkpoint wrote, a slice at a
// time, so that entries are not held up.
func (m *machine) evict() {
	m.mu.Lock()
	groups := append([]*group(nil), m.order...)
	m.mu.Unlock()
	for _, g := range groups {
		for done := false; !done; {
			m.mu.Lock()
			done = g.state.EvictFences(evictSlice)
			m.mu.Unlock()
		}
	}
}

// Sync implements statemachine.IOnDiskStateMachine.
func (m *machine) Sync() error {
	if err := m.checkpoint(true); err != nil {
		m.fail(err)
	}
	return nil
}

// appliedIndex is the index of the last entry applied.
func (m *machine) appliedIndex() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.applied
}

// Open implements statemachine.IOnDiskStateMachine: it reads the live part of the
// state back into memory. Fences of paths that nobody holds stay on disk.
func (m *machine) Open(<-chan struct{}) (uint64, error) {
	if err := m.load(); err != nil {
		m.fail(fmt.Errorf("load log %d: %w", m.shard, err))
	}
	m.node.opened(m)
	return m.applied, nil
}

// load fills an empty machine from the database.
func (m *machine) load() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.empty()
	half, err := m.store.halfInstalled(m.shard)
	if err != nil {
		return err
	}
	if half {
		m.installing.Store(true)
		m.log.Warn("the installation of a snapshot was cut short by the end of the process, it is begun anew")
		return nil
	}
	if _, err := m.store.get(logKey(m.shard, 'a', nil), m.loadLogRow); err != nil {
		return err
	}
	from := logKey(m.shard, 's', nil)
	err = each(m.store.db, from, upper(from), len(from), func(row, val []byte) error {
		return m.sessions.load(engine.Session(row), val, &m.limits)
	})
	if err != nil {
		return err
	}
	if m.system != nil {
		from := []byte{spaceSystem}
		if err := each(m.store.db, from, upper(from), 1, m.system.Load); err != nil {
			return err
		}
		m.system.Loaded()
		m.publishRoutes()
	}
	for _, number := range m.node.groupsOf(m.shard) {
		if err := m.loadGroup(number); err != nil {
			return fmt.Errorf("group %d: %w", number, err)
		}
	}
	m.sessions.loaded(m.waiting())
	m.arm()
	return nil
}

// waiting answers the sessions that wait for something, once for each.
func (m *machine) waiting() (all []engine.Session) {
	for _, g := range m.order {
		for _, c := range g.state.OpenCalls() {
			all = append(all, c.Session)
		}
	}
	if m.system != nil {
		all = append(all, m.system.Callers()...)
	}
	return all
}

// loadGroup reads a group's rows, but for the fences.
func (m *machine) loadGroup(number uint16) error {
	fenceFrom, fenceTo := engine.FenceTable()
	head := groupKey(nil, number, nil)
	ranges := [2][2][]byte{
		{head, groupKey(nil, number, []byte(fenceFrom))},
		{groupKey(nil, number, []byte(fenceTo)), upper(head)},
	}
	for _, r := range ranges {
		err := each(m.store.db, r[0], r[1], len(head), func(row, val []byte) error {
			return m.groups[number].state.Load(row, val)
		})
		if err != nil {
			return err
		}
	}
	g := m.groups[number]
	defer g.stepped()
	g.swept.floors = g.state.Floors()
	return g.state.Loaded()
}
