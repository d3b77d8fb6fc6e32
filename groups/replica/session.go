package replica

import (
	"cmp"
	"container/list"
	"encoding/binary"
	"maps"
	"slices"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/groups/codec"
	"github.com/pathlockd/pathlockd/wire"
)

// How a repeat is told from a new request.
//
// A client whose connection broke cannot know which of its unanswered requests
// were carried out. It asks them again, with their ids, on its next connection.
// So each log keeps, for each session, the answers to its requests in that log until the
// client says that it has them (settled), and a bounded number of them: MaxWindow for a
// session that settles, its window for one that never does. A request that is carried out
// in steps has an answer for each, which count as one.
//
// Beyond that the oldest answers are forgotten, and what may be a repeat of one that was is
// refused. What may be: a client asks again on a later connection, and each session's
// connections are counted. So an id above the highest that was answered when the latest
// connection came (mark) was asked there first, however late it comes here: what is carried
// out in steps, or waited, comes behind requests that were asked after it. Or it asks again
// on the same connection, which the log cannot tell from that; but whoever serves the
// connection can, as ids grow on it, and says so (wire.Call.Again). Nodes repeat too, when
// they do not know whether a command that they forwarded was carried out (forward.go), and
// say so.
//
// A client that goes to another node leaves copies of its requests behind: what comes from an
// earlier connection than the latest that was seen is not carried out any more.
//
// A waiting acquire is known by its place in the queue until it is answered, and a session
// is remembered for as long as it waits for something.
//
// What is kept here is a function of the log. It belongs to the log and not to
// one of its groups, as a session's window spans them.

// What this build states of sessions when its leader epoch begins (limits.go).
const (
	// RepeatMillis is how long after it asked first a client may ask again under the same id. It is told so at hello.
	RepeatMillis = 60_000
	// rememberMillis is how long a session that asks nothing is remembered: longer than any copy of its requests is
	// under way. Else a release that was carried out would be carried out once more, and give back what its owner took
	// since. A client asks again until 9/10 of RepeatMillis are over; what it sends comes within GoneWithin and is read
	// within twice as long, or refused (loop, lateAfter); and what was read goes on to the node that leads, or is
	// queued there, for no longer than request_timeout_ms and staleBy each. What outlives that is a wait that has its
	// place: it is not taken for a new one (isAttached).
	rememberMillis = 420_000
	// MaxWindow is the most answers kept for a session in one log.
	MaxWindow = 1024
	// maxSessions is how many sessions one log remembers; requests of further ones are
	// refused, for to forget one early would be to carry its repeats out anew.
	maxSessions = 65_536
	// maxSteps is how many answers one log keeps for a session beyond its window, for
	// requests of many steps; over it the oldest requests are forgotten.
	maxSteps = 4096
	// forgetAtOnce is how many sessions whose time is over are let go of by one entry. The
	// others count as forgotten too; it only bounds what an entry costs.
	forgetAtOnce = 1000
)

// Session is what one log remembers of a client's session. Whoever changes it says so
// first (sessions.changes), but for what follows behind the answers.
type Session struct {
	id      engine.Session
	last    int64     // lease clock of its last command, or of the end of its last wait, ms
	Epoch   uint64    // the latest of its connections that was seen
	highest uint64    // id that was answered
	mark    uint64    // highest when the latest connection was first seen: above it nothing is a repeat
	settled uint64    // the client has the answers to all ids below
	lost    uint64    // highest id whose answer was forgotten, and is not settled
	window  int       // most requests that it said to keep unanswered
	ring    []request // the oldest at head
	head    int
	more    int // answers in ring that are not the first of their request

	Waits   int           // open acquires, or policy changes under way; not in the row: it follows from the groups
	swept   uint64        // settled when all that was settled was let go of
	changed uint64        // generation in which it last came to differ from its row, 0: it does not
	gone    bool          // it is not among the sessions any more
	place   *list.Element // in age, nil while it waits for something
}

// request is the answers to one request.
type request struct {
	answered
	more []answered // to its other steps
}

// kept is the requests with answers, in the order of these.
func (s *Session) kept() []request { return s.ring[s.head:] }

