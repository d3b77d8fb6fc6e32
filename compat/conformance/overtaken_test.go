package conformance_test

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"
)

// On a machine that stands still for a while, a lease may be over before the scenario
// that counts on it goes on, and a request may take longer than the server gives it. A
// run to which that happened shows nothing if it fails: it is carried out anew, with no
// other beside it, as these are what it stands still of. Only the clock says so, never
// the answer.

const (
	// tries is how many runs of a scenario may be overtaken.
	tries = 3
	// meantToLast is the shortest lifetime that a scenario counts on: shorter ones are
	// there to end. Each time that the scenario waits for something the shortest may end.
	meantToLast = time.Second
	// servedWithin is what the server gives a request (request_timeout_ms), and a
	// stream to be whole.
	servedWithin = 30 * time.Second
)

// lifetimes are those that a run's requests asked for, and that no wait was for yet.
type lifetimes struct {
	open      []lifetime
	overtaken bool
}

// lifetime is how long something was to last, and when it was over at the latest.
type lifetime struct {
	lasts time.Duration
	ends  time.Time
}

// asked notes a request with its lifetimes, before it is sent.
func (l *lifetimes) asked(req message) {
	for _, field := range []string{"ttl_ms", "queue_ttl_ms"} {
		ms, _ := req[field].(int64)
		if lasts := time.Duration(ms) * time.Millisecond; lasts > 0 && lasts < 24*time.Hour {
			l.open = append(l.open, lifetime{lasts, time.Now().Add(lasts)})
		}
	}
}

// step notes that a step ended. One that waits is for the end of what is shortest, if it is for the end of anything.
// A run may be taken to be overtaken that was not, as by what was renewed: if it fails it is carried out once more.
func (l *lifetimes) step(s *step, began time.Time) {
	now := time.Now()
	if s.eventually || s.verb == "event" || s.verb == "ends" {
		shortest := 24 * time.Hour
		for _, o := range l.open {
			shortest = min(shortest, o.lasts)
		}
		l.open = slices.DeleteFunc(l.open, func(o lifetime) bool { return o.lasts == shortest })
	} else if now.Sub(began) > servedWithin {
		l.overtaken = true
	}
	over := func(o lifetime) bool { return o.lasts >= meantToLast && now.After(o.ends) }
	l.overtaken = l.overtaken || slices.ContainsFunc(l.open, over)
}

// trial is a run that may be carried out anew: it keeps to itself why it failed.
type trial struct {
	testing.TB
	mu   sync.Mutex
	said string // why it failed, first
}

func (t *trial) Errorf(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.said == "" {
		t.said = fmt.Sprintf(format, args...)
	}
}

func (t *trial) Fatalf(format string, args ...any) {
	t.Errorf(format, args...)
	runtime.Goexit()
}

func (t *trial) Error(args ...any) { t.Errorf("%s", fmt.Sprint(args...)) }
func (t *trial) Fatal(args ...any) { t.Fatalf("%s", fmt.Sprint(args...)) }

func (t *trial) Failed() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.said != "" || t.TB.Failed()
}

// together is held by runs that are beside others, and locked by one that is to be alone.
var together sync.RWMutex

// inTime carries a run out, and anew, alone, while it failed and was overtaken. A run answers
// its lifetimes before it begins.
func inTime(t *testing.T, begin func(t testing.TB) (run func(), l *lifetimes)) {
	t.Helper()
	together.RLock()
	leave := together.RUnlock
	defer func() { leave() }()
	for try := 1; ; try++ {
		if try == 2 {
			leave()
			together.Lock()
			leave = together.Unlock
		}
		alone := &trial{TB: t}
		run, l := begin(alone)
		done := make(chan struct{})
		go func() { // which a failure ends
			defer close(done)
			run()
		}()
		<-done
		switch {
		case alone.said == "":
			return
		case !l.overtaken || try == tries:
			t.Fatal(alone.said)
		}
		t.Logf("the machine stood still, again: %s", alone.said)
	}
}
