// Package engine is the rules of locking as a state machine: who may hold what,
// who waits for whom, which token a writer carries, when a lease ends.
//
// A State is the whole of one virtual group. It is changed only by Apply, which
// is a function of the state and the command: no clock, no randomness, no
// goroutine and no I/O stand inside. The time is in the command; the one thing
// asked outside is the fence of a path that nobody holds (Fences), whose answer
// is itself a function of the log. Two replicas that applied the same commands
// are equal, down to the order of their results and events (Digest).
//
// Everything is kept in copy-on-write radix trees (package trie), so that a View
// of a state costs a few words, is never changed, and may be read by any
// goroutine while Apply goes on.
//
// # Trees
//
//	holds    path key                    write hold, and the path's fence
//	         path key 0 'R' owner        read hold
//	         path key 0 'S' owner        semaphore permit
//	leases   owner 0 namespace           an owner's lease there, and what it holds and waits for
//	queue    path key 0 'w'|'r' seq      a queued request's wish for one path
//	waiters  seq                         the queued request itself
//	edges    owner                       whom it says it waits for
//	policies namespace                   the algorithm somebody chose
//	kept     rpc key                     the answer to a keyed request
//	marks    namespace                   up to which token a queued one is stale
//
// A path key is the length of the path's namespace (two bytes, big endian) and
// the path, so that a prefix of keys never crosses from one namespace into one
// nested in it, and byte order within a namespace is the order of its paths.
//
// # One step
//
// Apply carries one command out: it judges it by the tables of contract.md
// sections 5–11, changes the trees, collects what was freed, and then grants to
// waiters, in arrival order, whatever those freed things were all they lacked
// (grant.go). Expire does the same for what ended with time. Nothing is left to a
// background task, so no state between two commands has a grantable waiter.
package engine
