package groups

import (
	"encoding/binary"
	"errors"
	"sync"
	"time"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/groups/replica"
	"github.com/pathlockd/pathlockd/groups/rows"
	"github.com/pathlockd/pathlockd/wire"
)

// A backup of a log is an image of it, as of a raft snapshot, that a client reads
// piece by piece while the log goes on. What the image shares with the state it was
// taken of costs nothing; what changes meanwhile is in memory twice, and files of the
// database that it needs are kept. So images are few, and do not stay for long.
const (
	// maxBackups is how many backups of a whole cluster a node can have open at once;
	// each needs an image of every log, and a second one of the system log.
	maxBackups = 2
	// backupIdle is how long an image stays of whose connection none is read.
	backupIdle = 60 * time.Second
	// backupAge is how long an image stays at all.
	backupAge = time.Hour
)

// exports is the images that clients of this node read.
type exports struct {
	mu     sync.Mutex
	open   map[uint64]*export
	last   uint64
	closed bool
	idle   time.Duration // backupIdle, but in tests
	work   sync.WaitGroup
}

// export is one of them.
type export struct {
	id      uint64
	log     uint64
	session engine.Session
	until   time.Time // not read after this
	timer   *time.Timer
	pages   chan []byte   // closed at the end, or when the writer failed
	stop    chan struct{} // closed when nobody reads any more
	err     error         // of the writer, before pages is closed

	reading sync.Mutex
	page    []byte // answered last, and may be asked for again
	at      uint64 // its place in the stream
	done    bool   // it is the last
	more    []byte // the page after it, which tells that it is not the last
	begun   bool
}

var errBackupClosed = errors.New("the backup was closed")

// backupOpen takes an image of a log.
func (s *steps) backupOpen() (wire.Result, *wire.Error) {
	n, shard := s.n, s.req.Target
	l := n.logs[shard]
	if l == nil {
		return wire.Result{}, wire.Errorf(wire.InvalidArgument, "log %d: must be from %d (the system log) to %d", shard,
			rows.SystemLog, rows.SystemLog+n.id.LogCount)
	}
	m := l.local.Load()
	if m == nil || !m.Loaded.Load() {
		return wire.Result{}, wire.Errorf(wire.FailedPrecondition,
			"log %d: node %s has no replica of it; ask its leader's (topology)", shard, n.id.NodeID)
	}
	if !s.req.Explicit {
		var err *wire.Error
		if m, err = n.upToDate(l, s.since); err != nil {
			return wire.Result{}, err
		}
	}
	b, f, err := n.backups.add(m, engine.Session(s.c.Session.ID), maxBackups*(len(n.logs)+1))
	if err != nil {
		return wire.Result{}, err
	}
	return wire.Result{List: &wire.List{Backup: &wire.Backup{
		ID: b.id, Log: shard, AppliedIndex: f.Im.Applied, UnixMillis: n.clock.Wall().UnixMilli(), Changes: f.Im.Changes,
		ClusterID: n.id.ClusterID, GroupCount: uint64(n.id.GroupCount), LogCount: uint64(n.id.LogCount),
		PrefixSegments: uint64(n.id.Segments), Algorithm: n.cfg.Algorithm, Replication: uint64(n.id.Replication),
	}}}, nil
}

// add takes an image of a log's machine and begins to write it out.
func (t *exports) add(m *replica.Machine, session engine.Session, most int) (*export, *replica.Frozen, *wire.Error) {
	b, err := t.enter(m.Shard, session, most)
	if err != nil {
		return nil, nil, err
	}
	f := m.Freeze(false)
	if f == nil {
		t.drop(b)
		t.work.Done()
		return nil, nil, replica.ErrInstalling
	}
	go func() {
		defer t.work.Done()
		defer close(b.pages)
		b.err = b.write(m, f)
	}()
	return b, f, nil
}

// enter makes room for an image that is about to be taken.
func (t *exports) enter(log uint64, session engine.Session, most int) (*export, *wire.Error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.closed:
		return nil, wire.Errorf(wire.Unavailable, "the node is shutting down; nothing was done")
	case len(t.open) >= most:
		return nil, wire.Errorf(wire.ResourceExhausted,
			"this node has %d images open for backups, at most %d are allowed; each is closed once nobody "+
				"read it for %v",
			len(t.open), most, backupIdle)
	}
	if t.open == nil {
		t.open = make(map[uint64]*export)
	}
	if t.idle == 0 {
		t.idle = backupIdle
	}
	t.last++
	b := &export{
		id: t.last, log: log, session: session, until: time.Now().Add(backupAge),
		pages: make(chan []byte), stop: make(chan struct{}),
	}
	t.open[b.id] = b
	b.timer = time.AfterFunc(t.idle, func() { t.drop(b) })
	t.work.Add(1)
	return b, nil
}

// drop closes an image.
func (t *exports) drop(b *export) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.open[b.id] == b {
		delete(t.open, b.id)
		b.timer.Stop()
		close(b.stop)
	}
}

