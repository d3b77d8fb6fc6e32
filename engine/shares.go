package engine

import (
	"github.com/zeebo/xxh3"

	"github.com/pathlockd/pathlockd/wire"
)

// Shares.
//
// What is counted for a session is what it has put into a table that everybody uses. Clients of the native protocol
// have one for as long as they like. Calls of gRPC and HTTP have no client that could be told from another: each has
// a session of the server's for as long as it is under way, and these take turns (compat/session.go). So an open wait
// of such a call is alone in its session, and polled places and wait edges are spread over many; what bounds them all
// is the table, and what bounds one is its owner.

// share is how much of a table that everybody uses one session may fill: a quarter.
func share(most int) int { return max(most/4, 1) }

// shares counts what each session has in such a table, by a mark of its own. What nobody asked for is
// not counted.
type shares map[uint64]int

// markOf is a session's mark, 0 for none.
func markOf(id Session) uint64 {
	if id == (Session{}) {
		return 0
	}
	return max(xxh3.Hash(id[:]), 1)
}

// add counts what came, or went by -1.
func (n shares) add(of uint64, by int) {
	switch {
	case of == 0:
	case n[of]+by == 0:
		delete(n, of)
	default:
		n[of] += by
	}
}

// refuse says that a session has its share of the answers that are kept for keyed requests.
func (n shares) refuse(of uint64, most int, where string, millis int) *wire.Error {
	if n[of] < share(most) || of == 0 {
		return nil
	}
	return wire.Errorf(wire.ResourceExhausted,
		"idempotency_key: this session has %d answers kept in %s, at most %d are allowed, a quarter of all; each is "+
			"kept for %d s",
		n[of], where, share(most), millis/1000)
}
