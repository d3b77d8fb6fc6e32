package loop

import (
	"testing"
	"time"
)

// TestSentAfter: what a request says of when it was sent, by the answers that its client had.
func TestSentAfter(t *testing.T) {
	const told, settled = 10, 11
	type was struct {
		settled         uint64
		paused, resumed time.Duration // ago; request 10 was first read 50 s ago, and pauses of two hours count
		since, after    time.Duration // of the request, before and after that, ago
		lay             time.Duration // of what comes next
		waits           bool          // for the answer
	}
	for name, tc := range map[string]was{
		"it had the answer":                   {settled, 0, time.Minute, time.Hour, 50 * time.Second, 0, false},
		"it had it to what was read at first": {settled, 0, 50 * time.Second, time.Hour, 50 * time.Second, 0, false},
		"it had it before a pause": {settled, 0, 40 * time.Second, time.Hour, 50 * time.Second,
			50 * time.Second, false},
		"it had it before a pause that goes on": {settled, 10 * time.Second, time.Minute, time.Hour, 50 * time.Second,
			50 * time.Second, false},
		"it came here later": {settled, 0, 40 * time.Second, 45 * time.Second, 45 * time.Second,
			50 * time.Second, false},
		"it had the answers to what came before": {told, 0, time.Minute, time.Hour, time.Hour, 2 * time.Hour, true},
		"it does not say":                        {0, 0, time.Minute, time.Hour, time.Hour, 2 * time.Hour, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := &session{srv: new(Server)}
			s.srv.pulse.begin = time.Now().Add(-24 * time.Hour)
			now := s.srv.pulse.uptime()
			since := now - tc.since
			w := &s.waited
			*w = waited{resumed: now - tc.resumed, lay: time.Hour, before: time.Hour, told: told,
				toldAt: now - 50*time.Second}
			if tc.paused != 0 {
				w.paused = now - tc.paused
			}
			s.sentAfter(tc.settled, &since)
			if after := now - tc.after; since != after || (w.told != 0) != tc.waits ||
				w.lay+w.before < tc.lay || w.lay+w.before > tc.lay+time.Second {
				t.Errorf("since %v, lay %v, waits for %d; want %+v, %v", now-since, w.lay+w.before, w.told, tc, after)
			}
		})
	}
}

// TestSees: the first id that comes after a pause is waited for, as a client that always asks more has the answers
// to those that come later the later; not one that was read before, whose answer shows nothing.
func TestSees(t *testing.T) {
	s := &session{srv: new(Server)}
	s.srv.pulse.starts()
	w := &s.waited
	if s.sees(3); w.told != 0 {
		t.Error("nothing lay unread, and an answer is waited for")
	}
	w.lay = time.Second
	if s.sees(3); w.told != 0 {
		t.Error("the answer to a repeat is waited for")
	}
	s.sees(5)
	s.sees(6)
	if w.told != 5 {
		t.Errorf("answer %d is waited for", w.told)
	}
}

// TestPausesAddUp: what is read may be as old as all pauses together within readOn of reading.
func TestPausesAddUp(t *testing.T) {
	s := &session{srv: new(Server)}
	p := &s.srv.pulse
	p.begin = time.Now().Add(-time.Hour)
	pass := func(d time.Duration) { p.begin = p.begin.Add(-d) }
	lay := func(want time.Duration) {
		t.Helper()
		var got time.Duration
		if since := s.since(); since != 0 {
			got = p.uptime() - since
		}
		if got < want || got > want+time.Second {
			t.Errorf("what is read may have lain unread for %v, want %v", got, want)
		}
	}
	lay(0)
	pause := func(d time.Duration) {
		s.unreads()
		pass(d)
		s.unreads() // again changes nothing
		s.reads()
		s.reads()
	}
	pause(40 * time.Second)
	lay(40 * time.Second)
	pass(readOn / 2)
	lay(40 * time.Second)
	pause(30 * time.Second)
	lay(70 * time.Second)
	pass(readOn - time.Second)
	lay(70 * time.Second)
	pause(time.Second)
	lay(71 * time.Second)
	pass(readOn - time.Second)
	lay(71 * time.Second) // while there are others it is kept for up to twice as long
	pass(2 * time.Second)
	lay(0)
	for range 10_000 { // eight hours of short pauses, each of which is read out
		pause(10 * time.Millisecond)
		pass(3 * time.Second)
	}
	lay(0)
}
