package conformance_test

import (
	"context"
	"testing"
	"time"
)

// patience bounds every wait for something that has to come.
const patience = 90 * time.Second

// face is one interface of the server, spoken by a client that shares no code with
// the server or with the project's own client.
type face interface {
	// has says whether an RPC is reachable here.
	has(rpc string) bool
	// call asks and waits for the answer.
	call(ctx context.Context, rpc string, req message) (message, *refusal)
	// start asks for what may wait, on a connection of its own.
	start(t testing.TB, rpc string, req message) *open
	// subscribe answers the events of an owner from now on. It is live when this
	// returns.
	subscribe(t testing.TB, req message) (*stream, *refusal)
	// full says that events tell more than their type and owner.
	full() bool
}

// streamFace is a face where one acquire can come in chunks.
type streamFace interface {
	acquireStream(ctx context.Context, chunks []message) (message, *refusal)
}

// refusal is an error as a client sees it.
type refusal struct{ code, message string }

// outcome is what a call ended with.
type outcome struct {
	answer  message
	refused *refusal
}

// open is a call that has not ended yet.
type open struct {
	told   chan message // its place in the queue, where the face tells that
	ended  chan outcome // has room for the one
	cancel func()       // asks for the end of the wait
	drop   func()       // loses the connection
}

// stream is a subscription.
type stream struct {
	events chan message
	close  func()
}
