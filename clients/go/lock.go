package pathlockd

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// Lock is a lock that is held, until Unlock or until it is lost. Its methods may be
// called by any number of goroutines.
type Lock struct {
	c     *Client
	owner string
	// which is its own: nobody knows the name before the lock is handed out, but the program may use it then
	alone     bool
	namespace string
	paths     []Path
	token     int64
	by        uint64    // the request that took it,
	in        *session  // of this session,
	as        sessionID // which was called so
	resent    bool      // and on several connections: it may have been granted anew on a later one
	ttl       time.Duration
	parent    context.Context // that it was taken with
	bound     bool            // Context ends with parent
	onRevoke  func(*Lock)
	lease     *lease        // under the keeper's lock; nil when it is not kept
	number    int           // likewise; of the locks that the lease has had
	sure      time.Duration // likewise; until when it is by the request that took it, or by renewals for its TTL
	confirmed bool          // likewise; a renewal said something of it
	// likewise; until when it counts at most, as what is under way may take it back; 0: nothing may
	capped  time.Duration
	risky   []bool        // likewise; which of the paths, while capped says so; nil: any
	risked  time.Duration // likewise; when something last might (Client.now)
	taken   time.Duration // likewise; when it was taken already (Client.now)
	lived   time.Duration // likewise; when it was held yet, or later
	curbs   curbs         // likewise; while it is asked for
	killed  time.Duration // likewise; when its owner was killed last meanwhile (Client.now), 0: never
	crossed bool          // likewise; another lock of its owner gives its path back, before or after what asks for it
	untold  bool          // likewise; a path without a token, which may be held by another request of its owner by now
	since   []int64       // likewise; since when each path is held, as the server told at a look (heldPath)
	fate    *LostError    // likewise; why it was lost, before the lock itself knows

	mu struct {
		sync.Mutex
		state   lockState
		err     error         // why it is not held
		lost    chan struct{} // made when somebody asks for it, like the next three
		revoked chan struct{}
		ctx     context.Context
		cancel  context.CancelCauseFunc
		asked   bool          // to let go
		freed   chan struct{} // closed when Unlock is done
		freeErr error
	}
}

type lockState uint8

const (
	lockHeld lockState = iota
	lockLost
	lockUnlocked
)

// unlockWithin is how long Unlock waits for the server.
const unlockWithin = 5 * time.Second

// Token is the lock's fencing token: give it to whatever the lock protects, which
// is to refuse tokens lower than one it has seen. 0 for reads and permits.
func (l *Lock) Token() int64 { return l.token }

// Owner is in whose name the lock is held. One that the option Owner did not name is for looking at.
func (l *Lock) Owner() string { return l.owner }

// Namespace is the one its paths lie in.
func (l *Lock) Namespace() string { return l.namespace }

// Paths is what it locks.
func (l *Lock) Paths() []Path { return slices.Clone(l.paths) }

// TTL is how long it outlives its last renewal.
func (l *Lock) TTL() time.Duration { return l.ttl }

// Deadline is until when the lock surely is held, if nothing more is heard of the server:
// by the local monotonic clock, which the Time carries. It moves with each renewal and each
// sign of life. The zero Time says that it is not held.
func (l *Lock) Deadline() time.Time {
	l.c.keeper.mu.Lock()
	defer l.c.keeper.mu.Unlock()
	if l.lease == nil {
		return time.Time{}
	}
	return l.c.at(l.lease.covers(l))
}

// Err says why the lock is not held: a LostError, or ErrUnlocked; nil while it is.
// It looks at the clock itself, and so is right even if the goroutine that watches
// over the locks did not get to run.
func (l *Lock) Err() error {
	l.mu.Lock()
	err := l.mu.err
	l.mu.Unlock()
	if err != nil {
		return err
	}
	if l.c.keeper.over(l) {
		l.lose() // somebody else may have found out, and not told yet
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.mu.err
	}
	return nil
}

// Lost is closed when the lock is lost; never by Unlock. Err says why.
func (l *Lock) Lost() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.lost == nil {
		l.mu.lost = make(chan struct{})
		if l.mu.state == lockLost {
			close(l.mu.lost)
		}
	}
	return l.mu.lost
}

// Revoked is closed when somebody asks the lock's owner to let go. The lock is
// still held then.
func (l *Lock) Revoked() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.revoked == nil {
		l.mu.revoked = make(chan struct{})
		if l.mu.asked {
			close(l.mu.revoked)
		}
	}
	return l.mu.revoked
}

// Context ends when the lock is lost, or cannot be told not to be, or is unlocked:
// context.Cause says which, as Err does. It has the values of the context that the
// lock was taken with, and not its end.
func (l *Lock) Context() context.Context {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.ctx == nil {
		parent := l.parent
		if !l.bound {
			parent = context.WithoutCancel(parent)
		}
		l.mu.ctx, l.mu.cancel = context.WithCancelCause(parent)
		if l.mu.err != nil {
			l.mu.cancel(l.mu.err)
		}
	}
	return l.mu.ctx
}

