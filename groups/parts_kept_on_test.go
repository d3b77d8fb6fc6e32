package groups

import (
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// heldTasks keeps one call back when it has its claim, as a node does whose link to a log's leader is slow.
type heldTasks struct {
	goroutines
	armed atomic.Bool
	held  chan struct{}
	goOn  chan struct{}
}

func (h *heldTasks) wait(d time.Duration, on ...<-chan struct{}) int {
	i := h.goroutines.wait(d, on...)
	if h.armed.Load() {
		var pcs [16]uintptr
		frames := runtime.CallersFrames(pcs[:runtime.Callers(1, pcs[:])])
		for f, more := frames.Next(); more; f, more = frames.Next() {
			if strings.HasSuffix(f.Function, "(*steps).claim") && h.armed.Swap(false) {
				close(h.held)
				<-h.goOn
				break
			}
		}
	}
	return i
}

// TestPartsAreKeptOn: a keyed request is cut short: part A is done, log B takes nothing. Late in the key's time two sessions
// repeat it, one a little slower between its claim and its parts. The other one is answered OK, which keeps the claim for its
// time from then on; but the key of part A is kept from when that was carried out first, and is over. The slow repeat, which
// has the same claim, carries part A out a second time, after the OK.
func TestPartsAreKeptOn(t *testing.T) {
	const kept = 6 * time.Second
	for name, op := range map[string]wire.Op{"release_all": wire.OpReleaseAll, "force_release": wire.OpForceRelease, "release": wire.OpRelease} {
		t.Run(name, func(t *testing.T) {
			h := &heldTasks{held: make(chan struct{}), goOn: make(chan struct{})}
			r := newRig(t, func(c *Config) {
				keysFor(int(kept.Milliseconds()))(c)
				c.RequestTimeout = 3 * time.Second
				c.seams.tasks = h
			})
			n := r.node
			lA := n.logOf(n.groupOf("h:/a"))
			away := ""
			for _, ns := range r.apart("h", 8) {
				if n.logOf(n.groupOf(ns)) != lA {
					away = ns
				}
			}
			lB := n.logOf(n.groupOf(away))
			here, there := "h:/a/x", away+"/y"
			homed := func(name string) string {
				for n.logOf(wire.HomeOf(name, n.cfg.GroupCount)) != lA {
					name += "o"
				}
				return name
			}
			owner, key := homed("o"), homed("k")
			other := r.session()
			other.must(write(owner, here, time.Hour))
			other.must(write(owner, there, time.Hour))
			req := func() *wire.Request {
				req := &wire.Request{Op: op, Owner: owner, Key: key}
				if op == wire.OpRelease {
					req.Releases = []wire.ReleaseRequest{{Path: here}, {Path: there}}
				}
				return req
			}
			lB.pauses(true)
			began := r.clock.Mono()
			if res := r.session().start(r.next.Add(1), req()).get(t, "the first"); res.Code == wire.OK {
				t.Fatalf("%+v", res)
			}
			r.clock.hurry(began + kept - 800*time.Millisecond - r.clock.Mono())
			h.armed.Store(true)
			slow := r.session().start(r.next.Add(1), req())
			<-h.held
			quick := r.session().start(r.next.Add(1), req())
			eventually(t, "its part is at the log that takes nothing", func() bool {
				lB.mu.Lock()
				defer lB.mu.Unlock()
				return len(lB.mu.queue) > 0
			})
			asked := r.clock.Mono() - began
			r.clock.hurry(1200 * time.Millisecond)
			lB.pauses(false)
			if res := quick.get(t, "the quick one"); res.Code != wire.OK {
				t.Fatalf("%+v", res)
			}
			answered := r.clock.Mono()
			took := other.must(write(owner, here, time.Hour))
			close(h.goOn)
			res := slow.get(t, "the slow one")
			if holder := other.inspect(here).Owner; holder != owner {
				t.Errorf("both repeats were asked %v after the first, keys are kept for %v; one is answered OK, and %v after that the other, answered %v %s, took away what was taken with token %d since: held by %q",
					asked, kept, r.clock.Mono()-answered, res.Code, res.Message, took.Token, holder)
			}
		})
	}
}
