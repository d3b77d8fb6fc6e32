package groups

import (
	"time"

	"github.com/pathlockd/pathlockd/groups/rows"
	"github.com/pathlockd/pathlockd/wire"
)

// Keys of the system group at the end of a run, when nobody asks anything of it any more. Before, time goes on in its
// log with what is asked there, and replicas tell whether they agree on what has ended (digests).

// silence is how long nothing is asked: more than the middle one of the times for which nodes of a forgetful run
// state that answers are kept, and far less than the longest.
const silence = 40 * time.Second

// keyEnds fails when a key of the system group answers as before though its time is over, or otherwise in its time.
func (w *world) keyEnds() {
	if !w.forgetful() { // its keys last for longer than a run
		return
	}
	witness := w.logs[rows.SystemLog].reps[len(w.nodes)-1].m
	first := w.tokenBy("end")
	kept := time.Duration(witness.Limits.KeptMillis) * time.Millisecond
	w.run(w.now + silence)
	again := w.tokenBy("end")
	if first == 0 || again == 0 { // some runs have no room for sessions
		return
	}
	w.count.keys++
	if over := kept < silence; over != (again > first) {
		w.fail("a key that is kept for %v answers %d, and %d after %v in which nothing was asked", kept, first,
			again, silence)
	}
}

// tokenBy is the token that a key answers, 0 if it is refused.
func (w *world) tokenBy(key string) int64 {
	call := w.clients[0].ask(&wire.Request{Op: wire.OpIncrToken, Key: key}, false)
	w.run(w.now + time.Second)
	return call.token
}
