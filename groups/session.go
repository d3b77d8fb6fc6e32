package groups

import (
	"bytes"
	"cmp"
	"container/list"
	"encoding/binary"
	"maps"
	"slices"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/wire"
)

// How a repeat is told from a new request.
//
// A client whose connection broke cannot know which of its unanswered requests
// were carried out. It asks them again, with their ids, on its next connection.
// So each log keeps, for each session, the answers to its last requests in that
// log: as many as the session may have unanswered at once. More are never needed:
// answers travel in the order they were given, so a client that has not seen an
// answer has not seen any later one either, and has stopped asking at its window.
// A request that is carried out in steps has an answer for each, which count as one.
//
// Nodes repeat too, when they do not know whether a command that they forwarded was
// carried out (forward.go). And a client that goes to another node leaves copies of its
// requests behind: each session's connections are counted, and what comes from an earlier
// one than the latest that was seen is not carried out any more.
//
// What is kept here is a function of the log. It belongs to the log and not to
// one of its groups, as a session's window spans them.

const (
	// RepeatMillis is how long a session that asks nothing is remembered.
	RepeatMillis = 60_000
	// MaxWindow is the most answers kept for a session in one log.
	MaxWindow = 1024
	// maxSessions is how many sessions one log remembers; over it the one that has
	// been silent longest is forgotten, and its repeats would be carried out anew.
	maxSessions = 65_536
	// maxSteps is how many answers one log keeps for a session beyond its window, for
	// requests of many steps; over it the oldest requests are forgotten.
	maxSteps = 4096
)

// session is what one log remembers of a client's session.
type session struct {
	id      engine.Session
	last    int64  // lease clock of its last command, ms
	epoch   uint64 // the latest of its connections that was seen
	highest uint64
	window  int
	ring    []request // the oldest at next once it is full
	next    int
	more    int  // answers in ring that are not the first of their request
	dirty   bool // differs from its row
	place   *list.Element
}

// request is the answers to one request.
type request struct {
	answered
	more []answered // to its other steps
}

// find answers what was answered to a part of request id, nil when that is not
// known.
func (s *session) find(id, sub uint64) *answered {
	if id > s.highest {
		return nil
	}
	for i := range s.ring {
		r := &s.ring[i]
		if r.id != id {
			continue
		}
		if r.sub == sub {
			return &r.answered
		}
		for i := range r.more {
			if r.more[i].sub == sub {
				return &r.more[i]
			}
		}
		return nil
	}
	return nil
}

// add remembers an answer, over the one it has for that id if there is one.
func (s *session) add(a answered) {
	s.dirty = true
	if old := s.find(a.id, a.sub); old != nil {
		*old = a
		return
	}
	if a.sub != 0 && a.id <= s.highest {
		for i := range s.ring {
			if s.ring[i].id == a.id {
				s.ring[i].more = append(s.ring[i].more, a)
				s.more++
				s.trim(a.id)
				return
			}
		}
	}
	s.highest = max(s.highest, a.id)
	if len(s.ring) < s.window {
		s.ring = append(s.ring, request{answered: a})
		return
	}
	s.more -= len(s.ring[s.next].more)
	s.ring[s.next] = request{answered: a}
	s.next = (s.next + 1) % len(s.ring)
}

// trim forgets the oldest requests, but not one of them, while there are too many
// answers.
func (s *session) trim(but uint64) {
	if s.more <= maxSteps {
		return
	}
	s.unroll()
	for s.more > maxSteps && s.ring[0].id != but {
		s.more -= len(s.ring[0].more)
		s.ring = s.ring[1:]
	}
}

// unroll puts the oldest request at the ring's start.
func (s *session) unroll() {
	s.ring = append(append([]request(nil), s.ring[s.next:]...), s.ring[:s.next]...)
	s.next = 0
}

// resize gives the session another window.
func (s *session) resize(window int) {
	if window <= s.window {
		return
	}
	s.unroll() // so that it can grow at its end
	s.window = window
}

