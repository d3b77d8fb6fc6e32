package events

import (
	"fmt"
	"slices"
	"testing"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/internal/testkit/observed"
	"github.com/pathlockd/pathlockd/wire"
)

// TestGapWhileReplaying: who is told what came before, while the log jumps over events that are not known, hears of the
// gap before any later event: else the cursor that it keeps lies beyond the gap, and if its connection ends then it
// never hears of that.
func TestGapWhileReplaying(t *testing.T) {
	event := func(path string) []engine.Event {
		return []engine.Event{{Kind: wire.EventKilled, Owner: "o", Path: path}}
	}
	h := New(100)
	h.Opened(2, 3)
	h.Publish(2, 4, event("first"), true)
	f := &observed.Follower{Cursor: []wire.Position{h.Mark, {Log: 2, Index: 3}}}
	f.On = func() {
		h.Missed(2, 10) // a snapshot is installed: what entries 5 to 10 told nobody knows here
		h.Publish(2, 11, event("later"), true)
	}
	sub := &wire.Subscription{Owner: "o", Sink: f, From: slices.Clone(f.Cursor)}
	h.Subscribe(sub)
	h.Unsubscribe(sub)
	told := f.Told
	at, gap := slices.Index(told, "later"), slices.Index(told, "gap")
	if gap >= 0 && (at < 0 || gap < at) {
		return
	}
	t.Errorf("it is told %q: the gap comes after what is later", told)
	// The connection ends after the later event: the client comes back with the cursor that it has then.
	back := &observed.Follower{Cursor: []wire.Position{h.Mark, {Log: 2, Index: 11, Ordinal: 1}}}
	h.Subscribe(&wire.Subscription{Owner: "o", Sink: back, From: slices.Clone(back.Cursor)})
	if len(back.Told) == 0 {
		t.Error("and with the cursor that it had after the later event it is not told of the gap any more")
	}
}

// TestProgressAfterGap: of the subscriptions of one connection none takes a cursor from beyond a gap that it was not
// told of: if the connection ends then it never hears of that.
func TestProgressAfterGap(t *testing.T) {
	h := New(100)
	h.Opened(2, 3)
	h.Opened(3, 3)
	conn := new(observed.Connection)
	for i := range conn.Subs {
		h.Subscribe(&wire.Subscription{Owner: "o", Sink: &conn.Subs[i], Conn: conn})
	}
	h.Mu.Lock() // as missed does, before it has told everybody
	h.open(2, 10)
	h.gap()
	h.Mu.Unlock()
	h.Publish(3, 4, nil, true) // another log goes on
	h.Progress()
	h.tellGaps()
	for i := range conn.Subs {
		f := &conn.Subs[i]
		if gap, at := slices.Index(f.Told, "gap"), slices.Index(f.Told, "progress"); gap < 0 || at >= 0 && at < gap {
			t.Errorf("subscription %d is told %q", i+1, f.Told)
		}
	}
}

// TestProgressWhileReplaying: nor does one take a cursor from beyond what it asked to have again and was not told yet.
func TestProgressWhileReplaying(t *testing.T) {
	h := New(100)
	h.Opened(2, 3)
	for i := range uint64(3) {
		h.Publish(2, 4+i, []engine.Event{{Kind: wire.EventKilled, Owner: "o", Path: fmt.Sprint(i)}}, true)
	}
	conn := new(observed.Connection)
	other := &wire.Subscription{Owner: "p", Sink: &conn.Subs[0], Conn: conn}
	h.Subscribe(other)
	f := &conn.Subs[1]
	f.Cursor = []wire.Position{h.Mark, {Log: 2, Index: 3}}
	f.On = h.Progress
	h.Subscribe(&wire.Subscription{Owner: "o", Sink: f, Conn: conn, From: slices.Clone(f.Cursor)})
	if want := []string{"0", "1", "2"}; !slices.Equal(f.Told, want) {
		t.Errorf("it is told %q, want %q", f.Told, want)
	}
	h.Progress()
	if at := f.Cursor[len(f.Cursor)-1]; f.Told[len(f.Told)-1] != "progress" || at.Index != 6 {
		t.Errorf("after that it is told %q, up to %v", f.Told, at)
	}
	h.Unsubscribe(other)
	h.Publish(2, 7, nil, true)
	h.Progress()
	if at := f.Cursor[len(f.Cursor)-1]; at.Index != 7 {
		t.Errorf("when the other is gone it is told up to %v", at)
	}
}

// TestGapInTheMiddleOfAnEntry: who heard of a part of an entry's events, and goes on at a node that begins behind that
// entry, is told of a gap; who heard of all, or where there were none, is not.
func TestGapInTheMiddleOfAnEntry(t *testing.T) {
	h := New(100)
	h.Opened(2, 24)
	began := h.Cursor()[1]
	h.Publish(2, 30, nil, true)
	for at, want := range map[wire.Position][]string{
		{Log: 2, Index: 23}:             {"gap"},
		{Log: 2, Index: 24, Ordinal: 1}: {"gap"},
		{Log: 2, Index: 24}:             nil,
		began:                           nil,
		{Log: 2, Index: 30}:             nil,
		{Log: 2, Index: 31}:             {"gap"}, // this node has not come so far
	} {
		f := new(observed.Follower)
		h.Subscribe(&wire.Subscription{Owner: "o", Sink: f, From: []wire.Position{h.Mark, at}})
		if !slices.Equal(f.Told, want) {
			t.Errorf("who was at %v is told %q, want %q", at, f.Told, want)
		}
	}
}

// TestGapBeforeAnEntry: a gap that is told before an event ends before the entry of that.
func TestGapBeforeAnEntry(t *testing.T) {
	h := New(100)
	h.Opened(2, 3)
	f := &observed.Follower{Cursor: []wire.Position{{Log: 2}}}
	h.Subscribe(&wire.Subscription{Owner: "o", Sink: f})
	h.Mu.Lock()
	h.gap()
	h.Mu.Unlock()
	h.Publish(2, 4, []engine.Event{{Kind: wire.EventKilled, Owner: "o", Path: "first"}}, true)
	if want := []string{"gap", "first"}; !slices.Equal(f.Told, want) {
		t.Errorf("it is told %q, want %q", f.Told, want)
	}
	if f.End.Index != 3 {
		t.Errorf("the gap ends at %v, and the event is of entry 4", f.End)
	}
}

// TestGapWhileSomeLeave: while everybody is told of a gap, some at a time, others leave. All who stay are told.
func TestGapWhileSomeLeave(t *testing.T) {
	const many = 3 * atOnce
	h := New(10)
	var stay []*observed.Events
	var leave []*wire.Subscription
	for i := range many {
		e := new(observed.Events)
		sub := &wire.Subscription{Owner: "o", Number: uint64(i), Sink: e}
		h.Subscribe(sub)
		if i%2 == 0 {
			stay = append(stay, e)
		} else {
			leave = append(leave, sub)
		}
	}
	h.Mu.Lock()
	h.gap()
	h.Mu.Unlock()
	told := 0
	h.each(func(l *listener, cursor []wire.Position) {
		h.tellGap(l, cursor)
		if told++; told%atOnce == 0 { // here the lock is let go
			for _, sub := range leave[:many/8] {
				h.subs.remove(sub)
			}
			leave = leave[many/8:]
		}
	})
	untold := 0
	for _, e := range stay {
		if _, gaps := e.Told(); gaps != 1 {
			untold++
		}
	}
	if untold > 0 {
		t.Errorf("%d of %d who stay are not told of the gap once", untold, len(stay))
	}
}