// find answers what was answered to a part of request id, nil when that is not
// known.
func (s *Session) find(id, sub uint64) *answered {
	if id > s.highest || id < s.settled {
		return nil
	}
	kept := s.kept()
	for i := range kept {
		r := &kept[i]
		if r.id != id {
			continue
		}
		if r.is(sub) {
			return &r.answered
		}
		for i := range r.more {
			if r.more[i].is(sub) {
				return &r.more[i]
			}
		}
		return nil
	}
	return nil
}

// tookBack says that a release was carried out which names an acquire that was not, or has left the queue: its node may
// have answered that without asking any log, as one that was cancelled while a move held it back. Asked again, both of
// them, it must not take anything, as the release is not carried out again.
func (s *Session) tookBack(acquire uint64) bool {
	back := false
	if acquire <= s.highest {
		s.each(func(a *answered) {
			back = back || a.op == wire.OpRelease && a.token != 0 && uint64(a.token) == acquire
		})
	}
	return back
}

// whole says that all of request id was carried out here and elsewhere.
func (s *Session) whole(id uint64) bool {
	for _, r := range s.kept() {
		if r.id == id && id >= s.settled {
			return r.sub&WholeSub != 0 || slices.ContainsFunc(r.more,
				func(a answered) bool { return a.sub&WholeSub != 0 })
		}
	}
	return false
}

// forgot says that a request to which no answer is known may have had one. again says that
// it was asked before, on the same connection or by a node.
func (s *Session) forgot(id uint64, again bool) bool {
	return id < s.settled || id <= s.lost && (again || id <= s.mark)
}

// add remembers an answer, over the one it has for that id if there is one.
func (s *Session) add(a answered, l *Limits) {
	if old := s.find(a.id, a.sub); old != nil {
		a.sub |= old.sub & WholeSub
		*old = a
		return
	}
	// what was carried out in parts may come whole when it is asked again, after a routing change
	if a.id <= s.highest {
		kept := s.kept()
		for i := range kept {
			if kept[i].id == a.id {
				kept[i].more = append(kept[i].more, a)
				s.more++
				s.trim(a.id, l)
				return
			}
		}
	}
	s.highest = max(s.highest, a.id)
	if a.id < s.settled {
		return
	}
	if s.head > 0 && len(s.ring) == cap(s.ring) { // there is room at the start
		n := copy(s.ring, s.kept())
		clear(s.ring[n:])
		s.ring, s.head = s.ring[:n], 0
	}
	s.ring = append(s.ring, request{answered: a})
	if len(s.kept()) > s.room(l) {
		s.sweep()
	}
	for len(s.kept()) > s.room(l) {
		s.drop()
	}
}

// room is how many requests' answers are kept.
func (s *Session) room(l *Limits) int {
	if s.settled > 0 {
		return l.MaxWindow
	}
	return min(s.window, l.MaxWindow)
}

// drop lets the oldest answer go.
func (s *Session) drop() {
	r := &s.ring[s.head]
	if r.id >= s.settled {
		s.lost = max(s.lost, r.id)
	}
	s.more -= len(r.more)
	*r = request{}
	if s.head++; s.head == len(s.ring) {
		s.ring, s.head = s.ring[:0], 0
	}
}

// trim forgets the oldest requests, but not one of them, while there are too many
// answers.
func (s *Session) trim(but uint64, l *Limits) {
	if s.more > l.MaxSteps {
		s.sweep()
	}
	for s.more > l.MaxSteps && s.ring[s.head].id != but {
		s.drop()
	}
}

// settle lets go of the answers that the client has, as far as they are the oldest. The
// others go when room is needed.
func (s *Session) settle(below uint64) {
	s.settled = below
	for len(s.kept()) > 0 && s.ring[s.head].id < below {
		s.drop()
	}
}

// sweep lets go of all answers that are settled.
func (s *Session) sweep() {
	if s.swept == s.settled {
		return
	}
	s.swept = s.settled
	left := s.ring[:0]
	for _, r := range s.kept() {
		if r.id < s.settled {
			s.more -= len(r.more)
		} else {
			left = append(left, r)
		}
	}
	clear(s.ring[len(left):])
	s.ring, s.head = left, 0
}

