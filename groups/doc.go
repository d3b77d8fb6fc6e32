// Package groups makes the lock engine durable and replicated, and is the Handler
// that every face enters through.
//
// # What lives where
//
// Namespaces hash to virtual groups (256 by default), the unit of routing and of
// state: one engine.State each. Groups live in replicated logs (16 by default),
// the unit of batching and placement: one dragonboat shard each. The system log
// has no groups; it holds which namespaces have policies and the cluster-wide
// counter.
//
// # A request's way
//
//	Serve       (serve.go)    which group? one command, or several steps (steps.go)?
//	shardLog    (log.go)      queue, one goroutine a log; if another node leads, it goes there (forwarded.go)
//	            (propose.go)  batch → stamp → propose
//	dragonboat                replicate, fsync
//	machine     (replica/machine.go)  apply: lease clock, expiry, sessions, engine (replica/commands.go)
//	            → the call's Replier, flushed once for each burst
//
// A read asks raft for a read index (reads.go) and then looks at a view of the
// state, which needs no lock and is shared by readers until something changes.
//
// # Time
//
// Each log has a lease clock (replica/clock.go). The leader stamps every entry with what it
// applied last and what its monotonic clock has counted since; so no wall clock
// matters, and time stands still while there is no leader. While a deadline is
// armed the leader proposes a tick when nothing else goes through the log.
//
// # Nothing twice, nothing lost
//
// Whoever becomes leader begins its leader epoch by an entry with its term. Batches name their
// leader epoch and count within it; a batch of another leader epoch is dropped whole. So once
// a newer leader epoch is applied, what an older leader proposed and nobody applied never
// will be, and may be proposed anew (inflight.go). Requests are known by session and
// request id, so that a client's repeat is answered and not carried out again
// (replica/session.go).
//
// # Disk
//
// The raft log is the write-ahead log. What was applied is written behind, in
// checkpoints (replica/checkpoint.go), to one pebble database for the node (replica/store.go). A
// start loads the last checkpoint and replays the log from there.
package groups
