package pathlockd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

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
	// what does from until on for what no token tells from what is taken later; none: it never is late
	late  []*giveBack
	until time.Duration // that is surely held so long (Client.now)
	alone bool          // its owner is one that the client made up: nobody else takes anything in its name
	loose bool          // it is permits, which no token tells from later ones, as reads
}

// loosely says that no token tells a path's hold from one of later.
func (b *giveBack) loosely(p wire.ReleaseRequest) bool {
	return b.loose || b.token == 0 || p.Mode == wire.ModeRead
}

// some is the same of some of its paths.
func (b *giveBack) some(paths []wire.ReleaseRequest) *giveBack {
	own := *b
	own.paths = slices.Clip(paths)
	return &own
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
	rest := next.some(slices.Clone(b.paths))
	if !next.alone && !unsent {
		rest.paths = slices.DeleteFunc(rest.paths, next.loosely)
	}
	if len(rest.paths) == 0 {
		return nil
	}
	return rest
}

// parts is what is released in one request each. What no token tells from what is taken later goes by what
// does from until on.
func (b *giveBack) parts(now time.Duration) (all []*giveBack) {
	if b.isLate(now) {
		var loose, other []wire.ReleaseRequest
		for _, p := range b.paths {
			if b.loosely(p) {
				loose = append(loose, p)
			} else {
				other = append(other, p)
			}
		}
		for _, late := range b.late {
			all = append(all, late.some(loose).parts(now)...)
		}
		if len(other) == 0 {
			return all
		}
		b = b.some(other)
		b.late = nil
	}
	for some := range slices.Chunk(b.paths, wire.MaxPaths) {
		all = append(all, b.some(some))
	}
	return all
}

// isLate says that it has to be gone about otherwise by now.
func (b *giveBack) isLate(now time.Duration) bool { return b.isLoose() && now >= b.until }

// isLoose says that no token tells some of it from what is taken later, but what does once it is late.
func (b *giveBack) isLoose() bool { return len(b.late) > 0 }

// giving is a release under way. It is asked until it is answered, or nobody can tell any more whether it was
// carried out: under its id for as long as servers know that, whether somebody waits for it or not. What waits for
// nobody is given up after a while, and ends with its lease.
type giving struct {
	c    *Client
	gate *gate
	done chan struct{} // closed when it is over
	err  error         // of the first part that was not released; once it is done

	mu     sync.Mutex
	parts  []*giveBack // to be released yet, one after the other
	call   *call       // which asks for the first of them; nil: none does
	failed error
	tries  int
	timer  *time.Timer // until it is given up, as nobody waits for it; nil: somebody does
	ends   bool        // or any more for that
	over   bool
}

// givesUp is how long a release is tried that nobody waits for. After that nobody renews the lease, which then
// ends by itself.
const givesUp = time.Minute

// give starts a release, and leaves the gate when it is over.
func (c *Client) give(b *giveBack, g *gate) *giving {
	r := &giving{c: c, gate: g, done: make(chan struct{}), parts: b.parts(c.now())}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ask()
	return r
}

// release gives paths back and waits for that until ctx ends. It goes on then.
func (c *Client) release(ctx context.Context, b *giveBack, g *gate) error {
	r := c.give(b, g)
	select {
	case <-r.done:
		return r.err
	case <-ctx.Done():
	}
	select {
	case <-r.done:
		return r.err
	default:
	}
	r.leave()
	return fmt.Errorf("%s: %w: %w", wire.OpRelease, ErrOutcomeUnknown, context.Cause(ctx))
}

// leave is called when nobody waits for it any more.
func (r *giving) leave() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.timer != nil || r.over {
		return
	}
	r.timer = time.AfterFunc(givesUp, r.end)
}

// end gives it up: what was not sent is not any more.
func (r *giving) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ends = true; r.over || r.call == nil {
		return
	}
	r.call.gate = r.gate // if it does not land, that is left all the same
	if r.c.forsake(r.call) {
		r.call.free()
		r.close()
	}
}

// close is called when it is over.
func (r *giving) close() {
	r.call, r.parts, r.over = nil, nil, true
	if r.timer != nil {
		r.timer.Stop()
	}
	r.err = r.failed
	close(r.done)
	r.gate.leave()
}

