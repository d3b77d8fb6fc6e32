package pathlockd

import (
	"context"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/wire"
)

// In some runs programs give back by requests of their own what locks of their owners hold: before these are asked for,
// while they are, and when they are held.

// simGivesLong is for how long at most what a program has asked to give back may be carried out yet.
const simGivesLong = 2 * time.Minute

// simGivenLate is for how long what a program has given back so may be believed in: nobody tells the client when it was
// carried out, and it asks as often as that (tie.go).
const simGivenLate = askedWithin + 100*time.Millisecond

// givingBack has the program do so now and then.
func (a *actor) givingBack(ctx context.Context, rnd *rand.Rand) {
	for ctx.Err() == nil {
		pauseFor(ctx, time.Duration(rnd.Int64N(int64([]time.Duration{time.Second, 8 * time.Second}[rnd.IntN(2)]))))
		short, cancel := context.WithTimeout(ctx,
			time.Duration(rnd.IntN([]int{20, 1000, 10_000}[rnd.IntN(3)]))*time.Millisecond)
		a.giveBack(short, rnd)
		cancel()
	}
}

// giveBack has it do so once.
func (a *actor) giveBack(ctx context.Context, rnd *rand.Rand) {
	c, owner := a.of.current()
	owner += a.suffix
	a.r.gives(owner)
	defer a.r.gives(owner)
	paths := a.r.pathsOf(owner, rnd)
	release := &wire.Request{Op: wire.OpRelease, Owner: owner, Releases: paths}
	acquire := &wire.Request{
		Op: wire.OpAcquire, Owner: owner, TTLMillis: 1000, QueueTTLMillis: uint64(1 + rnd.IntN(4000)),
		Locks: []wire.LockRequest{{Path: namespaceOf(paths[0].Path) + "/raw-" + a.name}}, Releases: paths[:1],
		Flags: []wire.Flags{0, wire.FlagNoQueue, wire.FlagWait}[rnd.IntN(3)],
	}
	switch rnd.IntN(6) {
	case 0:
		_, _ = c.Do(ctx, release)
	case 1:
		_ = c.ReleaseAll(ctx, owner, false, "", domains(simDomains[rnd.IntN(len(simDomains))])...)
	case 2:
		_ = c.ForceRelease(ctx, owner, "")
	case 3:
		_, _ = c.Do(ctx, acquire)
	case 4:
		done := make(chan struct{})
		c.Go([]*wire.Request{release, acquire}[rnd.IntN(2)], func(*wire.Result, error) { close(done) })
		select {
		case <-done:
		case <-ctx.Done(): // what becomes of it nobody knows
		}
		return
	case 5:
		b := c.Batch()
		_ = b.Add(release, nil)
		pauseFor(ctx, time.Duration(rnd.IntN(2000))*time.Millisecond)
		_ = b.Send(context.Background())
	}
	a.r.inTime(ctx, "what gives back")
}

// pathsOf draws what an owner's program gives back: what its locks hold, or may hold soon.
func (r *simRun) pathsOf(owner string, rnd *rand.Rand) (paths []wire.ReleaseRequest) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for b := range r.beliefs {
		if b.l.owner == owner && rnd.IntN(2) == 0 {
			p := b.l.paths[rnd.IntN(len(b.l.paths))]
			paths = append(paths, wire.ReleaseRequest{Path: p.Path, Mode: p.Mode})
		}
	}
	for len(paths) == 0 || rnd.IntN(3) == 0 {
		paths = append(paths, wire.ReleaseRequest{Path: simPaths[rnd.IntN(4)], Mode: Mode(rnd.IntN(2))})
	}
	return paths
}

// later says that a command which gives something back is carried out later than its node heard of it, and has it so:
// its log took it, and nobody knows.
func (s *simServer) later(c *simConn, cmd *engine.Command) bool {
	if !givesBack(cmd.Req) || s.behind == nil || s.rnd.IntN(2) == 0 {
		return false
	}
	in := time.Duration(s.rnd.Int64N(int64(10 * time.Second)))
	own := *cmd
	own.Req = takenBack(cmd.Req)
	own.Req.Flags, own.Req.TTLMillis = wire.FlagNoQueue, cmd.Req.TTLMillis
	for _, l := range cmd.Req.Locks {
		own.Req.Locks = append(own.Req.Locks, wire.LockRequest{Path: strings.Clone(l.Path), Mode: l.Mode})
	}
	own.NS = namespaceAsked(s.routes, own.Req)
	time.AfterFunc(in, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		at := s.tick()
		sess := s.use(c, at.Now)
		if sess == nil {
			return
		}
		if _, done := sess.answers[own.Caller.ID]; done || own.Caller.ID < sess.settled {
			return
		}
		res := s.state.Apply(at, &own, &s.out)
		s.note("%x/%d of %s: %v %q%s is carried out at last: %v %v", c.session[:2], own.Caller.ID, c.hello.Client,
			own.Req.Op, own.Req.Owner, about(own.Req), res.Code, res.Status)
		s.keep(own.Caller, &res)
		s.told()
	})
	return true
}

// gives takes note that an owner's program gives something back about now.
func (r *simRun) gives(owner string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.gave[owner] = time.Now()
}

// given says that what a belief stands for may have been given back by its program, so lately that its client need not
// know. Called under the lock of the run.
func (r *simRun) given(b *belief) bool {
	last, ok := r.gave[b.l.owner]
	if !ok || b.began.Sub(last) > simGivesLong {
		return false
	}
	if b.missed.IsZero() {
		b.missed = time.Now()
	}
	return time.Since(b.missed) < simGivenLate
}
