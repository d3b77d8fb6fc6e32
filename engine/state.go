package engine

import (
	"sync/atomic"

	"github.com/pathlockd/pathlockd/trie"
	"github.com/pathlockd/pathlockd/wire"
)

// Config is what a state must know; all replicas of a group have the same. But for the
// limits it never changes: it was fixed when the cluster was founded.
type Config struct {
	Algorithm wire.Algorithm // of namespaces that have no policy: default_lock_algorithm
	Segments  int            // routing_prefix_segments
	Limits                   // to begin with: State.SetLimits
	// Cut is what an instant of the lease clock may lack of the true one, ms: leases, graces
	// and times in the queue last that much longer, so that none of them ends early.
	Cut int64
	// LogNow is the lease clock of the log that the group is in, ms, where remaining times are
	// shown by it: a group on which nothing is done has stood still for long. nil: the group's
	// own clock will do.
	LogNow *atomic.Int64
}

// DefaultConfig has the defaults of contract.md section 14.
func DefaultConfig() Config {
	return Config{Algorithm: wire.RecursiveRW, Segments: 1, Limits: DefaultLimits()}
}

// Fences answers the fence of a path that no tree holds in memory. A failure to
// read is not an answer: the implementation stops the process.
type Fences interface {
	// Fence answers the token stored for a path key, ok false when there is none.
	Fence(key string) (token int64, ok bool)
}

// noFences is for states that never drop a fence from memory.
type noFences struct{}

func (noFences) Fence(string) (int64, bool) { return 0, false }

// Classes of leaves in the trees of holds, and of an owner's holds.
const (
	classWrite trie.Class = 0 // write holds and semaphore permits
	classRead  trie.Class = 1
	classGhost trie.Class = 2 // a fence whose path nobody holds
)

// classWait is the class of the queue's leaves.
const classWait trie.Class = 0

// hold is one owner's hold on one path, or the fence of a path without one.
type hold struct {
	owner   string  // "" for a fence alone
	token   int64   // the path's fence; 0 for reads and permits
	since   int64   // wall time of the grant in Unix ms, for people; of a fence alone: lease clock when it was let go
	meta    *string // holder metadata, shared by the holds of one acquire
	relied          // the requests that rely on it
	born    uint32  // modification mark under which the hold was taken
	permits uint32
	mode    wire.Mode
	alg     wire.Algorithm // the rules it was taken under
	own     bool           // a caller brought the token
}

// lease is an owner's record in one namespace. It exists while the owner holds
// something there or waits for something.
type lease struct {
	owner    string
	ns       string
	deadline int64               // ms of the lease clock; 0 while nothing is held
	pledges  []pledge            // until when it lasts for connections that ended; replaced, never changed
	revoke   int64               // until when an OK renew reports that a revoke was asked for
	asked    bool                // that was told to who has tied it, and nothing was tied or taken since; not kept
	holds    trie.Tree[struct{}] // path key for writes, path key 0 'R' or 'S' else
	waits    trie.Tree[struct{}] // the queue's keys of its waiters
	poll     uint64              // arrival number of its polled entry, 0: none
	bind     *binding            // the connection its time hangs on, nil: none
	also     []*binding          // those of other sessions that it hangs on as well; replaced, never changed
	meta     *string             // of the last acquire, to be shared by the next
	quiet    bool                // it was ended by somebody, and not by time
	gone     bool                // it is no longer in the tree
	timer    *timer
	born     uint32 // modification mark under which it was made
}

// held says that the owner has a lease.
func (l *lease) held() bool { return l != nil && l.deadline != 0 }

// binding ties a lease to one connection of a session. It is never changed, only
// replaced.
type binding struct {
	session Session
	epoch   uint64
	grace   int64  // ms
	spent   uint64 // one above the connection for whose end the lease was shrunk, 0: none
	// it is to no connection, and never ends: it stands for more ties than a lease keeps, or one given up
	loose bool
	past  uint64 // ends up to this arrival number were told before it came to be, and are none of its: State.past
}

// pledge is until when a session whose connection ended may come back to a lease: others that
// are tied to it do not shorten it to less. If the lease was tied to that connection, it is to the
// later one on which the session keeps it in that time.
type pledge struct {
	session Session
	until   int64  // ms of the lease clock
	several bool   // it is of several sessions: more than a lease keeps apart
	over    uint64 // one above the connection that the lease was tied to, 0: to none
	grace   int64  // of that tie, ms
}

// Session names a client across its connections.
type Session [wire.SessionBytes]byte

// Caller names one request of a session.
type Caller struct {
	Session Session
	ID      uint64
}

// Event is something an owner may want to hear of.
type Event struct {
	Kind      wire.EventKind
	Owner     string
	Path      string
	Namespace string
	Token     int64
}

// Answer ends the call of a waiting acquire.
type Answer struct {
	Caller Caller
	Result wire.Result
	Left   bool   // it was refused after the call's connection was gone: its session may ask anew
	NS     string // the namespace that it waited in
}

// Told is what a session is told of a lease that is tied to it.
type Told struct {
	Session Session
	wire.LeaseEvent
}

// Output collects what a step says beside its results.
type Output struct {
	Events  []Event
	Answers []Answer
	Told    []Told
}

// toldKept is how much room for what is told of leases is kept: one step may tell of very many.
const toldKept = 4096

