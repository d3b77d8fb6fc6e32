package crash

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/pathlockd/pathlockd/bench/session"
	"github.com/pathlockd/pathlockd/wire"
)

const (
	// long is a lease, and a time in the queue, that outlives every run.
	long = time.Hour
	// breath is what a client waits for at most before it asks again.
	breath = 4 * time.Millisecond
	// patience bounds every wait for an answer.
	patience = 30 * time.Second
)

// actor is one client with a part to play: a goroutine and a session.
type actor struct {
	load   *load
	name   string
	rng    *rand.Rand
	s      *session.Session
	conn   *session.Conn
	gen    int // generation of the server it is connected to
	serial int // of its asks
}

// owner is one owner that an actor plays, and its only paths.
type owner struct {
	a         *actor
	id        string
	namespace string
	paths     []string
	mode      wire.Mode
	permits   uint32
	ttl       time.Duration
	number    int // of its ask
	token     int64
}

func (a *actor) owner(id, namespace string, ttl time.Duration, paths ...string) *owner {
	o := &owner{a: a, id: id, namespace: namespace, paths: paths, ttl: ttl}
	o.next()
	return o
}

// next begins another ask.
func (o *owner) next() {
	o.a.serial++
	o.number, o.token = o.a.serial, 0
}

// do asks something and records it. When the server dies meanwhile, do asks the
// same again of the next one, in the same session, or gives up on it. It answers
// false if it gave up, was refused, or the run is over.
func (a *actor) do(op Op, req *wire.Request) (*wire.Result, bool) {
	if !a.ready() {
		return nil, false
	}
	rec := a.load.rec
	o := rec.Begin(op)
	id := a.s.Next()
	for {
		res, err := a.ask(id, req, func(token int64) { rec.Queue(o, token) })
		if err == nil {
			rec.Answer(o, res)
			if res.Code != wire.OK && res.Code != wire.Unavailable && res.Code != wire.DeadlineExceeded {
				a.load.fail(fmt.Errorf("%s: %v: %w", op.Owner, op.Kind, res.Err()))
			}
			return res, res.Code == wire.OK
		}
		a.gen = -1
		if a.load.ctx.Err() != nil {
			rec.Cut(o) // the run is over
			return nil, false
		}
		// Half of what is unanswered stays so. The counter shows whether what is asked
		// again is done once, so all of it is.
		if op.Kind != Increment && a.rng.IntN(2) == 0 {
			rec.Abandon(o)
			a.s = session.New()
			return nil, false
		}
		if !a.ready() {
			rec.Cut(o)
			return nil, false
		}
	}
}

// ready waits until there is a server and the actor is connected to it.
func (a *actor) ready() bool {
	for {
		addr, gen, ok := a.load.gate.wait(a.load.ctx)
		if !ok {
			return false
		}
		if a.gen == gen {
			return true
		}
		if a.connect(addr) == nil {
			a.gen = gen
			return true
		}
		a.pause(breath) // it was killed just now, and the gate does not know yet
	}
}

// connect opens the session's next connection.
func (a *actor) connect(addr string) (err error) {
	a.hangUp()
	ctx, cancel := context.WithTimeout(a.load.ctx, patience)
	defer cancel()
	a.conn, err = a.s.Dial(ctx, addr)
	return err
}

func (a *actor) hangUp() {
	if a.conn != nil {
		a.conn.Close()
	}
}

// ask asks something over the connection there is.
func (a *actor) ask(id uint64, req *wire.Request, placed func(token int64)) (*wire.Result, error) {
	ctx, cancel := context.WithTimeout(a.load.ctx, patience)
	defer cancel()
	return a.conn.Ask(ctx, id, req, placed)
}

// pause lets some time pass, up to a limit.
func (a *actor) pause(most time.Duration) {
	ctx, cancel := context.WithTimeout(a.load.ctx, time.Duration(a.rng.Int64N(int64(most)))+time.Microsecond)
	defer cancel()
	<-ctx.Done()
}

func (o *owner) op(kind Kind) Op {
	return Op{Kind: kind, Owner: o.id, Namespace: o.namespace, Paths: o.paths, Mode: o.mode, Permits: o.permits,
		TTL: o.ttl, Ask: o.number}
}

// acquire asks for the owner's paths once.
func (o *owner) acquire(flags wire.Flags, token int64) (*wire.Result, bool) {
	op := o.op(Acquire)
	op.Asked, op.NoQueue, op.Open = token, flags&wire.FlagNoQueue != 0, flags&wire.FlagWait != 0
	req := &wire.Request{
		Op: wire.OpAcquire, Owner: o.id, TTLMillis: uint64(o.ttl.Milliseconds()),
		QueueTTLMillis: uint64(long.Milliseconds()),
		Token:          token, Flags: flags,
	}
	for _, p := range o.paths {
		req.Locks = append(req.Locks, wire.LockRequest{Path: p, Mode: o.mode, Permits: o.permits})
	}
	res, ok := o.a.do(op, req)
	if ok && res.Status == wire.StatusOK {
		o.token = res.Token
	}
	return res, ok
}

// poll asks again and again until the lock is there.
func (o *owner) poll() bool {
	for o.a.load.ctx.Err() == nil {
		if res, ok := o.acquire(0, 0); ok && res.Status == wire.StatusOK {
			return true
		}
		o.a.pause(breath)
	}
	return false
}

// await asks in a call that stays open.
func (o *owner) await() bool {
	for o.a.load.ctx.Err() == nil {
		if res, ok := o.acquire(wire.FlagWait, 0); ok && res.Status == wire.StatusOK {
			return true
		}
		// The place of a call that was given up stands for a while, and only force
		// takes it away.
		o.clear(&wire.Request{Op: wire.OpForceRelease, Owner: o.id})
	}
	return false
}

// release gives the paths back.
func (o *owner) release() bool {
	req := &wire.Request{Op: wire.OpRelease, Owner: o.id}
	for _, p := range o.paths {
		req.Releases = append(req.Releases, wire.ReleaseRequest{Path: p, Mode: o.mode})
	}
	_, ok := o.a.do(o.op(Release), req)
	return ok
}

// clear gives everything back, and makes sure of it.
func (o *owner) clear(req *wire.Request) {
	for o.a.load.ctx.Err() == nil {
		if _, ok := o.a.do(o.op(Clear), req); ok {
			break
		}
	}
	o.next()
}

func (o *owner) releaseAll() *wire.Request {
	return &wire.Request{Op: wire.OpReleaseAll, Owner: o.id}
}

// letGo releases the paths, one way or another.
func (o *owner) letGo() {
	if !o.release() {
		o.clear(o.releaseAll())
	}
	o.next()
}

// renew answers whether the lease goes on, as far as is known.
func (o *owner) renew() bool {
	res, ok := o.a.do(o.op(Renew), &wire.Request{
		Op: wire.OpRenew, Owner: o.id, TTLMillis: uint64(o.ttl.Milliseconds()), Domains: []string{o.namespace},
	})
	return !ok || res.Status == wire.StatusOK
}

// assert asks whether the lock is held with the token.
func (o *owner) assert() {
	if o.token == 0 {
		return
	}
	op := o.op(Assert)
	op.Asked = o.token
	o.a.do(op, &wire.Request{Op: wire.OpAssertFencing, Owner: o.id, Token: o.token, Paths: o.paths})
}
