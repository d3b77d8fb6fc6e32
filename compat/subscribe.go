package compat

import (
	"slices"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	pb "github.com/pathlockd/pathlockd/compat/pathlockdv1"
	"github.com/pathlockd/pathlockd/wire"
)

// errLeaving is what open streams are ended with when the node stops.
var errLeaving = status.Error(codes.Unavailable, "the node is shutting down; subscribe again, here or at another one")

// Subscribe implements the RPC.
func (s *Service) Subscribe(in *pb.SubscribeRequest, stream grpc.ServerStreamingServer[pb.Event]) error {
	sub, q, err := s.subscription(in)
	if err != nil {
		return err
	}
	from, refused := s.b.handler.Subscribe(sub)
	if refused != nil {
		return statusOf(refused)
	}
	defer func() {
		s.b.handler.Unsubscribe(sub)
		q.take()
	}()
	if q.cursor == nil {
		q.cursor = from
	}
	// Whoever sees the headers knows that nothing from here on is missed.
	if err := stream.SendHeader(metadata.MD{}); err != nil {
		return err
	}
	for {
		select {
		case <-q.more:
		case <-stream.Context().Done():
			return status.FromContextError(stream.Context().Err()).Err()
		case <-s.b.leaving:
			return errLeaving
		}
		items, cut := q.take()
		for i := range items {
			e, err := q.event(&items[i])
			if err != nil {
				return err
			}
			if e == nil {
				continue
			}
			if err := stream.Send(e); err != nil {
				return err
			}
		}
		if cut {
			return status.Errorf(codes.ResourceExhausted,
				"events were not read fast enough (at most %d wait for a subscriber): subscribe again, with the "+
					"cursor of the last one to miss nothing", q.limit)
		}
	}
}

// eventTypes are the types of events and their kinds.
var eventTypes = map[pb.EventType]wire.EventKind{
	pb.EventType_EVENT_TYPE_KILLED: wire.EventKilled, pb.EventType_EVENT_TYPE_REVOKE: wire.EventRevoke,
	pb.EventType_EVENT_TYPE_GRANT: wire.EventGrant, pb.EventType_EVENT_TYPE_EXPIRED: wire.EventExpired,
}

// TypeOf is the type that events of a kind have in this interface.
func TypeOf(k wire.EventKind) pb.EventType {
	for t, kind := range eventTypes {
		if kind == k {
			return t
		}
	}
	return pb.EventType_EVENT_TYPE_UNSPECIFIED
}

// subscription converts a wish to subscribe.
func (s *Service) subscription(in *pb.SubscribeRequest) (*wire.Subscription, *eventQueue, error) {
	q := &eventQueue{owner: in.OwnerId, limit: s.opt.EventBacklog, all: &s.backlog, more: make(chan struct{}, 1)}
	sub := &wire.Subscription{Owner: in.OwnerId, Number: s.b.lastSub.Add(1), Sink: q}
	for _, t := range in.Types {
		kind, known := eventTypes[t]
		switch {
		case known:
			sub.Kinds |= 1 << kind
		case t == pb.EventType_EVENT_TYPE_GAP:
			q.gaps = true
		case t == pb.EventType_EVENT_TYPE_PROGRESS:
			q.progress = true
		default:
			return nil, nil, invalid("types %d: is no type to be told of", t)
		}
	}
	if len(in.Cursor) > 0 {
		from, err := wire.DecodePositions(in.Cursor)
		if err != nil {
			return nil, nil, invalid("cursor: is not one that an event carried: %v", err)
		}
		sub.From, q.cursor, q.gaps = from, slices.Clone(from), true
	}
	check := wire.Request{Op: wire.OpSubscribe, Owner: sub.Owner, Kinds: sub.Kinds, Positions: sub.From}
	if err := check.Validate(); err != nil {
		return nil, nil, statusOf(err)
	}
	return sub, q, nil
}

