package events

import (
	"fmt"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/internal/testkit/observed"
	"github.com/pathlockd/pathlockd/wire"
)

// granted is the events of one entry, one for each owner.
func granted(owners ...string) (events []engine.Event) {
	for _, o := range owners {
		events = append(events, engine.Event{Kind: wire.EventGrant, Owner: o, Path: "h:/a"})
	}
	return events
}

// heldUp is a sink that does not go on until it is let.
type heldUp struct {
	observed.Events
	at   chan uint64 // entries, as they are delivered
	goOn chan struct{}
}

func (e *heldUp) Deliver(_ *wire.Subscription, _ wire.EventKind, _, _ string, _ int64, at wire.Position) {
	e.at <- at.Index
	<-e.goOn
}

// TestReplayHoldsNobodyUp: while a subscriber is told what came before, entries are applied
// and others come and go. It is told those entries' events after that, in order, and then
// it is one like all others.
func TestReplayHoldsNobodyUp(t *testing.T) {
	h, e := New(100), &heldUp{at: make(chan uint64), goOn: make(chan struct{})}
	h.Opened(2, 3)
	h.Publish(2, 4, granted("o"), true)
	h.Publish(2, 5, granted("x", "o"), true)
	sub := &wire.Subscription{Owner: "o", Number: 1, Sink: e, From: []wire.Position{h.Mark, {Log: 2, Index: 3}}}
	subscribed := make(chan struct{})
	go func() {
		defer close(subscribed)
		h.Subscribe(sub)
	}()
	next := func(want uint64) {
		t.Helper()
		select {
		case got := <-e.at:
			if got != want {
				t.Errorf("told of entry %d, want %d", got, want)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("not told of entry %d", want)
		}
	}
	next(4)
	meanwhile := make(chan struct{})
	go func() {
		defer close(meanwhile)
		h.Publish(2, 6, granted("o"), true)
		other := &wire.Subscription{Owner: "o", Number: 2, Sink: new(observed.Events)}
		h.Subscribe(other)
		h.Unsubscribe(other)
		h.Progress()
	}()
	select {
	case <-meanwhile:
	case <-time.After(10 * time.Second):
		t.Fatal("one subscriber's replay holds everybody up")
	}
	e.goOn <- struct{}{}
	next(5)
	e.goOn <- struct{}{}
	next(6)
	e.goOn <- struct{}{}
	<-subscribed
	go h.Publish(2, 7, granted("o"), true)
	next(7)
	e.goOn <- struct{}{}
	h.Unsubscribe(sub)
}

// TestRecentByOwner: what is kept for who comes back is the last events of all owners
// together, and each gets its own of them.
func TestRecentByOwner(t *testing.T) {
	const keep, owners, entries = 10, 3, 30
	h := New(keep)
	h.Opened(2, 0)
	for i := range uint64(entries) {
		h.Publish(2, i+1, granted(fmt.Sprint("o", i%owners), "other"), true)
	}
	if s := h.Logs[2]; len(s.recent) != keep || len(s.owners) != owners+1 {
		t.Errorf("%d events of %d owners are kept, want %d of %d", len(s.recent), len(s.owners), keep, owners+1)
	}
	for from, want := range map[uint64]int{entries - 5: 1, entries - 3: 1, entries - 2: 0} {
		e := new(observed.Events)
		h.Subscribe(&wire.Subscription{Owner: "o0", Sink: e,
			From: []wire.Position{h.Mark, {Log: 2, Index: from, Ordinal: 2}}})
		if got, gaps := e.Told(); len(got) != want || gaps != 0 {
			t.Errorf("after entry %d: %q and %d gaps, want %d events", from, got, gaps, want)
		}
	}
	e := new(observed.Events)
	h.Subscribe(&wire.Subscription{Owner: "o0", Sink: e,
		From: []wire.Position{h.Mark, {Log: 2, Index: entries - 6, Ordinal: 2}}})
	if _, gaps := e.Told(); gaps != 1 {
		t.Errorf("from beyond what is kept: %d gaps", gaps)
	}
}

// TestCursorThatIsKept: of where a subscription began that is kept alone which this node has not
// reached yet, so that nothing is told again; and what happens again after a start of the node is
// told to who comes with a cursor, however little of it is kept.
func TestCursorThatIsKept(t *testing.T) {
	h, e := New(10), new(observed.Events)
	h.Opened(2, 5)
	h.Opened(3, 5)
	h.Began(3, 9)
	sub := &wire.Subscription{Owner: "o", Sink: e, From: []wire.Position{
		h.Mark, {Log: 2, Index: 5}, {Log: 3, Index: 5}, {Log: 4, Index: 6}, {Log: 4, Index: 7}, {Log: 4, Index: 7},
	}}
	h.Subscribe(sub)
	if want := (wire.Position{Log: 4, Index: 7}); len(sub.From) != 1 || sub.From[0] != want {
		t.Errorf("%v is kept, want %v", sub.From, want)
	}
	h.Publish(3, 8, granted("o"), true)
	h.Publish(4, 7, nil, true)
	h.Publish(2, 6, granted("o"), true)
	if got, gaps := e.Told(); len(got) != 2 || gaps != 0 {
		t.Errorf("heard %q and of %d gaps, want two events", got, gaps)
	}
	told := new(observed.Events)
	h.Subscribe(&wire.Subscription{Owner: "o", Sink: told, From: []wire.Position{
		h.Mark, {Log: 2, Index: 6, Ordinal: 1}, {Log: 3, Index: 8, Ordinal: 1}, {Log: 4, Index: 8, Ordinal: 1},
	}})
	h.Publish(4, 8, granted("o"), true) // told by a node that was further
	h.Publish(4, 9, granted("o"), true)
	if got, _ := told.Told(); len(got) != 1 {
		t.Errorf("heard %q, want the last event alone", got)
	}
	all := &wire.Subscription{Owner: "o", Sink: new(observed.Events), From: h.Cursor()}
	if h.Subscribe(all); all.From != nil {
		t.Errorf("%v is kept, and the node has reached all", all.From)
	}
}

// TestGapComesFirst: who missed events hears of that before any later one, and once.
func TestGapComesFirst(t *testing.T) {
	h := New(10)
	h.Opened(2, 3)
	var order []string
	sinks := make([]*wire.Subscription, 3*atOnce)
	for i := range sinks {
		name := fmt.Sprint("o", i)
		sinks[i] = &wire.Subscription{Owner: name, Sink: &orderly{name, &order}}
		h.Subscribe(sinks[i])
	}
	h.Mu.Lock()
	h.gap() // and before everybody was told
	h.Mu.Unlock()
	h.Publish(2, 4, granted("o7"), true)
	h.tellGaps()
	if len(order) != len(sinks)+1 || order[0] != "o7 gap" || order[1] != "o7 event" {
		t.Errorf("%d were told something, first %q", len(order), order[:min(3, len(order))])
	}
}

type orderly struct {
	name  string
	order *[]string
}

func (o *orderly) Deliver(*wire.Subscription, wire.EventKind, string, string, int64, wire.Position) {
	*o.order = append(*o.order, o.name+" event")
}
func (o *orderly) Progress(*wire.Subscription, []wire.Position) {}
func (o *orderly) Gap(*wire.Subscription, []wire.Position) {
	*o.order = append(*o.order, o.name+" gap")
}

// TestProgressOncePerConnection: however many subscriptions a connection has.
func TestProgressOncePerConnection(t *testing.T) {
	h, told := New(10), 0
	h.Opened(2, 3)
	conns := []*counted{{&told}, {&told}}
	for i := range 5 * atOnce {
		h.Subscribe(&wire.Subscription{Owner: fmt.Sprint("o", i), Sink: new(observed.Events), Conn: conns[i%2]})
	}
	for round := range uint64(3) {
		h.Publish(2, 4+round, nil, true)
		h.Progress()
		h.Progress() // nothing moved
	}
	if told != 2*3 {
		t.Errorf("told %d times, want 3 rounds of 2 connections", told)
	}
}

type counted struct{ n *int }

func (c *counted) Progress([]wire.Position) { *c.n++ }

// BenchmarkResume is a subscription with a cursor, while a hub keeps as much as it may.
func BenchmarkResume(b *testing.B) {
	h := fullHub(b, 1)
	from := []wire.Position{h.Mark}
	for log := uint64(2); log < 18; log++ {
		from = append(from, wire.Position{Log: log, Index: 1})
	}
	b.ReportAllocs()
	for b.Loop() {
		sub := &wire.Subscription{Owner: "o7", Sink: new(observed.Events), From: from}
		h.Subscribe(sub)
		h.Unsubscribe(sub)
	}
}

// BenchmarkHubHeld is progress to 100 000 subscriptions, and how long the worst entry waited
// meanwhile.
func BenchmarkHubHeld(b *testing.B) {
	h := fullHub(b, 100_000)
	worst := time.Duration(0)
	index := uint64(1 << 20)
	for b.Loop() {
		index++
		h.Publish(2, index, nil, true)
		done := make(chan struct{})
		go func() { defer close(done); h.Progress() }()
		for waiting := true; waiting; {
			select {
			case <-done:
				waiting = false
			default:
				began := time.Now()
				h.Where(2)
				worst = max(worst, time.Since(began))
			}
		}
	}
	b.ReportMetric(float64(worst.Microseconds()), "worst-µs")
}

// fullHub is a hub of 16 logs that keep 8192 events each, of 10 000 owners.
func fullHub(b *testing.B, subs int) *Hub {
	b.Helper()
	h := New(8192)
	for log := uint64(2); log < 18; log++ {
		h.Opened(log, 1)
		for i := range uint64(8192) {
			h.Publish(log, i+2, granted(fmt.Sprint("o", i%10_000)), true)
		}
	}
	for i := range subs {
		h.Subscribe(&wire.Subscription{Owner: fmt.Sprint("o", i), Sink: new(observed.Events)})
	}
	return h
}
