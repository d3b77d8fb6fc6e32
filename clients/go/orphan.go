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

// orphaned takes a call back whose caller has gone. What it took is released.
func (c *Client) orphaned(one *call, ans *answer, err error) {
	req := one.request()
	unknown := errors.Is(err, ErrOutcomeUnknown)
	switch {
	case one.must && (unknown || codeOf(err) == wire.Unavailable):
		c.releaseLater(req.Owner, slices.Clone(req.Releases))
	case one.undo && err == nil && ans.result.Status == wire.StatusOK:
		c.undoLater(req.Owner, releasesOf(req.Locks))
	case one.undo && unknown: // its wait is over; or it was granted, and nobody knows
		c.undoLater(req.Owner, releasesOf(req.Locks))
	}
}

// without answers the releases that take nothing from a lock of the same owner
// which the client still keeps.
func (k *keeper) without(owner string, rels []wire.ReleaseRequest) []wire.ReleaseRequest {
	k.mu.Lock()
	defer k.mu.Unlock()
	kept := make(map[wire.ReleaseRequest]bool)
	for name, l := range k.mu.leases {
		if name.owner != owner {
			continue
		}
		for _, lock := range l.locks {
			for _, p := range lock.paths {
				kept[wire.ReleaseRequest{Path: p.Path, Mode: p.Mode}] = true
			}
		}
	}
	return slices.DeleteFunc(rels, func(r wire.ReleaseRequest) bool { return kept[r] })
}

// releasesOf lists what gives back what a request takes.
func releasesOf(locks []wire.LockRequest) []wire.ReleaseRequest {
	rels := make([]wire.ReleaseRequest, 0, len(locks))
	for _, l := range locks {
		if l.State == wire.StateNew {
			rels = append(rels, wire.ReleaseRequest{Path: l.Path, Mode: l.Mode})
		}
	}
	return rels
}

// undoLater gives back in the background what an acquire took that nobody asked to
// keep.
func (c *Client) undoLater(owner string, rels []wire.ReleaseRequest) {
	owner = strings.Clone(owner)
	for i := range rels {
		rels[i].Path = strings.Clone(rels[i].Path)
	}
	c.spawn(func() {
		ctx, cancel := context.WithTimeout(c.ctx, releaseLaterWithin)
		defer cancel()
		_ = c.release(ctx, owner, c.keeper.without(owner, rels), false) // nobody is left to be told
	})
}

// releaseLaterWithin is how long a release in the background is tried. After that
// nobody renews the lease, which then ends by itself.
const releaseLaterWithin = time.Minute

// releaseLater gives paths back in the background.
func (c *Client) releaseLater(owner string, rels []wire.ReleaseRequest) {
	owner = strings.Clone(owner)
	for i := range rels {
		rels[i].Path = strings.Clone(rels[i].Path)
	}
	c.spawn(func() {
		ctx, cancel := context.WithTimeout(c.ctx, releaseLaterWithin)
		defer cancel()
		_ = c.release(ctx, owner, rels, false) // nobody is left to be told
	})
}

// release gives paths back, as many at once as a request takes. With later, what
// could not be done goes on in the background.
func (c *Client) release(ctx context.Context, owner string, rels []wire.ReleaseRequest, later bool) error {
	for len(rels) > 0 {
		n := min(len(rels), wire.MaxPaths)
		w := newWaiter(c)
		w.must = later // it is sent, and sent again, even if ctx ends
		_, err := w.ask(ctx, &wire.Request{Op: wire.OpRelease, Owner: owner, Releases: rels[:n]})
		if errors.Is(err, ErrOutcomeUnknown) && ctx.Err() == nil {
			continue // to release twice does no harm
		}
		if err != nil {
			if code := codeOf(err); code != wire.Unavailable && code != wire.DeadlineExceeded {
				rels = rels[n:] // refused for good, or on its way (must)
			}
			if later && len(rels) > 0 {
				c.releaseLater(owner, slices.Clone(rels))
			}
			return err
		}
		rels = rels[n:]
	}
	return nil
}