// ask asks for the first part that is left.
func (r *giving) ask() {
	for len(r.parts) > 0 && !r.ends {
		b := r.parts[0]
		if b.isLate(r.c.now()) {
			r.instead(b.parts(r.c.now())...)
			continue
		}
		req := &wire.Request{Op: wire.OpRelease, Owner: b.owner, Releases: b.paths, Token: b.token, Target: b.by}
		if planted == plantLateRelease {
			req.Token, req.Target = 0, 0
		}
		one := newCall(r)
		one.set(req)
		one.timed, one.repeats = true, true
		if b.isLoose() {
			one.until = b.until // and on this connection alone
		}
		if b.by != 0 { // its session alone knows what it names
			one.session, one.fixed, one.as = b.in, true, b.as
		}
		err := r.c.fitsFrame(one)
		if err == nil {
			err = r.c.submit(one, req)
		}
		if err == nil {
			if r.call = one; one.fixed {
				r.c.keeper.heed()
			}
			return
		}
		one.free()
		r.refused(err, true)
	}
	r.close()
}

// instead puts others in the place of the first part.
func (r *giving) instead(others ...*giveBack) {
	r.parts, r.tries = append(slices.Clip(others), r.parts[1:]...), 0
}

// refused takes note that the first part was not taken, for good; or that nobody can tell.
func (r *giving) refused(err error, unsent bool) {
	switch {
	case errors.Is(err, errLate):
		r.late()
		return
	case errors.Is(err, ErrOutcomeUnknown), errors.Is(err, errRetired):
		r.unknown(unsent)
		return
	case errors.Is(err, ErrClosed):
		r.ends = true
	}
	r.fails(err)
	r.instead()
}

// unknown takes note that nobody can tell what became of the first part, or that it was not sent by its session and
// will not be.
func (r *giving) unknown(unsent bool) {
	if next := r.parts[0].again(unsent); next != nil {
		r.instead(next)
		return
	}
	r.fails(fmt.Errorf("%s: %w", wire.OpRelease, ErrOutcomeUnknown))
	r.instead()
}

func (r *giving) fails(err error) {
	if r.failed == nil {
		r.failed = err
	}
}

// land implements receiver.
func (r *giving) land(one *call, rep *reply) {
	err := rep.decode(one, &rep.scratch)
	r.mu.Lock()
	defer r.mu.Unlock()
	code := codeOf(err)
	busy := rep.err == nil && (code == wire.Unavailable || code == wire.ResourceExhausted) // it was not carried out now
	unheard := busy || rep.err == nil && code == wire.DeadlineExceeded
	switch {
	case err == nil:
		r.instead()
	case busy && !one.resent, unheard && r.parts[0].isLoose():
		// Not before either; or nobody knows, and what was carried out is not there for what it goes by from now on.
		r.late()
		r.drop(one)
		r.after(r.pause(), r.ask)
		return
	case unheard && r.c.remembered(one):
		one.resent = true // whatever is answered next may be about that time alone
		r.again(one)
		return
	case unheard:
		r.unknown(false)
	default:
		r.refused(err, one.id == 0)
	}
	r.drop(one)
	if len(r.parts) == 0 || r.ends {
		r.close()
		return
	}
	r.after(0, r.ask) // not here: land must not block
}

// late has the first part go about otherwise from now on, if no token tells what it gives back from what is taken
// later: it was not taken when it was to be, and what its owner holds may end in many ways until it is asked again.
func (r *giving) late() { r.parts[0].until = 0 }

// again asks the same call again, after a pause.
func (r *giving) again(one *call) {
	r.after(r.pause(), func() {
		if !r.ends {
			err := r.c.submit(one, nil)
			if err == nil {
				return
			}
			r.refused(err, false)
		}
		r.drop(one)
		r.ask()
	})
}

// after calls f after a pause.
func (r *giving) after(d time.Duration, f func()) {
	time.AfterFunc(d, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		f()
	})
}

// pause is how long to wait before the next try.
func (r *giving) pause() time.Duration {
	most := maxRetry
	select {
	case <-r.c.leaving:
		most = closeRetry
	default:
	}
	r.tries++
	return backoff(r.tries-1, minRetry, most)
}

// drop lets go of a call that has come back.
func (r *giving) drop(one *call) {
	one.forgoes()
	one.free()
	r.call = nil
}
