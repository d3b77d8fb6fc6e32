package events

import (
	"strings"
	"testing"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/groups/mesh"
	"github.com/pathlockd/pathlockd/internal/testkit/observed"
	"github.com/pathlockd/pathlockd/wire"
)

// TestCursorAhead: a subscriber who was told more by another node than this one knows yet
// is told that there may be a gap, and nothing twice.
func TestCursorAhead(t *testing.T) {
	h, e := New(10), new(observed.Events)
	h.Opened(2, 3)
	h.Subscribe(&wire.Subscription{Owner: "o", Number: 1, Sink: e,
		From: []wire.Position{{Log: 2, Index: 5, Ordinal: 1}}})
	event := []engine.Event{{Kind: wire.EventGrant, Owner: "o", Path: "h:/a"}}
	for index := uint64(4); index <= 6; index++ {
		h.Publish(2, index, event, true)
	}
	h.Publish(3, 1, event, true) // of a log that the cursor does not name
	if got, gaps := e.Told(); len(got) != 2 || gaps != 1 {
		t.Errorf("heard %q and of %d gaps, want entry 6 of log 2, log 3, and one gap", got, gaps)
	}
}

// TestLongFrames: events that are too long for a frame are not sent, since that would end the
// connection with everything else on it; who is told less hears that.
func TestLongFrames(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", wire.MaxPathBytes)
	all := make([]engine.Event, mesh.MaxFrameBytes/len(long)+1)
	for i := range all {
		all[i] = engine.Event{Owner: "o", Path: long}
	}
	if b := appendEvents(3, 7, 0, all); string(b) != string([]byte{FrameEvents, 3, 7, jumped}) {
		t.Errorf("events of %d bytes: the frame has %d bytes and begins with %v", len(all)*len(long), len(b),
			b[:min(4, len(b))])
	}
	if b := appendEvents(3, 7, 0, all[:10]); len(b) < 10*len(long) || b[3] != 0 {
		t.Errorf("ten events: %d bytes, %v", len(b), b[:4])
	}
}
