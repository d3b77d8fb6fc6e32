package pathlockd

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// What becomes of calls that nobody waits for any more.

// remembered says that the server still knows a call that was sent, so that a
// repeat of it would not be carried out twice.
func (c *Client) remembered(one *call) bool {
	s := one.session
	s.mu.Lock()
	defer s.mu.Unlock()
	repeat := s.mu.limits.repeat
	return c.now()-one.sent < repeat-repeat/10
}

// giveBack is paths to be released, and what says that nobody has taken them anew since:
// an owner's next lock is not to go with them.
type giveBack struct {
	owner string
	paths []wire.ReleaseRequest
	token int64     // under which its writes are held; 0: it has none
	by    uint64    // the acquire that took them, as its session numbers it; 0: any
	in    *session  // that one
	as    sessionID // and what it was called then
	other *giveBack // what does when that session is over; nil: nothing, and the lease ends by itself
	alone bool      // its owner is one that the client made up: nobody else takes anything in its name
}

// again is what does when nobody knows whether a release was carried out, or its session is over; nil: nothing.
// The token of a write tells it from what was taken since. Of reads and permits nothing does: those of an owner
// that the program names are released a second time only if they were not, for certain.
func (b *giveBack) again(unsent bool) *giveBack {
	next := b
	if b.by != 0 {
		next = b.other
	}
	if next == nil {
		return nil
	}
	rest := *next
	rest.paths = slices.Clone(b.paths) // what is left of them
	if !next.alone && !unsent {
		rest.paths = slices.DeleteFunc(rest.paths, func(p wire.ReleaseRequest) bool {
			return next.token == 0 || p.Mode == wire.ModeRead
		})
	}
	if len(rest.paths) == 0 {
		return nil
	}
	return &rest
}

// undoing is what gives back what an acquire may have taken.
func (c *Client) undoing(one *call, req *wire.Request) *giveBack {
	return &giveBack{owner: req.Owner, paths: releasesOf(req.Locks), by: one.id, in: one.session, as: one.session.named()}
}

// orphaned takes a call back whose caller has gone. What it took is released.
func (c *Client) orphaned(one *call, ans *answer, err error) {
	one.forgoes()
	req := one.request()
	unknown := errors.Is(err, ErrOutcomeUnknown)
	switch {
	case one.must && (unknown || codeOf(err) == wire.Unavailable):
		rest := one.back
		if unknown || one.resent && rest.by == 0 { // one that names its request does no harm twice
			rest = rest.again(errors.Is(err, errRetired))
		}
		if rest == nil {
			one.gate.leave()
			return
		}
		c.releaseLater(rest, one.gate)
	case one.undo && (err == nil && ans.result.Status == wire.StatusOK || one.unknown(err)): // granted, or nobody knows
		c.releaseLater(c.undoing(one, req), one.gate)
	default:
		one.gate.leave()
	}
}

// unknown says that an error leaves it open whether an acquire took what it names: of one
// that was sent before, UNAVAILABLE says nothing about the first time.
func (c *call) unknown(err error) bool {
	if errors.Is(err, ErrOutcomeUnknown) {
		return true
	}
	switch codeOf(err) {
	case wire.Unavailable:
		return c.resent
	case wire.DeadlineExceeded:
		return !c.waits // else its wait is over
	}
	return false
}

// releasesOf lists what gives back what a request takes, and what it relies on beside that.
func releasesOf(locks []wire.LockRequest) []wire.ReleaseRequest {
	rels := make([]wire.ReleaseRequest, len(locks))
	for i := range locks {
		rels[i] = wire.ReleaseRequest{Path: locks[i].Path, Mode: locks[i].Mode}
	}
	return rels
}

// releaseLaterWithin is how long a release in the background is tried. After that
// nobody renews the lease, which then ends by itself.
const releaseLaterWithin = time.Minute

// releaseLater gives paths back in the background, and leaves the gate when that is done.
func (c *Client) releaseLater(b *giveBack, g *gate) {
	b.owner = strings.Clone(b.owner)
	for i := range b.paths {
		b.paths[i].Path = strings.Clone(b.paths[i].Path)
	}
	c.spawn(func() {
		ctx, cancel := context.WithTimeout(c.ctx, releaseLaterWithin)
		defer cancel()
		_ = c.release(ctx, b, false, g) // nobody is left to be told
	})
}

// release gives paths back, as many at once as a request takes. With later, what
// could not be done goes on in the background. It leaves the gate when nothing of that
// is under way any more.
func (c *Client) release(ctx context.Context, b *giveBack, later bool, g *gate) error {
	defer g.leave()
	for len(b.paths) > 0 {
		n := min(len(b.paths), wire.MaxPaths)
		w := newWaiter(c)
		w.must = later // it is sent, and sent again, even if ctx ends
		w.gate = g.enter()
		some := *b
		some.paths = slices.Clip(b.paths[:n])
		w.back = &some
		if planted == plantLateRelease {
			b.by, b.token = 0, 0
		}
		if b.by != 0 {
			w.in, w.as = b.in, b.as // which alone knows what it names
		}
		_, err := w.ask(ctx, &wire.Request{Op: wire.OpRelease, Owner: b.owner, Releases: b.paths[:n], Token: b.token, Target: b.by})
		if errors.Is(err, ErrOutcomeUnknown) && ctx.Err() == nil {
			if next := b.again(errors.Is(err, errRetired)); next != nil {
				b = next
				continue
			}
		}
		if err != nil {
			if code := codeOf(err); code != wire.Unavailable && code != wire.DeadlineExceeded {
				b.paths = b.paths[n:] // refused for good, or on its way (must)
			}
			if later && len(b.paths) > 0 {
				rest := *b
				rest.paths = slices.Clone(b.paths)
				c.releaseLater(&rest, g.enter())
			}
			return err
		}
		b.paths = b.paths[n:]
	}
	return nil
}
