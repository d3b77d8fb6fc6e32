// Demo shows what locks are for, on real files: worker processes change the files
// of a directory tree and rename whole directories in it, while they are stopped
// and killed, and the lock server too. At the end the files themselves say whether
// anything was lost.
//
// A lock alone cannot keep a process that was stopped for longer than its lease
// from writing when it wakes up: it does not know that it slept. So every lock has
// a fencing token, and what is written to (resource.go) refuses a token once it
// has seen a higher one. With --no-fencing it does not look, and the same run
// loses updates.
package main
