package loop

import (
	"testing"
	"time"
)

// TestSentAfter: what a request says of when it was sent, by the answers that its client had.
func TestSentAfter(t *testing.T) {
	const told, settled = 10, 11
	for name, tc := range map[string]struct {
		settled              uint64
		reading              time.Duration // an answer came at 50 s, and nothing was read from 10 s on
		since, after, unread time.Duration // of the request, before and after that; of what comes next
		knows                bool          // another answer is waited for
	}{
		"it had the answer":                      {settled, 40 * time.Second, 10 * time.Second, 50 * time.Second, 0, true},
		"it had it when that had just been read": {settled, 50 * time.Second, 10 * time.Second, 50 * time.Second, 0, true},
		"it had it before what is read now":      {settled, 60 * time.Second, 10 * time.Second, 50 * time.Second, 50 * time.Second, true},
		"it had it before it was not read":       {settled, 0, 10 * time.Second, 50 * time.Second, 50 * time.Second, true},
		"it came here later":                     {settled, 60 * time.Second, 55 * time.Second, 55 * time.Second, 50 * time.Second, true},
		"it had those before":                    {told, 40 * time.Second, 10 * time.Second, 10 * time.Second, 10 * time.Second, false},
		"it does not say":                        {0, 40 * time.Second, 10 * time.Second, 10 * time.Second, 10 * time.Second, false},
	} {
		t.Run(name, func(t *testing.T) {
			s, since := new(session), tc.since
			s.waited = waited{unread: 10 * time.Second, reading: tc.reading, read: 1 << 20, told: told, toldAt: 50 * time.Second}
			s.sentAfter(tc.settled, &since)
			if since != tc.after || s.waited.unread != tc.unread || (s.waited.told == 0) != tc.knows {
				t.Errorf("since %v, unread %v, told %d; want %v, %v, %v", since, s.waited.unread, s.waited.told, tc.after, tc.unread, tc.knows)
			}
		})
	}
}

// TestFirstTold: of several answers the first is waited for, as a client that always asks more has those that come
// later the later.
func TestFirstTold(t *testing.T) {
	s := &session{srv: new(Server)}
	s.srv.pulse.starts()
	if s.tells(3); s.waited.told != 0 {
		t.Error("nothing lies unread, and an answer is noted")
	}
	s.waited.unread = 1
	s.tells(4)
	s.tells(5)
	if s.waited.told != 4 {
		t.Errorf("answer %d is waited for", s.waited.told)
	}
}