// find answers an image that is open, and lets all of its connection stay for longer.
func (t *exports) find(id uint64, session engine.Session) *export {
	t.mu.Lock()
	defer t.mu.Unlock()
	b := t.open[id]
	if b == nil || b.session != session {
		return nil
	}
	for _, o := range t.open {
		if o.session == session {
			o.timer.Reset(min(t.idle, time.Until(o.until)))
		}
	}
	return b
}

// left closes the images of a session that is gone.
func (t *exports) left(session engine.Session) {
	t.mu.Lock()
	var gone []*export
	for _, b := range t.open {
		if b.session == session {
			gone = append(gone, b)
		}
	}
	t.mu.Unlock()
	for _, b := range gone {
		t.drop(b)
	}
}

// close closes all images and waits until nothing of them is left.
func (t *exports) close() {
	t.mu.Lock()
	t.closed = true
	gone := make([]*export, 0, len(t.open))
	for _, b := range t.open {
		gone = append(gone, b)
	}
	t.mu.Unlock()
	for _, b := range gone {
		t.drop(b)
	}
	t.work.Wait()
}

// write writes the image out as pages: the stream of its rows, and their sum.
func (b *export) write(m *replica.Machine, f *replica.Frozen) error {
	w := &pageWriter{b: b}
	if err := m.SaveSnapshot(f, w, b.stop); err != nil {
		return err
	}
	var sum rows.Sum
	for i := range f.Im.Groups {
		select {
		case <-b.stop:
			return errBackupClosed
		default:
			sum.Add(f.Im.Groups[i].Group.Number, f.Im.Groups[i].View.Digest())
		}
	}
	if f.Im.System != nil {
		sum.Add(rows.SystemGroup, engine.DigestRows(f.Im.System))
	}
	if _, err := w.Write(sum.Append(nil)); err != nil {
		return err
	}
	return w.flush()
}

// pageWriter cuts what is written into pages.
type pageWriter struct {
	b    *export
	page []byte
}

func (w *pageWriter) Write(p []byte) (int, error) {
	for n := 0; ; {
		part := min(len(p)-n, wire.MaxBackupPage-len(w.page))
		w.page = append(w.page, p[n:n+part]...)
		if n += part; n == len(p) {
			return n, nil
		}
		if err := w.flush(); err != nil {
			return n, err
		}
	}
}

func (w *pageWriter) flush() error {
	select {
	case w.b.pages <- w.page:
		w.page = nil
		return nil
	case <-w.b.stop:
		return errBackupClosed
	}
}

// backupRead answers the next page of an image, or the one before once more.
func (s *steps) backupRead() (wire.Result, *wire.Error) {
	b := s.n.backups.find(s.req.Target, engine.Session(s.c.Session.ID))
	if b == nil {
		return wire.Result{}, wire.Errorf(wire.FailedPrecondition,
			"backup_id %d: this connection has no such image open; it may have been closed because none was read "+
				"for %v, or after %v",
			s.req.Target, backupIdle, backupAge)
	}
	from := uint64(0)
	switch len(s.req.Cursor) {
	case 0:
	case 8:
		from = binary.BigEndian.Uint64(s.req.Cursor)
	default:
		return wire.Result{}, wire.Errorf(wire.InvalidArgument, "cursor: is none of this image's: has %d bytes",
			len(s.req.Cursor))
	}
	page, done, err := b.read(from)
	if err != nil {
		return wire.Result{}, err
	}
	next := binary.BigEndian.AppendUint64(nil, from+uint64(len(page)))
	return wire.Result{Done: done, List: &wire.List{Rows: page, Cursor: next}}, nil
}

// read answers the page that begins at from, and whether it is the last.
func (b *export) read(from uint64) (_ []byte, done bool, _ *wire.Error) {
	b.reading.Lock()
	defer b.reading.Unlock()
	next := b.at + uint64(len(b.page))
	switch {
	case b.begun && from == b.at:
		return b.page, b.done, nil
	case from != next || b.done:
		return nil, false, wire.Errorf(wire.InvalidArgument, "cursor: the image is read from %d on, not from %d",
			next, from)
	}
	page, more := b.more, true
	if !b.begun {
		page, more = <-b.pages
	}
	var after []byte
	if more {
		after, more = <-b.pages
	}
	if !more && b.err != nil {
		return nil, false, wire.Errorf(wire.FailedPrecondition, "the image of log %d cannot be read on: %v",
			b.log, b.err)
	}
	b.begun, b.at, b.page, b.more, b.done = true, next, page, after, !more
	return page, b.done, nil
}

// backupClose closes an image.
func (s *steps) backupClose() (wire.Result, *wire.Error) {
	if b := s.n.backups.find(s.req.Target, engine.Session(s.c.Session.ID)); b != nil {
		s.n.backups.drop(b)
	}
	return wire.Result{}, nil
}
