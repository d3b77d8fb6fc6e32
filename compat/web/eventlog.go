package web

import (
	"errors"
	"fmt"
	"hash/maphash"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/pathlockd/pathlockd/wire"
)

const (
	// keepFor is how long an event is kept for who reconnects (contract.md section 12).
	keepFor = 60 * time.Second
	// liveEvents is how many events of an owner are kept at the least for the readers
	// that are attached: capacity, when smaller, only bounds what a new reader gets.
	liveEvents = 256
	// maxKeptBytes bounds what the events of all owners take. Over it the oldest of all
	// are dropped, whoever's they are; a reader that has not had them is told.
	maxKeptBytes = 64 << 20
	// eventCost and ownerCost are what an event and an owner take, bytes; an owner's
	// name comes on top.
	eventCost, ownerCost = 80, 256
	// expirePerAdd is how many events that are over their time are dropped by each Add:
	// more than it adds, so that they go, and few, so that it stays cheap.
	expirePerAdd = 4
	// walkStep is how many events are walked over without letting others in.
	walkStep = 4096
	// floors is how many numbers are kept of owners that were forgotten.
	floors = 4096

	// maxReaders bounds the event streams of all connections, maxReadersConn those of
	// one, and maxReadersOwner those that listen to one owner, since each of its events
	// wakes them all. Over them a stream is refused with RESOURCE_EXHAUSTED.
	maxReaders, maxReadersConn, maxReadersOwner = 4096, 128, 256
)

// EventLog keeps the last events of each owner for event streams. It lives in memory
// and belongs to one node.
//
// What is promised of ids: those of an owner grow by one from event to event; no id is
// given twice to an owner, in no run of the node. The first of an owner is not always
// first + 1: an owner that had no event for keepFor and no reader is forgotten, and
// who comes after it under the same of floors hash values goes on behind its last id.
// So a reader that comes back with an id is told of every event after it, or that
// there is a gap; a gap may be told where nothing was missed, never the other way. A
// run has room for 2^32 ids under each hash value. With less than 2^21 runs they stay
// below 2^53, and so exact in JavaScript.
//
// There is one lock, which is held for steps of a bounded number of events. Nothing
// runs in the background: events go when their time is over and something is done
// with the log, and what is left when nothing is done is within maxKeptBytes.
type EventLog struct {
	capacity uint64 // of an owner, for a new reader
	maxBytes int64
	beat     time.Duration // silence after which a stream says that it lives
	now      func() time.Duration
	seed     maphash.Seed

	mu struct {
		sync.Mutex
		owners         map[string]*ownerLog
		oldest, newest *kept // of all owners, by age
		bytes          int64
		floor          [floors]uint64 // by hash: no id up to this is given any more
		readers        int
		perConn        map[any]int
	}
}

// ownerLog is what is kept of one owner.
type ownerLog struct {
	name        string
	first, last *kept
	count       uint64 // from first to last
	lastID      uint64 // of the last event, kept or not
	readers     []*reader
}

// kept is an event.
type kept struct {
	id           uint64
	kind         wire.EventKind
	at           time.Duration
	owner        *ownerLog // nil once it was dropped
	next         *kept     // of the owner
	older, newer *kept     // of all owners
}

// NewEventLog makes a log that keeps capacity events of each owner. first is the id
// before the first one of this run of the node: the number of runs before it times
// 2^32, so that the ids of another run are known for such. The very first run counts
// from 1.
func NewEventLog(capacity int, first uint64) *EventLog {
	start := time.Now()
	l := &EventLog{
		capacity: uint64(max(capacity, 1)), maxBytes: maxKeptBytes, beat: 15 * time.Second,
		now: func() time.Duration { return time.Since(start) }, seed: maphash.MakeSeed(),
	}
	l.mu.owners, l.mu.perConn = make(map[string]*ownerLog), make(map[any]int)
	for i := range l.mu.floor {
		l.mu.floor[i] = first
	}
	return l
}

// Add keeps an event and wakes its readers. It never waits for a reader. Kinds that
// event streams do not have are left out.
func (l *EventLog) Add(owner string, kind wire.EventKind) {
	if kind == 0 || int(kind) >= len(eventTypes) {
		return
	}
	now := l.now()
	l.mu.Lock()
	defer l.mu.Unlock()
	o := l.owner(owner)
	o.lastID++
	k := &kept{id: o.lastID, kind: kind, at: now, owner: o, older: l.mu.newest}
	if o.last != nil {
		o.last.next = k
	} else {
		o.first = k
	}
	o.last = k
	o.count++
	if k.older != nil {
		k.older.newer = k
	} else {
		l.mu.oldest = k
	}
	l.mu.newest = k
	l.mu.bytes += eventCost
	for _, r := range o.readers {
		r.wake()
	}
	if o.count > max(l.capacity, liveEvents) {
		l.drop(o.first)
	}
	for l.mu.bytes > l.maxBytes && l.mu.oldest != nil {
		l.drop(l.mu.oldest)
	}
	for range expirePerAdd {
		if old := l.mu.oldest; old == nil || now-old.at < keepFor {
			break
		}
		l.drop(l.mu.oldest)
	}
}

// Miss notes that the node did not see some events, nobody knows whose: it was given a
// later state instead of what led there. Every reader is told, now or when it comes
// back. It takes as long as much is kept.
func (l *EventLog) Miss() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.mu.floor {
		l.mu.floor[i]++ // the number of what is missing
	}
	for _, o := range l.mu.owners {
		o.lastID++
		for o.first != nil {
			l.drop(o.first)
		}
		for _, r := range o.readers {
			r.wake()
		}
	}
}

