// Package crash says whether a server that was killed again and again kept its
// word. Clients write down what they asked and what they were answered (History);
// Check compares that with the promises: what was acknowledged is there, tokens
// only grow, leases neither vanish nor resurrect, waiters keep their order.
//
// The checker knows nothing of how a server works. It demands little of the load
// that is recorded, and that little makes it simple:
//
//   - an owner asks one thing at a time, and always for the same paths in the same
//     mode: so it is in one of three states, and so is its place in the queue;
//   - an owner that gave up on a request of unknown outcome asks for the same again,
//     or gives everything back;
//   - places in the queue outlive the run.
package crash

import (
	"sync"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// forever is the end of what has not ended.
const forever = time.Duration(1<<63 - 1)

// Kind is what an Op does.
type Kind uint8

// Kinds of operation.
const (
	Acquire Kind = iota
	Release      // of all the owner's paths
	Clear        // of its place in the queue too
	Renew
	Assert // that Asked is its token
	SetPolicy
	Increment // of the cluster-wide counter
)

var kindNames = [...]string{"acquire", "release", "clear", "renew", "assert", "set policy", "increment"}

func (k Kind) String() string { return kindNames[k] }

// Op is one request and its answer. Times are since the start of the run, by the
// clients' monotonic clock.
type Op struct {
	Kind      Kind
	Owner     string
	Namespace string
	Paths     []string
	Mode      wire.Mode
	Permits   uint32 // above 0: a semaphore
	TTL       time.Duration
	Asked     int64          // the caller's own token, 0: none
	Algorithm wire.Algorithm // of SetPolicy
	NoQueue   bool           // an acquire that does not wait
	Open      bool           // one that waits in an open call, which ends with its connection
	Ask       int            // acquires of an owner until it has the lock, or gives up

	Sent     time.Duration // for the first time
	Ended    time.Duration // answered, or given up on; forever while it is under way
	Answered bool
	Cut      bool      // the client went away while the server lived: it may be done any time later
	Refused  wire.Code // surely without effect, unless it is OK
	Status   wire.Status
	Token    int64
	Blocker  string // who holds the path that is in the way, if that was told

	// Of an open call: when it learned of its place, 0 if
	// it did not, and the token promised.
	Queued      time.Duration
	QueuedToken int64
}

// Look is what a path looked like at some time between From and To.
type Look struct {
	From, To  time.Duration
	Path      string
	Partial   bool // only who is named is known; nothing is said of others
	Holders   []Holder
	Waiters   []string // owners, in order
	Fence     int64
	Namespace string
	Algorithm wire.Algorithm // of the namespace
}

// Holder is an owner that holds a path.
type Holder struct {
	Owner string
	Mode  wire.Mode
	Token int64 // 0: not known
}

// Outage is a time without a server: from just before it was killed until the next
// one served.
type Outage struct{ From, To time.Duration }

// History is everything that was seen of a server.
type History struct {
	Ops     []Op
	Looks   []Look
	Outages []Outage
}

// Recorder collects a History. Its methods may be called by any number of
// goroutines.
type Recorder struct {
	start time.Time
	mu    struct {
		sync.Mutex
		ops     []*Op
		looks   []Look
		outages []Outage
		high    map[string]int64 // highest token told, by namespace
	}
}

// NewRecorder starts the clock.
func NewRecorder() *Recorder {
	r := &Recorder{start: time.Now()}
	r.mu.high = make(map[string]int64)
	return r
}

// Now is the time of the run.
func (r *Recorder) Now() time.Duration { return time.Since(r.start) }

// Begin records that a request is about to be sent.
func (r *Recorder) Begin(op Op) *Op {
	r.mu.Lock()
	defer r.mu.Unlock()
	op.Sent, op.Ended = r.Now(), forever
	r.mu.ops = append(r.mu.ops, &op)
	return &op
}

// Queue records that an open call has its place.
func (r *Recorder) Queue(op *Op, token int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if op.Queued == 0 {
		op.Queued, op.QueuedToken = r.Now(), token
	}
}

// Answer records the answer to a request.
func (r *Recorder) Answer(op *Op, res *wire.Result) {
	r.mu.Lock()
	defer r.mu.Unlock()
	op.Ended, op.Answered = r.Now(), true
	op.Refused, op.Status, op.Token = res.Code, res.Status, res.Token
	if res.Reason == wire.ReasonWriteLocked && len(op.Paths) == 1 {
		op.Blocker = res.Owner
	}
	r.mu.high[op.Namespace] = max(r.mu.high[op.Namespace], res.Token)
}

// Abandon records that nobody will know the answer.
func (r *Recorder) Abandon(op *Op) {
	r.mu.Lock()
	defer r.mu.Unlock()
	op.Ended = r.Now()
}

// Cut records that the client went away from a server that goes on.
func (r *Recorder) Cut(op *Op) {
	r.mu.Lock()
	defer r.mu.Unlock()
	op.Cut = true
}

// Look records what a path looked like.
func (r *Recorder) Look(l Look) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l.To = r.Now()
	r.mu.looks = append(r.mu.looks, l)
}

// Outage records that the server was away since a time.
func (r *Recorder) Outage(from time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.outages = append(r.mu.outages, Outage{from, r.Now()})
}

// High is the highest token told in a namespace.
func (r *Recorder) High(namespace string) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mu.high[namespace]
}

// History is what was recorded so far.
func (r *Recorder) History() *History {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := &History{Looks: append([]Look(nil), r.mu.looks...), Outages: append([]Outage(nil), r.mu.outages...)}
	for _, op := range r.mu.ops {
		h.Ops = append(h.Ops, *op)
	}
	return h
}