const (
	// maxBacklog is how many events all subscribers of a node together may leave
	// unread; over it those are cut off that have more than fairBacklog of them.
	maxBacklog  = 1 << 18
	fairBacklog = 64
)

// eventQueue holds the events of one subscription until its stream has sent them.
// The handler's goroutines put in, without waiting; the stream's takes out.
type eventQueue struct {
	owner    string
	limit    int           // items; over it the subscriber is cut off
	all      *atomic.Int64 // items of all subscribers
	gaps     bool          // tell of missed events; else they end the stream
	progress bool          // tell where the cursor is when there is no event

	more chan struct{} // has room for one: something was put in

	mu struct {
		sync.Mutex
		items []queuedEvent
		cut   bool // an event had no room: nothing follows
	}

	cursor []wire.Position // after the last item taken; the stream's own
}

// queuedEvent is an event, or a cursor.
type queuedEvent struct {
	kind      pb.EventType
	path      string
	namespace string
	token     int64
	at        wire.Position
	cursor    []wire.Position // of a gap, and of progress
}

// Deliver implements wire.EventSink.
func (q *eventQueue) Deliver(_ *wire.Subscription, kind wire.EventKind, path, namespace string, token int64,
	at wire.Position) {
	q.put(queuedEvent{kind: TypeOf(kind), path: path, namespace: namespace, token: token, at: at})
}

// Progress implements wire.EventSink.
func (q *eventQueue) Progress(_ *wire.Subscription, cursor []wire.Position) {
	q.put(queuedEvent{kind: pb.EventType_EVENT_TYPE_PROGRESS, cursor: cursor})
}

// Gap implements wire.EventSink.
func (q *eventQueue) Gap(_ *wire.Subscription, cursor []wire.Position) {
	q.put(queuedEvent{kind: pb.EventType_EVENT_TYPE_GAP, cursor: cursor})
}

// put adds an item. Progress that finds progress last takes its place, so that what
// is no event does not fill the queue.
func (q *eventQueue) put(e queuedEvent) {
	q.mu.Lock()
	n := len(q.mu.items)
	switch {
	case q.mu.cut:
	case e.kind == pb.EventType_EVENT_TYPE_PROGRESS && n > 0 && q.mu.items[n-1].kind == e.kind:
		q.mu.items[n-1] = e
	case n >= q.limit, n >= fairBacklog && q.all.Load() >= maxBacklog:
		q.mu.cut = e.kind != pb.EventType_EVENT_TYPE_PROGRESS
	default:
		q.mu.items = append(q.mu.items, e)
		q.all.Add(1)
	}
	q.mu.Unlock()
	select {
	case q.more <- struct{}{}:
	default:
	}
}

// take empties the queue, and says whether something had no room in it.
func (q *eventQueue) take() (items []queuedEvent, cut bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	items, q.mu.items = q.mu.items, nil
	q.all.Add(-int64(len(items)))
	return items, q.mu.cut
}

// event is what the subscriber is told of an item, nil when that is nothing.
func (q *eventQueue) event(i *queuedEvent) (*pb.Event, error) {
	q.advance(i)
	switch {
	case i.kind == pb.EventType_EVENT_TYPE_PROGRESS && !q.progress:
		return nil, nil
	case i.kind == pb.EventType_EVENT_TYPE_GAP && !q.gaps:
		return nil, status.Error(codes.DataLoss,
			"events were missed: subscribe again, and look at what may have changed")
	}
	return &pb.Event{
		Type: i.kind, OwnerId: q.owner, Path: i.path, Namespace: i.namespace, FencingToken: i.token,
		Cursor: wire.AppendPositions(nil, q.cursor),
	}, nil
}

// advance moves the cursor behind an item.
func (q *eventQueue) advance(i *queuedEvent) {
	if i.cursor != nil {
		q.cursor = slices.Clone(i.cursor)
		return
	}
	for k := range q.cursor {
		if q.cursor[k].Log == i.at.Log {
			q.cursor[k] = i.at
			return
		}
	}
	q.cursor = append(q.cursor, i.at)
}
