package wire

import (
	"encoding/binary"

	"github.com/zeebo/xxh3"
)

// PushKind is what a frame is about that answers no request: [0, kind, …].
type PushKind uint8

// Kinds of push. A client ignores those it does not know.
const (
	PushQueued   PushKind = 1 // a waiting acquire took its place in the queue
	PushEvent    PushKind = 2 // something happened to a subscribed owner
	PushProgress PushKind = 3 // a subscription's cursor moved on without an event
	PushGap      PushKind = 4 // a subscription missed events
	PushTopology PushKind = 5 // the topology changed, for those who watch it
	PushGoodbye  PushKind = 6 // the server is about to close the connection
	PushLease    PushKind = 7 // something happened to a lease that is tied to the session, for those who want it
)

// Queued tells where a waiting acquire stands: once, when it is enqueued.
type Queued struct {
	ID     uint64 // the request it is about
	Result Result // status QUEUED, as a polled acquire would have been answered
}

// AppendQueued appends a PushQueued frame. Its fields after the id are those of
// an acquire's reply.
func AppendQueued(dst []byte, q *Queued) []byte {
	dst, from := beginFrame(dst)
	results := specs[OpAcquire].Results
	dst = AppendArray(dst, 3+len(results))
	dst = AppendUint(dst, 0)
	dst = AppendUint(dst, uint64(PushQueued))
	dst = AppendUint(dst, q.ID)
	for _, f := range results {
		dst = q.Result.append(dst, f.slot)
	}
	return endFrame(dst, from)
}

// Decode reads a PushQueued after its head.
func (q *Queued) Decode(r *Reader, fields int) error {
	*q = Queued{}
	if fields > 0 {
		q.ID = r.Uint()
	}
	return q.Result.Decode(OpAcquire, OK, r, fields-1)
}

// Event is one thing that happened to an owner.
type Event struct {
	Subscription uint64
	Number       uint64 // counts the events of the subscription, from 1
	Kind         EventKind
	Owner        string
	Path         string // the path granted, or that of a wait that was ended (the first of several), else ""
	Namespace    string // "" when it is about all namespaces
	Token        int64  // of a grant
	At           Position
}

// AppendEvent appends a PushEvent frame.
func AppendEvent(dst []byte, e *Event) []byte {
	dst, from := beginFrame(dst)
	dst = AppendArray(dst, 10)
	dst = AppendUint(dst, 0)
	dst = AppendUint(dst, uint64(PushEvent))
	dst = AppendUint(dst, e.Subscription)
	dst = AppendUint(dst, e.Number)
	dst = AppendUint(dst, uint64(e.Kind))
	dst = AppendStr(dst, e.Owner)
	dst = AppendStr(dst, e.Path)
	dst = AppendStr(dst, e.Namespace)
	dst = AppendInt(dst, e.Token)
	dst = appendPosition(dst, e.At)
	return endFrame(dst, from)
}

// Decode reads a PushEvent after its head.
func (e *Event) Decode(r *Reader, fields int) error {
	*e = Event{}
	for i := range fields {
		switch i {
		case 0:
			e.Subscription = r.Uint()
		case 1:
			e.Number = r.Uint()
		case 2:
			e.Kind = EventKind(r.enum())
		case 3:
			e.Owner = r.Str()
		case 4:
			e.Path = r.Str()
		case 5:
			e.Namespace = r.Str()
		case 6:
			e.Token = r.Int()
		case 7:
			e.At = r.position()
		default:
			r.Skip()
		}
	}
	return r.err
}

// Progress is a subscription's whole cursor, now. As a PushGap it is where the
// subscription goes on after events were missed.
type Progress struct {
	Subscription uint64
	Cursor       []Position
}

// AppendProgress appends a PushProgress or PushGap frame.
func AppendProgress(dst []byte, kind PushKind, p *Progress) []byte {
	dst, from := beginFrame(dst)
	dst = AppendArray(dst, 4)
	dst = AppendUint(dst, 0)
	dst = AppendUint(dst, uint64(kind))
	dst = AppendUint(dst, p.Subscription)
	return endFrame(appendPositions(dst, p.Cursor), from)
}