// sessionRow is the first byte of a session's row. Rows of earlier builds begin with an even
// one, as they begin with a time.
const (
	sessionRow  = 3
	unmarkedRow = 1 // without the paths of answers (marks.go)
)

// row is the session as it is kept on disk: all that decides what becomes of its requests.
func (s *Session) row() []byte {
	dst := binary.AppendVarint([]byte{sessionRow}, s.last)
	for _, v := range [...]uint64{s.Epoch, s.highest, s.mark, s.settled, s.lost, uint64(s.window)} {
		dst = binary.AppendUvarint(dst, v)
	}
	s.sweep()
	kept := s.kept()
	dst = binary.AppendUvarint(dst, uint64(len(kept)+s.more))
	for i := range kept {
		dst = kept[i].append(dst)
		for j := range kept[i].more {
			dst = kept[i].more[j].append(dst)
		}
	}
	return dst
}

// sessionOf reads what row answers.
func sessionOf(id engine.Session, row []byte, l *Limits) (*Session, error) {
	if len(row) == 0 || row[0] != sessionRow && row[0] != unmarkedRow {
		return earlierSession(id, row, l)
	}
	r := codec.Reader{Buf: row[1:]}
	s := &Session{id: id, last: r.Varint()}
	head := [6]uint64{}
	for i := range head {
		head[i] = r.Uvarint()
	}
	n := r.Uvarint()
	if n > uint64(len(r.Buf)) {
		r.Err = codec.ErrMalformed
		n = 0
	}
	s.ring = make([]request, 0, n)
	for ; n > 0 && r.Err == nil; n-- {
		a := readAnswered(&r, row[0] == sessionRow)
		if at := len(s.ring) - 1; at >= 0 && s.ring[at].id == a.id {
			s.ring[at].more = append(s.ring[at].more, a)
			s.more++
		} else {
			s.ring = append(s.ring, request{answered: a})
		}
	}
	s.Epoch, s.highest, s.mark, s.settled, s.lost, s.window = head[0], head[1], head[2], head[3], head[4], int(head[5])
	return s, r.Err
}

// earlierSession reads a row of a build before answers were settled. It forgot answers and
// did not say which: what is below those it has may be a repeat.
func earlierSession(id engine.Session, row []byte, l *Limits) (*Session, error) {
	r := codec.Reader{Buf: row}
	s := &Session{id: id, last: r.Varint(), window: windowOf(int(r.Uvarint()), l)}
	var all []answered
	for n := r.Uvarint(); n > 0 && r.Err == nil; n-- {
		a := answered{id: r.Uvarint(), sub: r.Uvarint()}
		if b := r.Bytes(4); b != nil {
			a.hash = binary.BigEndian.Uint32(b)
		}
		a.op, a.status, a.token = wire.Op(r.Byte()), wire.Status(r.Byte()), r.Varint()
		all = append(all, a)
	}
	if len(r.Buf) > 0 { // what a still earlier build wrote ends here
		s.Epoch = r.Uvarint()
	}
	for len(r.Buf) > 0 && r.Err == nil {
		at, code, reason := r.Uvarint(), wire.Code(r.Byte()), wire.Reason(r.Byte())
		if at >= uint64(len(all)) {
			return nil, codec.ErrMalformed
		}
		all[at].code, all[at].reason = code, reason
	}
	for _, a := range all {
		s.add(a, l)
	}
	if len(all) > 0 {
		s.lost = max(s.lost, slices.MinFunc(all, func(a, b answered) int { return cmp.Compare(a.id, b.id) }).id-1)
	}
	s.mark = s.highest
	return s, r.Err
}

// windowOf bounds what a client said of itself.
func windowOf(window int, l *Limits) int {
	if window <= 0 || window > l.MaxWindow {
		return l.MaxWindow
	}
	return window
}

// sessions is every session of a log.
type sessions struct {
	ByID map[engine.Session]*Session
	age  list.List // of *session, the longest silent first; those that wait for something are not in it

	// How sessions get to disk: checkpoint.go.
	generation uint64     // of changes, from 1
	changed    []*Session // in this generation
	gone       []engine.Session
	image      *sessionImage // the last that was taken
}