// lose takes note that the lock is lost, if it is.
func (l *Lock) lose() {
	l.c.keeper.mu.Lock()
	err := l.fate
	l.c.keeper.mu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil || l.mu.state != lockHeld {
		return
	}
	l.mu.state, l.mu.err = lockLost, err
	if l.mu.lost != nil {
		close(l.mu.lost)
	}
	if l.mu.cancel != nil {
		l.mu.cancel(err)
	}
}

// revoke takes note that somebody asks to let go.
func (l *Lock) revoke() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.asked || l.mu.state != lockHeld {
		return
	}
	l.mu.asked = true
	if l.mu.revoked != nil {
		close(l.mu.revoked)
	}
	if l.onRevoke != nil {
		go l.onRevoke(l)
	}
}

// Unlock gives the lock back. It works whatever became of the context that the
// lock was taken with, and waits at most 5 s for the server; if that does not
// answer, the release goes on in the background, and the lease ends by itself.
//
// A LostError says that the lock was lost before; what may be held of it still is given back
// in the background. Of an owner that the program names (Owner) that is so for as long as servers
// remember the client's session, a minute; after that it ends with the lease. Called again, Unlock
// answers the same.
func (l *Lock) Unlock() error {
	ctx, cancel := context.WithTimeout(context.Background(), unlockWithin)
	defer cancel()
	return l.UnlockContext(ctx)
}

// UnlockContext is Unlock that waits for the server until ctx ends. The release is
// tried in any case, also if ctx has ended before, and for a minute after that.
func (l *Lock) UnlockContext(ctx context.Context) error {
	_ = l.Err() // which looks at the clock: nobody else may have since the machine was suspended
	l.mu.Lock()
	was := l.mu.state
	if was == lockUnlocked {
		freed := l.mu.freed
		l.mu.Unlock()
		select {
		case <-freed:
			return l.mu.freeErr
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	l.mu.state, l.mu.freed = lockUnlocked, make(chan struct{})
	g := l.c.gates.close(l.owner) // what its owner asks for from here on comes behind the release
	todo, b, lost := l.c.keeper.drop(l)
	if l.mu.err = ErrUnlocked; lost != nil {
		l.mu.err = lost
	}
	if l.mu.cancel != nil {
		l.mu.cancel(l.mu.err)
	}
	l.mu.Unlock()
	todo.do(l.c)
	l.mu.freeErr = l.free(ctx, b, lost, g)
	close(l.mu.freed)
	return l.mu.freeErr
}

// free releases what the lock took, and leaves the gate. Of one that is lost some may be held still.
func (l *Lock) free(ctx context.Context, b *giveBack, lost *LostError, g *gate) error {
	if lost != nil {
		if !lost.whole() {
			l.c.give(l.undoing(), g).leave()
		} else {
			g.leave()
		}
		return lost
	}
	return l.c.release(ctx, b, g)
}

// giveBack is what gives the lock back, which is surely held until a time: by its token; and if others may have asked
// for things in its owner's name, shared, which raises that, by the request that took it as well, for as long as its
// session lasts. What
// no token tells from what others take goes by itself for as long as it surely is held, and by its request from then
// on, and by those of its owner's locks that have gone along.
func (l *Lock) giveBack(until time.Duration, gone []*Lock, shared bool) *giveBack {
	b := &giveBack{owner: l.owner, paths: l.releases(), token: l.token, alone: !shared}
	if !shared {
		return b
	}
	b.loose = slices.ContainsFunc(l.paths, func(p Path) bool { return p.Permits > 0 })
	if slices.ContainsFunc(b.paths, b.loosely) {
		b.until = until
		for _, one := range append([]*Lock{l}, gone...) {
			b.late = append(b.late, &giveBack{owner: l.owner, by: one.by, in: one.in, as: one.as})
		}
	}
	if b.token == 0 {
		return b
	}
	both := *b
	both.by, both.in, both.as, both.other = l.by, l.in, l.as, b
	return &both
}

// undoing is what gives back what the lock took, if nobody has asked for it since.
func (l *Lock) undoing() *giveBack {
	return &giveBack{owner: l.owner, paths: l.releases(), by: l.by, in: l.in, as: l.as, other: l.otherwise()}
}

// otherwise is what does so when the session that took the lock is over: what is held is known by the
// owner then, if that is the lock's own. A token does not tell a lock from a later one, as an owner that
// takes a path again which it writes already keeps the token.
func (l *Lock) otherwise() *giveBack {
	if !l.alone || l.c.keeper.succeeded(l) {
		return nil
	}
	return &giveBack{owner: l.owner, paths: l.releases(), token: l.token, alone: true}
}

func (l *Lock) releases() []wire.ReleaseRequest {
	rels := make([]wire.ReleaseRequest, len(l.paths))
	for i, p := range l.paths {
		rels[i] = wire.ReleaseRequest{Path: p.Path, Mode: p.Mode}
	}
	return rels
}