// Decode reads a PushProgress or PushGap after its head.
func (p *Progress) Decode(r *Reader, fields int) error {
	*p = Progress{}
	for i := range fields {
		switch i {
		case 0:
			p.Subscription = r.Uint()
		case 1:
			p.Cursor = r.positions(nil, r.Array())
		default:
			r.Skip()
		}
	}
	return r.err
}

// AppendTopology appends a PushTopology frame.
func AppendTopology(dst []byte, t *Topology) []byte {
	dst, from := beginFrame(dst)
	dst = AppendArray(dst, 3)
	dst = AppendUint(dst, 0)
	dst = AppendUint(dst, uint64(PushTopology))
	return endFrame(appendTopology(dst, t), from)
}

// DecodeTopology reads a PushTopology after its head.
func DecodeTopology(r *Reader, fields int) (*Topology, error) {
	if fields < 1 {
		return new(Topology), r.err
	}
	t := r.topology()
	return t, r.err
}

// AppendGoodbye appends a PushGoodbye frame: why the server will close the
// connection.
func AppendGoodbye(dst []byte, e *Error) []byte {
	dst, from := beginFrame(dst)
	dst = AppendArray(dst, 4)
	dst = AppendUint(dst, 0)
	dst = AppendUint(dst, uint64(PushGoodbye))
	dst = AppendUint(dst, uint64(e.Code))
	return endFrame(AppendStr(dst, e.Message), from)
}

// DecodeGoodbye reads a PushGoodbye after its head.
func DecodeGoodbye(r *Reader, fields int) (*Error, error) {
	e := new(Error)
	if fields > 0 {
		e.Code = Code(r.enum())
	}
	if fields > 1 {
		e.Message = r.Str()
	}
	return e, r.err
}

// LeaseEvent is what happened to a lease that is tied to a session: KILLED or EXPIRED when it ended
// without its owner's doing, REVOKE when its owner is asked to let go.
type LeaseEvent struct {
	Kind      EventKind // 0: some may have been missed, of any lease of the session
	Owner     string
	Namespace string
	// Acquires are the marks (AcquireMark) of those that took or named what was held: all of them
	// when they are no more than MaxLeaseAcquires. Who knows an acquire by its mark knows that this
	// is about what it got, and not about what the owner has taken since.
	Acquires []uint64
}

// MaxLeaseAcquires is how many acquires a LeaseEvent names.
const MaxLeaseAcquires = 64

// AcquireMark names an acquire of a session for all who share its owner.
func AcquireMark(session [SessionBytes]byte, id uint64) uint64 {
	var b [SessionBytes + 8]byte
	copy(b[:], session[:])
	binary.BigEndian.PutUint64(b[SessionBytes:], id)
	return max(xxh3.Hash(b[:]), 1)
}

// AppendLeaseEvent appends a PushLease frame.
func AppendLeaseEvent(dst []byte, e *LeaseEvent) []byte {
	dst, from := beginFrame(dst)
	dst = AppendArray(dst, 6)
	dst = AppendUint(dst, 0)
	dst = AppendUint(dst, uint64(PushLease))
	dst = AppendUint(dst, uint64(e.Kind))
	dst = AppendStr(dst, e.Owner)
	dst = AppendStr(dst, e.Namespace)
	dst = AppendArray(dst, len(e.Acquires))
	for _, mark := range e.Acquires {
		dst = AppendUint(dst, mark)
	}
	return endFrame(dst, from)
}

// Decode reads a PushLease after its head. Acquires beyond MaxLeaseAcquires are passed over.
func (e *LeaseEvent) Decode(r *Reader, fields int) error {
	*e = LeaseEvent{}
	for i := range fields {
		switch i {
		case 0:
			e.Kind = EventKind(r.enum())
		case 1:
			e.Owner = r.Str()
		case 2:
			e.Namespace = r.Str()
		case 3:
			for n := r.Array(); n > 0 && r.err == nil; n-- {
				if mark := r.Uint(); len(e.Acquires) < MaxLeaseAcquires {
					e.Acquires = append(e.Acquires, mark)
				}
			}
		default:
			r.Skip()
		}
	}
	return r.err
}
