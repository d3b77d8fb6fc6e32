package compat

import (
	"context"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const (
	// KeptTurns is how many renewals and releases a connection may have under way beside
	// its other requests: a lease must not run out because those wait.
	KeptTurns = 64
	// TurnWithin is how long a request waits for its turn. It is refused then, so that
	// it does not keep its stream from requests that have a turn: behind requests that
	// are not answered a connection would have none left.
	TurnWithin = 10 * time.Second
)

// keptMethods are the RPCs for which turns are kept.
var keptMethods = map[string]bool{"Renew": true, "Release": true, "ReleaseAll": true}

// Keeps says that turns of their own are kept for an RPC, by its name.
func Keeps(method string) bool { return keptMethods[method] }

// Calls is what a connection has under way. Requests that are answered as soon as may be
// take turns: so many at once, more wait, as a client that opens many expects. Calls that
// stay open (waiting acquires, streams of events) have a limit of their own. It may be
// used by many goroutines.
type Calls struct {
	turns, kept chan struct{}
	within      time.Duration
	open        atomic.Int64
	mostOpen    int64
}

// NewCalls is for a connection with so many turns, each waited for so long, 0:
// TurnWithin, and so many calls that stay open.
func NewCalls(turns, open int, within time.Duration) *Calls {
	if within <= 0 {
		within = TurnWithin
	}
	return &Calls{turns: make(chan struct{}, turns), kept: make(chan struct{}, KeptTurns), within: within,
		mostOpen: int64(open)}
}

// Turn is a request's leave to be carried out.
type Turn chan struct{}

// Leave gives it back.
func (t Turn) Leave() { <-t }

// Enter waits for a turn. An error is one of gRPC's.
func (c *Calls) Enter(ctx context.Context, kept bool) (Turn, error) {
	var own chan struct{} // none is ever free of nil
	if kept {
		own = c.kept
	}
	select {
	case c.turns <- struct{}{}:
		return c.turns, nil
	default:
	}
	select {
	case own <- struct{}{}:
		return own, nil
	default:
	}
	late := time.NewTimer(c.within)
	defer late.Stop()
	select {
	case c.turns <- struct{}{}:
		return c.turns, nil
	case own <- struct{}{}:
		return own, nil
	case <-late.C:
		return nil, status.Errorf(codes.Unavailable,
			"max_concurrent_requests_per_connection: the connection has %d requests under way, and none was "+
				"answered within %v for this one to begin; it was not carried out",
			cap(c.turns), c.within)
	case <-ctx.Done():
		return nil, status.FromContextError(ctx.Err()).Err()
	}
}

// Open notes a call that stays open, which Shut ends. An error is one of gRPC's.
func (c *Calls) Open() error {
	if n := c.open.Add(1); n > c.mostOpen {
		c.open.Add(-1)
		return status.Errorf(codes.ResourceExhausted,
			"the connection has %d calls that stay open (waiting acquires, streams of events), which is the most; "+
				"end one of them, or use another connection",
			c.mostOpen)
	}
	return nil
}

// Shut notes the end of a call that Open let in.
func (c *Calls) Shut() { c.open.Add(-1) }
