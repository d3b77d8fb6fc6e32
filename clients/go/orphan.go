package pathlockd

import (
	"errors"
	"strings"

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

// undoing is what gives back what an acquire may have taken.
func (c *Client) undoing(one *call, req *wire.Request) *giveBack {
	b := &giveBack{owner: strings.Clone(req.Owner), paths: releasesOf(req.Locks), by: one.id,
		in: one.session, as: one.as}
	for i := range b.paths { // which are of the call's frame
		b.paths[i].Path = strings.Clone(b.paths[i].Path)
	}
	if one.alone {
		b.other = &giveBack{owner: b.owner, paths: b.paths, alone: true}
	}
	return b
}

// orphaned takes a call back whose caller has gone. What it took is released.
func (c *Client) orphaned(one *call, ans *answer, err error) {
	one.forgoes()
	if one.undo && (err == nil && ans.held() || one.unknown(err)) {
		c.give(c.undoing(one, one.request()), one.gate).leave()
		one.gate = nil // which is left once that is over
	}
	if one.unknown(err) {
		err = ErrOutcomeUnknown
	}
	one.over(endingOf(ans, err))
}

// held says that an acquire was granted all of its paths, and holds at least some of them.
func (a *answer) held() bool {
	return a.result.Status == wire.StatusOK || a.result.Status == wire.StatusLost
}

// unknown says that an error leaves it open whether an acquire took what it names: of one
// that was sent before, what a node says of its own says nothing about the first time. It may be too busy now; or the
// paths have come to several namespaces since.
func (c *call) unknown(err error) bool {
	if errors.Is(err, ErrOutcomeUnknown) {
		return true
	}
	if codeOf(err) == wire.DeadlineExceeded {
		return !c.waits // else its wait is over
	}
	return c.refusedAgain(err)
}

// refusedAgain says that an error is what a node says of its own to a repeat of what may have been carried out: it says
// nothing about the first time.
func (c *call) refusedAgain(err error) bool {
	switch codeOf(err) {
	case wire.Unavailable, wire.ResourceExhausted, wire.InvalidArgument, wire.FailedPrecondition, wire.PermissionDenied:
		return c.resent && c.mutates()
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
