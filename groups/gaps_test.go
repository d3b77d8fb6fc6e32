package groups

import (
	"fmt"
	"slices"
	"testing"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/wire"
)

// follower is a client that keeps its cursor as PROTOCOL says: the position of each event takes the place of that of its log.
type follower struct {
	cursor []wire.Position
	told   []string
	gap    wire.Position // of the last log, where the last one ends
	on     func()        // called with the first event
}

func (f *follower) Deliver(_ *wire.Subscription, _ wire.EventKind, path, _ string, _ int64, at wire.Position) {
	f.told = append(f.told, path)
	i := slices.IndexFunc(f.cursor, func(p wire.Position) bool { return p.Log == at.Log })
	f.cursor[i] = at
	if on := f.on; on != nil {
		f.on = nil
		on()
	}
}
func (f *follower) Progress(_ *wire.Subscription, cursor []wire.Position) { f.cursor = cursor }
func (f *follower) Gap(_ *wire.Subscription, cursor []wire.Position) {
	f.told, f.cursor, f.gap = append(f.told, "gap"), slices.Clone(cursor), cursor[len(cursor)-1]
}

// TestGapWhileReplaying: who is told what came before, while the log jumps over events that are not known, hears of the gap
// before any later event: else the cursor that it keeps lies beyond the gap, and if its connection ends then it never
// hears of that.
func TestGapWhileReplaying(t *testing.T) {
	event := func(path string) []engine.Event {
		return []engine.Event{{Kind: wire.EventKilled, Owner: "o", Path: path}}
	}
	h := newHub(100)
	h.opened(2, 3)
	h.Publish(2, 4, event("first"), true)
	f := &follower{cursor: []wire.Position{h.mark, {Log: 2, Index: 3}}}
	f.on = func() {
		h.Missed(2, 10) // a snapshot is installed: what entries 5 to 10 told nobody knows here
		h.Publish(2, 11, event("later"), true)
	}
	sub := &wire.Subscription{Owner: "o", Sink: f, From: slices.Clone(f.cursor)}
	h.subscribe(sub)
	h.unsubscribe(sub)
	told := f.told
	at, gap := slices.Index(told, "later"), slices.Index(told, "gap")
	if gap >= 0 && (at < 0 || gap < at) {
		return
	}
	t.Errorf("it is told %q: the gap comes after what is later", told)
	// The connection ends after the later event: the client comes back with the cursor that it has then.
	back := &follower{cursor: []wire.Position{h.mark, {Log: 2, Index: 11, Ordinal: 1}}}
	h.subscribe(&wire.Subscription{Owner: "o", Sink: back, From: slices.Clone(back.cursor)})
	if len(back.told) == 0 {
		t.Error("and with the cursor that it had after the later event it is not told of the gap any more")
	}
}

// both is a connection with several subscriptions, each of which takes progress as its own cursor, as PROTOCOL says.
type both struct{ subs [2]follower }

func (c *both) Progress(cursor []wire.Position) {
	for i := range c.subs {
		f := &c.subs[i]
		f.told, f.cursor = append(f.told, "progress"), cursor
	}
}

// TestProgressAfterGap: of the subscriptions of one connection none takes a cursor from beyond a gap that it was not told of:
// if the connection ends then it never hears of that.
func TestProgressAfterGap(t *testing.T) {
	h := newHub(100)
	h.opened(2, 3)
	h.opened(3, 3)
	conn := new(both)
	for i := range conn.subs {
		h.subscribe(&wire.Subscription{Owner: "o", Sink: &conn.subs[i], Conn: conn})
	}
	h.mu.Lock() // as missed does, before it has told everybody
	h.open(2, 10)
	h.gap()
	h.mu.Unlock()
	h.Publish(3, 4, nil, true) // another log goes on
	h.progress()
	h.tellGaps()
	for i := range conn.subs {
		f := &conn.subs[i]
		if gap, at := slices.Index(f.told, "gap"), slices.Index(f.told, "progress"); gap < 0 || at >= 0 && at < gap {
			t.Errorf("subscription %d is told %q", i+1, f.told)
		}
	}
}

