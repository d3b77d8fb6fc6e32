package conformance_test

import (
	"fmt"
	"runtime"
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
	// there to end. Those below meantToStay end once the scenario waits for something.
	meantToLast, meantToStay = time.Second, 20 * time.Second
	// servedWithin is what the server gives a request (request_timeout_ms), and a
	// stream to be whole.
	servedWithin = 30 * time.Second
)

// lifetimes are those that a run's requests asked for.
type lifetimes struct {
	short, long time.Time // when the first of them ends; zero: there is none
	waited      bool      // for something: from now on the short ones may end
	overtaken   bool
}

// asked notes a request with its lifetimes, before it is sent.
func (l *lifetimes) asked(req message) {
	for _, field := range []string{"ttl_ms", "queue_ttl_ms"} {
		ms, _ := req[field].(int64)
		lasts := time.Duration(ms) * time.Millisecond
		end := &l.short
		if lasts >= meantToStay {
			end = &l.long
		}
		if at := time.Now().Add(lasts); lasts >= meantToLast && lasts < 24*time.Hour && (end.IsZero() || at.Before(*end)) {
			*end = at
		}
	}
}

// step notes that a step ended.
func (l *lifetimes) step(s *step, began time.Time) {
	waits := s.eventually || s.verb == "event" || s.verb == "ends"
	now := time.Now()
	over := func(t time.Time) bool { return !t.IsZero() && now.After(t) }
	l.waited = l.waited || waits
	if over(l.long) || !l.waited && over(l.short) || !waits && now.Sub(began) > servedWithin {
		l.overtaken = true
	}
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
