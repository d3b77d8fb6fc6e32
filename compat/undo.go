package compat

import (
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// What becomes of an acquire whose call ended before it was answered. Nobody will hear of
// the grant if there is one, so it is taken back: by a release that names the request
// (granted_by), which the log carries out after the request itself, ends its wait if it
// still waits, and leaves alone what another request of the owner took or named.
//
// An acquire with an idempotency key is not: its client can ask again what became of it,
// and is told. It leaves the queue, as any call that ends.

const (
	// undoAgain is how long the release of an acquire waits before it is asked again, when
	// it was not carried out, at first and at most.
	undoAgain, undoAgainAtMost = time.Second, 30 * time.Second
	// undoLeaving is how long it waits while the node stops, which leaves it leaveAtMost.
	undoLeaving = 20 * time.Millisecond
	// maxUndone is how many acquires are being taken back at once. Over it one leaves the
	// queue, and what it is granted stands until its lease ends.
	maxUndone = 16_384
)

// undo takes back an acquire whose caller has gone. answered says that its answer has
// been taken already: it was granted.
func (b *bridge) undo(c *call, answered bool) {
	keyed, waits := c.req.Key != "", c.req.Flags&wire.FlagWait != 0
	if c.req.Op != wire.OpAcquire || keyed && (answered || !waits) || !b.beginUndo() {
		if !answered && waits {
			b.handler.Cancel(c.request())
		}
		b.sessions.put(c.of)
		return
	}
	go func() {
		defer b.endUndo()
		defer b.sessions.put(c.of)
		if t := takingOf(c); t != nil && !keyed {
			if answered {
				c = nil
			}
			b.takeBack(t, c)
		} else if !answered {
			b.cancel(c)
		}
	}()
}

// undoAnswered takes back what was answered to a call that had ended by then.
func (b *bridge) undoAnswered(t *taken) {
	if !b.beginUndo() {
		return
	}
	go func() {
		defer b.endUndo()
		b.takeBack(t, nil)
	}()
}

// cancel cancels a wait until it is answered: a cancel that meets a request on its way to
// another group ends nothing.
func (b *bridge) cancel(c *call) {
	for pause := undoAgain; ; pause = min(2*pause, undoAgainAtMost) {
		b.handler.Cancel(c.request())
		if c.isDone(pause) || b.left() {
			return
		}
	}
}

// taken is what an acquire takes.
type taken struct {
	of       *session
	id       uint64 // of the request in its session
	owner    string
	releases []wire.ReleaseRequest
	lasts    time.Duration // until it is over, unless its owner renewed it, who knows of it then
}

// takingOf is what an acquire takes, nil when that is nothing.
func takingOf(c *call) *taken {
	waits := max(c.req.QueueTTLMillis, wire.DefaultQueueTTLMillis)
	t := &taken{of: c.of, id: c.ID, owner: c.req.Owner, lasts: time.Duration(c.req.TTLMillis+waits) * time.Millisecond}
	for i := range c.req.Locks { // also those it said it holds: it relies on them, and then no more
		l := &c.req.Locks[i]
		t.releases = append(t.releases, wire.ReleaseRequest{Path: l.Path, Mode: l.Mode})
	}
	if len(t.releases) == 0 {
		return nil
	}
	return t
}

// takeBack asks for the release of what an acquire takes until it is carried out, and until
// the acquire c is answered; nil when it is.
func (b *bridge) takeBack(t *taken, c *call) {
	r := b.begin(wire.OpRelease)
	r.of, r.aside = t.of, true
	// It is not validated: it has as many paths as the acquire, which may be a bulk one.
	r.req.Owner, r.req.Target = t.owner, t.id
	r.req.Releases = append(r.req.Releases, t.releases...)
	r.name(t.of.last.Add(1))
	bytes := 2 * int64(len(r.Body)) // not refused: it is what is given back that would be held
	b.held.Add(bytes)
	defer b.held.Add(-bytes)
	ends := time.Now().Add(t.lasts)
	answered := c == nil
	released, leaves := false, false
	for pause := undoAgain; ; pause = min(2*pause, undoAgainAtMost) {
		switch {
		case !released: // again under its id: it is carried out once
			b.handler.Serve(r.list)
			<-r.done
			switch r.Res.Code {
			case wire.OK:
				released = true
			case wire.Unavailable, wire.DeadlineExceeded, wire.ResourceExhausted:
			default:
				return
			}
		case !answered:
			b.handler.Cancel(c.request())
		}
		if !answered && c.isDone(pause) {
			answered = true
			if c.Res.Code != wire.OK && c.Res.Code != wire.DeadlineExceeded {
				return // nothing was granted, nor will be
			}
			if released && c.Res.Code == wire.OK { // after the release: that was too early
				r.name(t.of.last.Add(1))
				released = false
				continue
			}
		}
		switch {
		case released && answered:
			return
		case time.Now().After(ends):
			return
		case answered && b.sleeps(pause):
		case !b.left():
		case released:
			return
		case !leaves: // it may be refused for what else is under way, which the node finishes
			leaves = true
			if last := time.Now().Add(leaveAtMost); last.Before(ends) {
				ends = last
			}
			fallthrough
		default:
			time.Sleep(undoLeaving)
			pause = undoLeaving / 2
		}
	}
}

// isDone waits for a call's answer, and says whether it came.
func (c *call) isDone(within time.Duration) bool {
	late := time.NewTimer(within)
	defer late.Stop()
	select {
	case <-c.done:
		return true
	case <-late.C:
		return false
	}
}

// sleeps waits, and says that the node does not stop.
func (b *bridge) sleeps(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-b.leaving:
		return false
	}
}

// left says that the node stops.
func (b *bridge) left() bool {
	select {
	case <-b.leaving:
		return true
	default:
		return false
	}
}

// beginUndo notes an acquire that is taken back, unless there are too many. A node that
// stops waits for it as for acquires that wait.
func (b *bridge) beginUndo() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.mu.undone >= maxUndone {
		return false
	}
	b.mu.undone++
	b.mu.waits++
	return true
}

func (b *bridge) endUndo() {
	b.mu.Lock()
	b.mu.undone--
	b.mu.Unlock()
	b.endWait()
}
