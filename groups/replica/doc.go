// Package replica is one replicated log as its state machine sees it: what an entry means, and what is kept of it in
// memory and on disk. It knows nothing of who proposes entries, of other nodes or of networks.
//
// # What it owns
//
// The state of a log: its virtual groups (engine.State each), its sessions, its lease clock, its leader epoch, and in
// the system log the system group. The node's state database (Store) is shared by the replicas of all logs of a node;
// each has its own rows in it (package rows).
//
// # What it asks of others
//
// Everything that a replica says goes through three interfaces (host.go), which it declares: Host is the node, Audience
// who hears events, Proposer who proposes the log's entries here, and whose callers hear what became of them. All three
// are told between two entries and must not block.
//
// # In what order to read it
//
//	entry.go, batch.go      what stands in an entry: the log's codec
//	machine.go              the machine: an entry is applied
//	commands.go             one command: new, or a repeat?
//	session.go              sessions; answered.go and marks.go: what is remembered of a request
//	image.go                how sessions get to disk
//	group.go                a virtual group, and the views that readers share
//	clock.go                lease time
//	limits.go               every number that decides, and is in the log
//	checkpoint.go           state to disk and back; store.go and statefs.go: the database
//	snapshot.go, install.go raft's snapshots
//	fold.go                 fences of paths that nobody locks any more
//	query.go                reads, as data; paged_routes.go and open_calls.go: what else is looked up
//	digests.go              what replicas are compared by
//
// # Goroutines and locks
//
// It has no goroutine of its own. Raft calls Update, one call at a time for a log; checkpoints, sweeps and readers come
// on their callers' goroutines. Machine's lock (Lock, Unlock) holds it between two entries; it is held while entries
// are applied and while a view is taken, and never while anything is written. The lease clock has a lock of its own, so
// that who proposes can read it meanwhile, and so have checkpoints, of which there is one at a time: it comes before
// the machine's.
package replica