// Reset empties o and keeps its memory.
func (o *Output) Reset() {
	clear(o.Events)
	clear(o.Answers)
	clear(o.Told)
	o.Events, o.Answers, o.Told = o.Events[:0], o.Answers[:0], o.Told[:0]
	if cap(o.Told) > toldKept {
		o.Told = nil
	}
}

// State is one virtual group. Its methods are called by one goroutine at a time;
// a View of it may be read by any.
type State struct {
	cfg    Config
	fences Fences
	w      *trie.Writer

	now     int64  // ms of the lease clock
	wall    int64  // Unix ms, for people
	counter int64  // invariant: at least every token ever stored or minted here
	seq     uint64 // arrival number given last
	version uint64 // version of the last routing change that touched the group
	floors  []floor
	frozen  []freezing // roots that are being moved: nothing gets in
	attempt uint64     // the last that a step of a policy change came of

	holds    trie.Tree[hold]
	leases   trie.Tree[lease]
	queue    trie.Tree[place]
	waiters  trie.Tree[waiter]
	edges    trie.Tree[edge]
	policies trie.Tree[policy]
	kept     trie.Tree[kept]
	marks    trie.Tree[int64]
	// Connections that closed, while leases of theirs are to be shrunk: depart.go.
	departing departures
	// Rows on disk whose leaf is gone: since the last checkpoint began, and those
	// that one is deleting right now.
	tombs, dying trie.Tree[struct{}]

	touched bool   // a step was taken since the last checkpoint began
	written uint32 // modification mark up to which all is on disk
	sweep   string // where EvictFences goes on

	// What follows is derived from the trees.
	deadlines deadlines
	calls     map[Session]*calls               // open calls
	keepers   shares                           // kept answers by session
	edgers    shares                           // wait edges by session
	asking    trie.Tree[struct{}]              // kept answers that tell of a waiter: its arrival number, and their keys
	ties      map[Session]*trie.Tree[struct{}] // keys of the leases tied to a session, or that are to be
	relying   map[string]map[uint64]struct{}   // waiters that say they hold something, by the lease's key
	queued    map[string]int                   // how many paths waiters count for, by owner
	queuers   shares                           // the same by the session that queued them
	waited    int                              // and all together

	// Scratch of the step in hand.
	out     *Output
	freed   []freed
	cursors cursorHeap
	key     []byte // leaseKey, and paths to release
	key2    []byte // suffixed
	keys    []byte // the request's path keys
	keys2   []byte // queue keys to seek
	wants   []want
	asked   uint64 // arrival number of the request queued last
	early   int    // leases that this step ended before their turn: maxEarly
	looked  int    // holders of semaphores that it looked at for that: maxHolders

	owners OwnerWatch
}

// floor is a fence for every path of a subtree that was taken over from another
// group or namespace.
type floor struct {
	Root  string
	NS    string // that its paths came to; "" when they came to several
	Token int64
}

// freezing is a root that is being moved. Once the routes have version until, the move is
// decided or undone, and who knows of them is let in; thaw and leave let waiters in.
type freezing struct {
	root  string
	above string // the one namespace that its paths come from or go to, "" for several
	until uint64 // 0: who asks is never let in before thaw or leave
}

// OwnerWatch is told when an owner gets its first record in a namespace of the
// state and loses its last, so that who looks for an owner need not ask every
// group. It may be nil.
type OwnerWatch interface {
	OwnerCame(owner string)
	OwnerWent(owner string)
}

// New makes an empty state.
func New(cfg Config, fences Fences, owners OwnerWatch) *State {
	if fences == nil {
		fences = noFences{}
	}
	return &State{
		cfg: cfg, fences: fences, owners: owners, w: trie.NewWriter(1),
		calls: make(map[Session]*calls), keepers: make(shares), edgers: make(shares),
		relying: make(map[string]map[uint64]struct{}), queued: make(map[string]int), queuers: make(shares),
		ties: make(map[Session]*trie.Tree[struct{}]),
	}
}

// Now is the lease clock of the last step, in ms.
func (s *State) Now() int64 { return s.now }

// NextDeadline is when something ends with time next, ok false for never.
func (s *State) NextDeadline() (at int64, ok bool) {
	if !s.departing.Empty() {
		return max(s.now, 1), true
	}
	return s.deadlines.next()
}

// policy is the algorithm somebody chose for a namespace.
type policy struct {
	algorithm wire.Algorithm
}

// algorithm is the one in force in ns, and whether it was chosen.
func (s *State) algorithm(ns string) (wire.Algorithm, bool) {
	if s.policies.Empty() {
		return s.cfg.Algorithm, false
	}
	if p := s.policies.Get(ns); p != nil {
		return p.algorithm, true
	}
	return s.cfg.Algorithm, false
}

// event tells owner something.
func (s *State) event(kind wire.EventKind, owner, path, ns string, token int64) {
	s.out.Events = append(s.out.Events, Event{kind, owner, path, ns, token})
}

// addTombstone notes that the row of a leaf is to be deleted from disk, if it can be
// there: it cannot when the leaf is younger than the last checkpoint.
func (s *State) addTombstone(table byte, key string, born uint32) {
	if born == s.w.Mark() {
		return
	}
	row := string(table) + key
	if s.tombs.Get(row) == nil {
		s.tombs.Insert(s.w, row, trie.None, 0)
	}
}
