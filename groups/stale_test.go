package groups

import (
	"slices"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/groups/replica"
	"github.com/pathlockd/pathlockd/wire"
)

// TestStaleIsNotSentOn: what a client asked and lies in a log's queue for longer than its time and a little more, as
// where the process stood still, is not put into a batch. It stays for expire to answer, before what came meanwhile;
// what the node asks itself, what comes first, and waits that have their place go.
func TestStaleIsNotSentOn(t *testing.T) {
	r := newRig(t, nil)
	n := r.node
	l := n.logOf(n.groupOf("h:/a"))
	now := n.clock.Mono()
	s := r.session().session
	body, nargs := wire.AppendArgs(nil, write("o", "h:/a", time.Hour))
	ask := func(age time.Duration, set func(*part)) *part {
		p := &part{Command: replica.Command{Op: wire.OpAcquire, Group: n.groupOf("h:/a"), NSLen: len("h:/a"),
			NArgs: nargs, Body: body, Session: s, ID: 1}, since: now - age}
		if set != nil {
			set(p)
		}
		return p
	}
	const old = time.Hour
	first := ask(old, func(p *part) { p.first = true })
	stale := []*part{ask(l.timeout+staleBy+time.Second, nil), ask(old, nil)}
	late := ask(l.timeout+staleBy/2, nil) // expire may not have come by yet
	own := ask(old, func(p *part) { p.Session = nil })
	placed := ask(old, func(p *part) { p.waits = true; p.told.Store(true) })
	fresh := ask(0, nil)

	l.drive.Lock()
	l.mu.Lock()
	before := l.mu.queue
	l.mu.queue = []*part{first, stale[0], late, own, stale[1], placed, fresh}
	written, gone := l.unqueue(true)
	left := l.mu.queue
	l.mu.queue = before
	l.drive.writer.Reset()
	l.mu.Unlock()
	l.drive.Unlock()

	if want := []*part{first, late, own, placed, fresh}; !slices.Equal(written, want) {
		t.Errorf("%d are sent on, want %d", len(written), len(want))
	}
	if !slices.Equal(left, stale) || len(gone) > 0 {
		t.Errorf("%d are left and %d gone, want %d left", len(left), len(gone), len(stale))
	}
}
