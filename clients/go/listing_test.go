package pathlockd

import (
	"testing"

	"github.com/pathlockd/pathlockd/wire"
)

// TestPages: fewer entries are asked for when an answer is refused, at once the first times; and more again when some
// were told.
func TestPages(t *testing.T) {
	var p pages
	entries := uint32(2 * wire.MaxDumpPage)
	for i, want := range []uint32{wire.MaxDumpPage, wire.MaxDumpPage / 2, wire.MaxDumpPage / 4, wire.MaxDumpPage / 8} {
		if now := p.less(&entries); entries != want || now != (i < 2) {
			t.Errorf("refused %d times: %d entries are asked for, at once %v", i+1, entries, now)
		}
	}
	for range 20 {
		p.less(&entries)
	}
	if entries != 1 {
		t.Errorf("%d entries are asked for", entries)
	}
	for range 40 {
		p.more(&entries)
	}
	if now := p.less(&entries); entries != wire.MaxDumpPage/2 || !now {
		t.Errorf("after forty pages and a refusal %d entries are asked for, at once %v", entries, now)
	}
}
