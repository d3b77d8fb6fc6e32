package compat

import (
	"testing"

	"github.com/pathlockd/pathlockd/wire"
)

// TestSessionsTakeTurns: requests that come one after the other are of many clients, and no session of theirs is to
// fill its share of a table for all of them. Their number follows what is under way at once.
func TestSessionsTakeTurns(t *testing.T) {
	var p sessions
	seen := make(map[[wire.SessionBytes]byte]int)
	const turns = 10
	for range turns * spread {
		s, _ := p.take()
		seen[s.ID]++
		p.put(s)
		p.put(s)
	}
	if len(seen) != spread {
		t.Errorf("%d sessions take turns, want %d", len(seen), spread)
	}
	for id, n := range seen {
		if n != turns {
			t.Errorf("session %x had %d of %d requests", id, n, turns*spread)
		}
	}
	var all []*session
	for range 3 * spread {
		s, id := p.take()
		if seen[s.ID] > turns || id == 0 {
			t.Fatalf("session %x is used twice at once", s.ID)
		}
		seen[s.ID] = turns + 1
		all = append(all, s)
	}
	for _, s := range all {
		p.put(s)
		p.put(s)
	}
	if len(p.idle) > 4*spread {
		t.Errorf("%d sessions for %d requests at once", len(p.idle), len(all))
	}
}
