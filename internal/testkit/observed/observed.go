// Package observed has a listener for tests: it writes down the events it is told.
package observed

import (
	"fmt"
	"slices"
	"sync"

	"github.com/pathlockd/pathlockd/wire"
)

// Events is a wire.Sink that keeps what it is told.
type Events struct {
	mu   sync.Mutex
	Got  []string // kind, path and token of each. To be read with Told while anybody may tell more
	gaps int
}

// Deliver implements wire.Sink, as do the two that follow.
func (e *Events) Deliver(_ *wire.Subscription, kind wire.EventKind, path, _ string, token int64, _ wire.Position) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.Got = append(e.Got, fmt.Sprintf("%s %s %d", kind, path, token))
}

func (e *Events) Progress(*wire.Subscription, []wire.Position) {}

func (e *Events) Gap(*wire.Subscription, []wire.Position) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.gaps++
}

// Told is what was told so far, and how often that something was missed.
func (e *Events) Told() ([]string, int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.Got), e.gaps
}

// Follower is a client that keeps its cursor as PROTOCOL says: the position of each event takes the place of that of
// its log.
type Follower struct {
	Cursor []wire.Position
	Told   []string
	End    wire.Position // of the last log, where the last one ends
	On     func()        // called with the first event
}

// Deliver implements wire.Sink, as do the two that follow.
func (f *Follower) Deliver(_ *wire.Subscription, _ wire.EventKind, path, _ string, _ int64, at wire.Position) {
	f.Told = append(f.Told, path)
	i := slices.IndexFunc(f.Cursor, func(p wire.Position) bool { return p.Log == at.Log })
	f.Cursor[i] = at
	if on := f.On; on != nil {
		f.On = nil
		on()
	}
}

// Progress implements wire.Sink.
func (f *Follower) Progress(_ *wire.Subscription, cursor []wire.Position) { f.Cursor = cursor }

// Gap implements wire.Sink.
func (f *Follower) Gap(_ *wire.Subscription, cursor []wire.Position) {
	f.Told, f.Cursor, f.End = append(f.Told, "gap"), slices.Clone(cursor), cursor[len(cursor)-1]
}

// Connection is a connection with several subscriptions, each of which takes progress as its own cursor, as PROTOCOL
// says.
type Connection struct{ Subs [2]Follower }

// Progress takes it for all of them.
func (c *Connection) Progress(cursor []wire.Position) {
	for i := range c.Subs {
		f := &c.Subs[i]
		f.Told, f.Cursor = append(f.Told, "progress"), cursor
	}
}