// row is the session as it is kept on disk.
func (s *session) row(dst []byte) []byte {
	dst = binary.AppendVarint(dst, s.last)
	dst = binary.AppendUvarint(dst, uint64(s.window))
	dst = binary.AppendUvarint(dst, uint64(len(s.ring)+s.more))
	for i := range s.ring {
		r := &s.ring[(s.next+i)%len(s.ring)]
		dst = r.answered.append(dst)
		for i := range r.more {
			dst = r.more[i].append(dst)
		}
	}
	dst = binary.AppendUvarint(dst, s.epoch)
	at := uint64(0)
	for i := range s.ring {
		r := &s.ring[(s.next+i)%len(s.ring)]
		dst, at = r.answered.appendNothing(dst, at), at+1
		for i := range r.more {
			dst, at = r.more[i].appendNothing(dst, at), at+1
		}
	}
	return dst
}

// sessions is every session of a log.
type sessions struct {
	byID map[engine.Session]*session
	age  list.List // of *session, the longest silent first
	gone []engine.Session
}

func newSessions() *sessions { return &sessions{byID: make(map[engine.Session]*session)} }

// use answers the session of a command, made if it is new.
func (t *sessions) use(ref *sessionRef, now int64) *session {
	s := t.byID[ref.id]
	if s == nil {
		if len(t.byID) >= maxSessions {
			t.forget(t.oldest())
		}
		s = &session{id: ref.id}
		s.place = t.age.PushBack(s)
		t.byID[ref.id] = s
	}
	s.resize(windowOf(ref.window))
	if ref.epoch > s.epoch {
		s.epoch, s.dirty = ref.epoch, true
	}
	if s.last != now {
		s.last = now
		t.age.MoveToBack(s.place)
	}
	return s
}

// oldest is the session silent for longest; of several the one with the lowest
// id, so that it does not depend on the order in which a replica came to know them.
func (t *sessions) oldest() *session {
	first := t.age.Front().Value.(*session)
	for e := t.age.Front().Next(); e != nil; e = e.Next() {
		s := e.Value.(*session)
		if s.last != first.last {
			break
		}
		if bytes.Compare(s.id[:], first.id[:]) < 0 {
			first = s
		}
	}
	return first
}

// windowOf bounds what a client said of itself.
func windowOf(window int) int {
	if window <= 0 || window > MaxWindow {
		return MaxWindow
	}
	return window
}

func (t *sessions) forget(s *session) {
	t.age.Remove(s.place)
	delete(t.byID, s.id)
	t.gone = append(t.gone, s.id)
}

// expire forgets the sessions that were silent for too long.
func (t *sessions) expire(now int64) {
	for e := t.age.Front(); e != nil; e = t.age.Front() {
		s := e.Value.(*session)
		if s.last+RepeatMillis > now {
			return
		}
		t.forget(s)
	}
}

// loaded ends the rows of load.
func (t *sessions) loaded() {
	all := slices.Collect(maps.Values(t.byID))
	slices.SortFunc(all, func(a, b *session) int { return cmp.Compare(a.last, b.last) })
	for _, s := range all {
		s.place = t.age.PushBack(s)
	}
}

// load takes a session's row in. Sessions come in any order; loaded ends them.
func (t *sessions) load(id engine.Session, row []byte) error {
	r := entryReader{buf: row}
	s := &session{id: id, last: r.varint(), window: windowOf(int(r.uvarint()))}
	var all []answered
	for n := r.uvarint(); n > 0 && r.err == nil; n-- {
		a := answered{id: r.uvarint(), sub: r.uvarint()}
		if b := r.bytes(4); b != nil {
			a.hash = binary.BigEndian.Uint32(b)
		}
		a.op, a.status, a.token = wire.Op(r.byte()), wire.Status(r.byte()), r.varint()
		all = append(all, a)
	}
	if len(r.buf) > 0 { // what an earlier build wrote ends here
		s.epoch = r.uvarint()
	}
	for len(r.buf) > 0 && r.err == nil {
		at, code, reason := r.uvarint(), wire.Code(r.byte()), wire.Reason(r.byte())
		if at >= uint64(len(all)) {
			return errEntry
		}
		all[at].code, all[at].reason = code, reason
	}
	for _, a := range all {
		s.add(a)
	}
	s.dirty = false
	t.byID[id] = s
	return r.err
}
