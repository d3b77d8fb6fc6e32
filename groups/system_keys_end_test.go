package groups

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/groups/rows"
	"github.com/pathlockd/pathlockd/wire"
)

// looksAfter lets a second go by on a clock that stands still, has the log's driver look at it, and answers how many
// entries it proposed by then; they are applied.
func (r *rig) looksAfter(l *shardLog) uint64 {
	r.t.Helper()
	r.clock.advance(time.Second)
	l.drive.Lock()
	l.work()
	proposed := l.drive.number
	l.drive.Unlock()
	m := l.local.Load()
	eventually(r.t, "what was proposed is applied, and nothing is under way for the driver either", func() bool {
		l.drive.Lock()
		under := len(l.drive.under)
		l.drive.Unlock()
		m.Lock()
		defer m.Unlock()
		return m.Number >= proposed && under == 0
	})
	return proposed
}

// TestSystemKeysEndInSilence: keys of the system group end though nobody asks anything of it, over a restart, too. A
// repeat after that is a new request: a token is above those that were given since, and a policy change that is
// answered OK is made.
func TestSystemKeysEndInSilence(t *testing.T) {
	for name, meanwhile := range map[string]func(*rig){"the same process": func(*rig) {}, "restarted": (*rig).restart} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, keysFor(3000))
			c := r.session()
			incr := &wire.Request{Op: wire.OpIncrToken, Key: "nightly"}
			set := func(alg wire.Algorithm, key string) *wire.Request {
				return &wire.Request{Op: wire.OpSetPolicy, Namespace: "h:/a", Algorithm: alg, Key: key}
			}
			first := c.must(incr).Token
			c.must(set(wire.Semaphore, "nightly"))
			since := c.must(&wire.Request{Op: wire.OpIncrToken}).Token
			c.must(set(wire.RecursiveRW, "morning"))
			meanwhile(r)
			r.clock.hurry(10 * time.Second)

			other := r.session()
			if again := other.must(incr).Token; again <= since {
				t.Errorf("the key answers %d when it is over: it answered %d, and %d was given since", again,
					first, since)
			}
			other.must(set(wire.Semaphore, "nightly"))
			if alg, _ := other.policy("h:/a"); alg != wire.Semaphore {
				t.Errorf("a policy change is answered OK when its key is over, and h:/a has algorithm %v", alg)
			}
		})
	}
}

// TestSystemLogIsQuiet: the system log has entries that nobody asks for while answers to keys are kept in it, one a
// second, and at no other time.
func TestSystemLogIsQuiet(t *testing.T) {
	r := newRig(t, keysFor(3000))
	c, l := r.session(), r.node.logs[rows.SystemLog]
	r.clock.freeze()
	armed := func() bool {
		_, deadline := l.local.Load().NextDeadline()
		return deadline != 0
	}
	for _, key := range []string{"", "nightly"} {
		c.must(&wire.Request{Op: wire.OpIncrToken, Key: key})
		l.drive.Lock()
		before, ticks := l.drive.number, uint64(0)
		l.drive.Unlock()
		if key != "" {
			ticks = 3
		}
		r.looksAfter(l)
		r.looksAfter(l)
		if armed() != (key != "") {
			t.Errorf("key %q of 3 s, after 2 s: something is to end is %v", key, armed())
		}
		for range 6 {
			r.looksAfter(l)
		}
		if n := r.looksAfter(l) - before; n != ticks || armed() {
			t.Errorf("key %q of 3 s: %d entries that nobody asked for, want %d; something is to end: %v", key, n,
				ticks, armed())
		}
	}
}
