// Package events tells what happened: to subscribers of this node, to its sessions, and to nodes that have no replica
// of a log.
//
// # What it owns
//
// The last events of each log (Hub), who listens (listeners.go), which sessions are told of their leases (tells.go),
// and which nodes are fed from here (feeds.go), with the frames of both. Who this node is fed by is the node's business
// (groups/feed.go).
//
// # In what order to read it
//
//	events.go     a Hub: events come from Apply (Publish) or from another node; places, gaps, cursors
//	listeners.go  subscriptions: what came before is replayed, what comes is delivered, progress
//	feeds.go      other nodes: their frames, and what they are told
//	tells.go      leases
//
// # Goroutines and locks
//
// It has no goroutine. Hub's lock guards all of it but the sessions that are told of leases, which have one of their
// own; neither is taken under the other. Apply waits for both, and event loops do: they are held for little at a time,
// and what is told to all, to 128 at a time. Sinks must not block, and do not: they put a message into an event loop's
// inbox.
package events