// owner answers an owner's log, made when there is none.
func (l *EventLog) owner(name string) *ownerLog {
	o := l.mu.owners[name]
	if o == nil {
		name = strings.Clone(name) // it may be part of something large
		o = &ownerLog{name: name, lastID: l.mu.floor[l.bucket(name)]}
		l.mu.owners[name] = o
		l.mu.bytes += ownerCost + int64(len(name))
	}
	return o
}

func (l *EventLog) bucket(owner string) uint64 { return maphash.String(l.seed, owner) % floors }

// drop forgets an event, which is the first that is kept of its owner.
func (l *EventLog) drop(k *kept) {
	o := k.owner
	o.first = k.next
	if o.first == nil {
		o.last = nil
	}
	o.count--
	if k.older != nil {
		k.older.newer = k.newer
	} else {
		l.mu.oldest = k.newer
	}
	if k.newer != nil {
		k.newer.older = k.older
	} else {
		l.mu.newest = k.older
	}
	*k = kept{id: k.id} // a reader that still has it must not keep what came after it
	l.mu.bytes -= eventCost
	l.forget(o)
}

// forget lets go of an owner of whom nothing is kept and to whom nobody listens.
func (l *EventLog) forget(o *ownerLog) {
	if o.count > 0 || len(o.readers) > 0 {
		return
	}
	delete(l.mu.owners, o.name)
	l.mu.bytes -= ownerCost + int64(len(o.name))
	floor := &l.mu.floor[l.bucket(o.name)]
	*floor = max(*floor, o.lastID)
}

// reader is one event stream's place in the log.
type reader struct {
	log   *EventLog
	owner *ownerLog
	conn  any
	more  chan struct{} // has room for one: an event was added

	// The following are guarded by the log's lock.
	last uint64 // id of the last event that was taken, or need not be
	at   *kept  // walked up to here, perhaps dropped meanwhile; nil: nothing yet
}

func (r *reader) wake() {
	select {
	case r.more <- struct{}{}:
	default:
	}
}

// gap is what a new reader misses: the events between the id that it has and the
// first that it gets.
type gap struct{ after, next uint64 }

// attach adds a reader of an owner's events, which belongs to a connection. It starts
// behind the newest, or, with resume, behind the id after; if what follows that is not
// all kept, or it is no id of this log, what is kept is delivered and the gap told.
func (l *EventLog) attach(conn any, owner string, resume bool, after uint64) (*reader, *gap, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.mu.readers >= maxReaders:
		return nil, nil, tooManyReaders("the node", maxReaders)
	case l.mu.perConn[conn] >= maxReadersConn:
		return nil, nil, tooManyReaders("the connection", maxReadersConn)
	}
	o := l.owner(owner)
	if len(o.readers) >= maxReadersOwner {
		return nil, nil, tooManyReaders("the owner", maxReadersOwner)
	}
	r := &reader{log: l, owner: o, conn: conn, more: make(chan struct{}, 1), last: o.lastID}
	o.readers = append(o.readers, r)
	l.mu.readers++
	l.mu.perConn[conn]++
	if !resume {
		return r, nil, nil
	}
	l.expire(o)
	// What is kept of the owner are the last ids, without a hole.
	r.last = o.lastID - min(o.count, l.capacity)
	if after >= r.last && after <= o.lastID {
		r.last = after
		return r, nil, nil
	}
	return r, &gap{after: after, next: r.last + 1}, nil
}

// expire drops what is kept of an owner and over its time. It lets others in between
// steps.
func (l *EventLog) expire(o *ownerLog) {
	now := l.now()
	for i := 1; o.first != nil && now-o.first.at >= keepFor; i++ {
		l.drop(o.first)
		if i%walkStep == 0 {
			l.mu.Unlock()
			l.mu.Lock()
		}
	}
}

func tooManyReaders(of string, most int) error {
	return &refusal{code: codes.ResourceExhausted,
		why: fmt.Sprintf("%s has %d event streams open, and may have no more", of, most)}
}

// detach ends a reader.
func (r *reader) detach() {
	l, o := r.log, r.owner
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, other := range o.readers {
		if other == r {
			n := len(o.readers) - 1
			o.readers[i], o.readers[n] = o.readers[n], nil
			o.readers = o.readers[:n]
			break
		}
	}
	l.mu.readers--
	if l.mu.perConn[r.conn]--; l.mu.perConn[r.conn] == 0 {
		delete(l.mu.perConn, r.conn)
	}
	l.forget(o)
}

// errBehind ends a reader that did not take its events while they were kept, or whose
// events the node missed.
var errBehind = errors.New("behind")

// take appends the next events, as many as there is room for. It fails when the next
// one has been dropped. When there are more, it has woken the reader.
func (r *reader) take(into []event) ([]event, error) {
	r.log.mu.Lock()
	defer r.log.mu.Unlock()
	for range walkStep {
		k := r.owner.first
		if r.at != nil && r.at.owner != nil {
			k = r.at.next
		}
		if k == nil || len(into) == cap(into) {
			break
		}
		if k.id > r.last {
			if k.id != r.last+1 {
				return into, errBehind
			}
			into = append(into, event{id: k.id, kind: k.kind})
			r.last = k.id
		}
		r.at = k
	}
	if r.last != r.owner.lastID {
		if r.owner.count == 0 || r.owner.first.id > r.last+1 {
			return into, errBehind
		}
		r.wake()
	}
	return into, nil
}

// event is what a reader gets.
type event struct {
	id   uint64
	kind wire.EventKind
}