// TestProgressWhileReplaying: nor does one take a cursor from beyond what it asked to have again and was not told yet.
func TestProgressWhileReplaying(t *testing.T) {
	h := newHub(100)
	h.opened(2, 3)
	for i := range uint64(3) {
		h.Publish(2, 4+i, []engine.Event{{Kind: wire.EventKilled, Owner: "o", Path: fmt.Sprint(i)}}, true)
	}
	conn := new(both)
	other := &wire.Subscription{Owner: "p", Sink: &conn.subs[0], Conn: conn}
	h.subscribe(other)
	f := &conn.subs[1]
	f.cursor = []wire.Position{h.mark, {Log: 2, Index: 3}}
	f.on = h.progress
	h.subscribe(&wire.Subscription{Owner: "o", Sink: f, Conn: conn, From: slices.Clone(f.cursor)})
	if want := []string{"0", "1", "2"}; !slices.Equal(f.told, want) {
		t.Errorf("it is told %q, want %q", f.told, want)
	}
	h.progress()
	if at := f.cursor[len(f.cursor)-1]; f.told[len(f.told)-1] != "progress" || at.Index != 6 {
		t.Errorf("after that it is told %q, up to %v", f.told, at)
	}
	h.unsubscribe(other)
	h.Publish(2, 7, nil, true)
	h.progress()
	if at := f.cursor[len(f.cursor)-1]; at.Index != 7 {
		t.Errorf("when the other is gone it is told up to %v", at)
	}
}

// TestGapInTheMiddleOfAnEntry: who heard of a part of an entry's events, and goes on at a node that begins behind that
// entry, is told of a gap; who heard of all, or where there were none, is not.
func TestGapInTheMiddleOfAnEntry(t *testing.T) {
	h := newHub(100)
	h.opened(2, 24)
	began := h.cursor()[1]
	h.Publish(2, 30, nil, true)
	for at, want := range map[wire.Position][]string{
		{Log: 2, Index: 23}:             {"gap"},
		{Log: 2, Index: 24, Ordinal: 1}: {"gap"},
		{Log: 2, Index: 24}:             nil,
		began:                           nil,
		{Log: 2, Index: 30}:             nil,
		{Log: 2, Index: 31}:             {"gap"}, // this node has not come so far
	} {
		f := new(follower)
		h.subscribe(&wire.Subscription{Owner: "o", Sink: f, From: []wire.Position{h.mark, at}})
		if !slices.Equal(f.told, want) {
			t.Errorf("who was at %v is told %q, want %q", at, f.told, want)
		}
	}
}

// TestGapBeforeAnEntry: a gap that is told before an event ends before the entry of that.
func TestGapBeforeAnEntry(t *testing.T) {
	h := newHub(100)
	h.opened(2, 3)
	f := &follower{cursor: []wire.Position{{Log: 2}}}
	h.subscribe(&wire.Subscription{Owner: "o", Sink: f})
	h.mu.Lock()
	h.gap()
	h.mu.Unlock()
	h.Publish(2, 4, []engine.Event{{Kind: wire.EventKilled, Owner: "o", Path: "first"}}, true)
	if want := []string{"gap", "first"}; !slices.Equal(f.told, want) {
		t.Errorf("it is told %q, want %q", f.told, want)
	}
	if f.gap.Index != 3 {
		t.Errorf("the gap ends at %v, and the event is of entry 4", f.gap)
	}
}

// TestGapWhileSomeLeave: while everybody is told of a gap, some at a time, others leave. All who stay are told.
func TestGapWhileSomeLeave(t *testing.T) {
	const many = 3 * atOnce
	h := newHub(10)
	var stay []*ear
	var leave []*wire.Subscription
	for i := range many {
		e := new(ear)
		sub := &wire.Subscription{Owner: "o", Number: uint64(i), Sink: e}
		h.subscribe(sub)
		if i%2 == 0 {
			stay = append(stay, e)
		} else {
			leave = append(leave, sub)
		}
	}
	h.mu.Lock()
	h.gap()
	h.mu.Unlock()
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
		if _, gaps := e.heard(); gaps != 1 {
			untold++
		}
	}
	if untold > 0 {
		t.Errorf("%d of %d who stay are not told of the gap once", untold, len(stay))
	}
}
