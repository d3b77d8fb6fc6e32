package link

import "time"

// Faults decides what becomes of what this node sends. It is called from many
// goroutines and must not block.
type Faults interface {
	Outgoing(Passage) Fate
}

// Passage is one thing on its way.
type Passage struct {
	From, To string // node ids
	Kind     Kind
	Bytes    int // 0 for Connect; of a write for Requests
}

// Fate is what becomes of it. The zero Fate lets it pass.
//
// What is done to the passages from a to b leaves those from b to a alone. Batches are
// lost, late, twice and out of order each by itself. Chunks and requests stay in order
// whatever happens, as in any stream: a delay holds up what is behind it, and there are
// no copies. A dropped chunk cuts its connection. When a write of requests is dropped
// all later ones are too, and the first that would pass cuts the connection. For
// Connect, Drop and Cut both refuse the connection and the rest is ignored.
type Fate struct {
	Drop   bool
	Cut    bool          // close the connection instead of sending
	Delay  time.Duration // sent so much later; batches sent meanwhile overtake it: so they are reordered
	Copies int           // sent so many times more, at most maxCopies
}

const (
	maxCopies = 8
	// maxDelayed batches and maxDelayedBytes wait on a node; others are dropped, as a
	// router would.
	maxDelayed      = 4096
	maxDelayedBytes = 64 << 20
)
