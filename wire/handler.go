package wire

import "sync/atomic"

// Handler carries out operations. There is one, and every face (the native
// server, gRPC, JSON) enters through it with the same operations.
type Handler interface {
	// Serve takes calls whose Req is decoded and validated, in the order they
	// arrived on their session, and answers each exactly once through its To,
	// from any goroutine, possibly before Serve returns. It never blocks.
	//
	// A call's Req and its slices may be reused as soon as Serve returns. Its
	// strings, and Body, stay the call's own until it is answered.
	Serve(calls []*Call)

	// Cancel ends the waiting acquire that session s asked under id, if it still
	// waits: its call is then answered CANCELLED. A grant that came first stands, and its
	// call is answered OK, perhaps before Cancel was called.
	//
	// Who does not want it any more takes it back with a release of the same paths in the
	// same session whose granted_by (Request.Target) is id. It gives back what that request
	// took or named and no other request relies on, ends the wait if there still is one, and is carried
	// out after the request whatever became of that. So it may be asked at any time, also
	// in place of Cancel, and asked again.
	Cancel(s *Session, id uint64)

	// Closed says that the connection of s is gone. What it waits for is cancelled: after its
	// grace if it is bound, or later if the session went on on another connection, which
	// will ask again (resumed). Leases tied to the connection, if there can be any
	// (tied), shrink to their grace. Where calls other than waits are not answered by then, it is
	// said again when they are: what they tied may have come after the first time.
	Closed(s *Session, tied, resumed bool)

	// Subscribe starts to deliver the events of sub.Owner after sub.From, or from
	// now on when it is nil, and answers where the subscription starts. What came
	// before is delivered by the caller's own goroutine, before Subscribe returns.
	Subscribe(sub *Subscription) ([]Position, *Error)

	// Unsubscribe ends it: Sink is not called again once this returned.
	Unsubscribe(sub *Subscription)

	// Tell has tell called with what happens to the leases that are tied to a session, whichever node
	// caused it, until the returned function is called, and not again once that returned. tell must
	// not block, nor keep what it is called with.
	Tell(id [SessionBytes]byte, tell func(*LeaseEvent)) (stop func())

	// Topology answers who leads what. When watch is not nil it is called, without
	// blocking, with each later topology, until the returned function is called.
	Topology(watch func(*Topology)) (*Topology, func())
}

// Call is one request on its way through the server.
type Call struct {
	ID      uint64   // request id on its session
	Settled uint64   // below it the client has all answers of the session, 0: says nothing
	Again   bool     // the session asked under this id, or a higher one, on this connection before
	Op      Op       //
	NArgs   int      // number of arguments in Body
	Body    []byte   // encoded arguments, as a replicated entry carries them
	Req     *Request // decoded, while Serve runs
	Session *Session // whose it is; never nil
	Bound   bool     // the lease is to be tied to the session's connection
	Grace   uint64   // ms, when Bound
	To      Replier  // who is told
	Res     Result   // the answer

	// Turns are those of the call's connection if it lists (AnswerOf), nil: there is no bound. A handler that gathers
	// the answer has a turn before, once nothing but the gathering is left to do. If it answers with what it gathered
	// it says so, Turn, and its face has the turn back with the call; else it gives the turn back itself, before it
	// answers.
	Turns *Turns
	Turn  bool

	// Ctl is the handler's own; a face that reuses a Call leaves it alone.
	Ctl any
	// Ctx is the face's own.
	Ctx any
}

// Turns bound how many long answers of one connection are in memory.
type Turns struct {
	Free    chan struct{}   // a turn is received, and sent back; it has room for all there are
	Gone    <-chan struct{} // closed once the connection is: nobody waits for the answers
	Waiting atomic.Int32    // how many calls wait for a turn
}

// Replier is told what became of calls. Its methods never block.
type Replier interface {
	// Reply hands back a call whose Res is set. It may be held back until Flush.
	Reply(c *Call)
	// Queued tells once that a waiting acquire took its place, with the result a
	// polled one would have had. The call itself is answered later.
	Queued(c *Call, res *Result)
	// Flush says that no further Reply or Queued of this burst follows.
	Flush()
}

// Session is a client's identity across connections. Requests of a session are
// told apart by their ids, so that a repeat after a broken connection is
// answered and not carried out again.
type Session struct {
	ID     [SessionBytes]byte
	Epoch  uint64 // counts its connections
	First  uint64 // id of this connection's hello: what has a lower one was asked on an earlier one; 0: not known
	Window uint32 // most requests it keeps unanswered
	Meta   []byte // holder metadata of acquires that bring none; immutable

	// Redirect says that the client would rather go to the leader itself than have
	// its requests forwarded. A call that is one command or one read of one group
	// whose log another node leads, as far as this node knows, is then answered
	// Redirect with that node's id as its message and nothing else, and is not
	// begun. Everything else is answered as always: calls about no single group or
	// about several, what the system group decides, and calls while no leader is
	// known or the node that leads is not known by name. So is a call that is sent on
	// its way again after it was begun: of that, Redirect could not say that nothing
	// was done. To whoever repeats a request after a lost connection it says so of the
	// repeat alone.
	Redirect bool

	// Ctl is the handler's own, one for each connection: a Session is not copied once a
	// call of it was served.
	Ctl atomic.Value
}

// Subscription is a wish to hear of an owner's events.
type Subscription struct {
	Owner  string
	Kinds  uint64     // bit 1<<kind each; 0 is DefaultEvents
	From   []Position // nil: from now on; the handler keeps what it still needs of it
	Number uint64     // the subscriber's own name for it
	Sink   EventSink
	Conn   ProgressSink // told progress in place of Sink, once for all that share it; nil: none
}

// ProgressSink takes the progress of all subscriptions of a connection that are not being
// told what came before.
type ProgressSink interface {
	Progress(cursor []Position)
}

// EventSink takes the events of subscriptions, in order and without blocking.
type EventSink interface {
	// Deliver hands over one event.
	Deliver(sub *Subscription, kind EventKind, path, namespace string, token int64, at Position)
	// Progress tells the subscription's whole cursor, so that a later resume need
	// not look at what concerned others.
	Progress(sub *Subscription, cursor []Position)
	// Gap tells that events were missed, and where delivery goes on.
	Gap(sub *Subscription, cursor []Position)
}