func newSessions() *sessions {
	return &sessions{ByID: make(map[engine.Session]*Session), generation: 1}
}

// use answers the session of a command, made if it is new; nil when there is no room for
// one more.
func (t *sessions) use(ref *sessionRef, now int64, l *Limits) *Session {
	s := t.ByID[ref.ID]
	if s != nil && s.over(now, l) {
		t.forget(s)
		s = nil
	}
	if s == nil {
		if s = t.made(ref.ID, now, l); s == nil {
			return nil
		}
	}
	window := windowOf(ref.Window, l)
	if s.last == now && ref.Epoch <= s.Epoch && window <= s.window {
		return s
	}
	t.changes(s)
	s.window = max(s.window, window)
	if ref.Epoch > s.Epoch {
		s.Epoch, s.mark = ref.Epoch, s.highest
	}
	t.heard(s, now)
	return s
}

// made makes a new session, if there is room.
func (t *sessions) made(id engine.Session, now int64, l *Limits) *Session {
	if len(t.ByID) >= l.MaxSessions {
		first := t.age.Front()
		if first == nil || !first.Value.(*Session).over(now, l) && engine.Planted != engine.PlantForgotten {
			return nil
		}
		t.forget(first.Value.(*Session))
	}
	s := &Session{id: id, last: now}
	s.place = t.age.PushBack(s)
	t.ByID[id] = s
	t.changes(s)
	return s
}

// heard notes that the session asked something, or was answered.
func (t *sessions) heard(s *Session, now int64) {
	s.last = now
	if s.place != nil {
		t.age.MoveToBack(s.place)
	}
}

// over says that the session was silent for too long: it counts as forgotten.
func (s *Session) over(now int64, l *Limits) bool {
	return s.Waits == 0 && s.last+int64(l.RememberMillis) <= now
}

// waits notes how many answers a session waits for.
func (t *sessions) waits(s *Session, n int, now int64) {
	switch s.Waits = n; {
	case n > 0 && s.place != nil:
		t.age.Remove(s.place)
		s.place = nil
	case n == 0 && s.place == nil:
		t.changes(s)
		s.last = now
		s.place = t.age.PushBack(s)
	}
}

func (t *sessions) forget(s *Session) {
	t.changes(s)
	t.age.Remove(s.place)
	delete(t.ByID, s.id)
	s.gone = true
	t.gone = append(t.gone, s.id)
}

// expire forgets sessions that were silent for too long.
func (t *sessions) expire(now int64, l *Limits) {
	for range forgetAtOnce {
		e := t.age.Front()
		if e == nil || !e.Value.(*Session).over(now, l) {
			return
		}
		t.forget(e.Value.(*Session))
	}
}

// load takes a session's row in. Sessions come in any order; loaded ends them.
func (t *sessions) load(id engine.Session, row []byte, l *Limits) error {
	s, err := sessionOf(id, row, l)
	if err != nil {
		return err
	}
	t.ByID[id] = s
	return nil
}

// loaded ends the rows of load: waiting is who waits for something, once for each.
func (t *sessions) loaded(waiting []engine.Session) {
	for _, id := range waiting {
		if s := t.ByID[id]; s != nil {
			s.Waits++
		}
	}
	all := slices.Collect(maps.Values(t.ByID))
	slices.SortFunc(all, func(a, b *Session) int { return cmp.Compare(a.last, b.last) })
	for _, s := range all {
		if s.Waits == 0 {
			s.place = t.age.PushBack(s)
		}
	}
}

// lasting answers the rows of the sessions that count at an instant, by their ids.
func (t *sessions) lasting(now int64, l *Limits) (rows []byte) {
	ids := slices.SortedFunc(maps.Keys(t.ByID), func(a, b engine.Session) int { return slices.Compare(a[:], b[:]) })
	for _, id := range ids {
		if s := t.ByID[id]; !s.over(now, l) {
			row := s.row()
			rows = binary.AppendUvarint(append(rows, id[:]...), uint64(len(row)))
			rows = append(rows, row...)
		}
	}
	return rows
}
