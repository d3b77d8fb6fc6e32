package pathlockd

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/wire"
)

// timed is a fake server of one client, in a bubble: what it answers and tells is what package engine says, and when it
// carries a request out is what the test says. Unlike simServer it has no time, order or chance of its own.
type timed struct {
	t     testing.TB
	start time.Time
	p     *peer

	mu       sync.Mutex
	state    *engine.State
	out      engine.Output
	routes   *wire.Routes
	pace     pace
	busy     func(req *wire.Request) bool
	busyWith wire.Code              // what it refuses with then; OK: UNAVAILABLE
	done     map[uint64]wire.Result // of what gives back and of what is granted at once, for repeats
	notes    []string
}

// pace says how long it takes until a request is carried out, and whether it is answered at once that nobody knows what
// becomes of it. It is called by one goroutine, in the order in which requests come.
type pace func(req *wire.Request) (d time.Duration, unknown bool)

// always is a pace at which each operation takes its time, and what is not named a time of its own.
func always(all time.Duration, but map[wire.Op]time.Duration) pace {
	return func(req *wire.Request) (time.Duration, bool) {
		if d, ok := but[req.Op]; ok {
			return d, false
		}
		return all, false
	}
}

// newTimed is such a server, at which nothing takes any time yet, and its client.
func newTimed(t testing.TB, opts ...Option) (*Client, *timed) {
	t.Helper()
	f := newFake(t)
	c, s := newTimedAt(t, f, opts...)
	go s.again(f)
	return c, s
}

func newTimedAt(t testing.TB, f *fake, opts ...Option) (*Client, *timed) {
	t.Helper()
	c, p := f.telling(opts...)
	return c, timedOn(t, p)
}

// newUntold is such a server that does not tell what happens to leases (one without feature 2): events of subscriptions
// are all that is told of an owner.
func newUntold(t testing.TB, opts ...Option) (*Client, *timed) {
	t.Helper()
	c, p := newFake(t).client(append([]Option{WithKeepAlive(time.Hour)}, opts...)...)
	return c, timedOn(t, p)
}

func timedOn(t testing.TB, p *peer) *timed {
	p.lists = true
	s := &timed{
		t: t, start: time.Now(), p: p, state: engine.New(engine.DefaultConfig(), nil, nil),
		routes: wire.NewRoutes(1, 1, nil), done: make(map[uint64]wire.Result),
	}
	go p.serve(s.take)
	return s
}

// again serves the connections that the client makes anew, until the test ends.
func (s *timed) again(f *fake) {
	for {
		select {
		case p := <-f.conns:
			p.tells, p.lists = wire.FeatureLeases, true
			s.mu.Lock()
			s.p = p
			s.mu.Unlock()
			p.welcome(testLimits)
			go p.serve(s.take)
		case <-s.t.Context().Done():
			return
		}
	}
}

// peer is the connection that the client has now.
func (s *timed) peer() *peer {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.p
}

// takes has requests take their time from now on; nil: none.
func (s *timed) takes(p pace) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pace = p
}

// refuses has the server be too busy from now on for the requests of which it says so: they are not carried out. It is
// called by one goroutine, in the order in which requests come.
func (s *timed) refuses(busy func(req *wire.Request) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy = busy
}

// take deals with a request that came.
func (s *timed) take(a *asked) *wire.Result {
	s.mu.Lock()
	on, p, busy := s.p, s.pace, s.busy
	s.mu.Unlock()
	if busy != nil && busy(a.req) {
		return &wire.Result{Code: cmp.Or(s.busyWith, wire.Unavailable), Message: "busy"}
	}
	var d time.Duration
	unknown := false
	if p != nil {
		d, unknown = p(a.req)
	}
	if unknown {
		on.reply(a.id, a.req.Op, &outcomeUnheard)
	}
	if d > 0 {
		time.AfterFunc(d, func() { s.carry(on, a, unknown) })
	} else {
		s.carry(on, a, unknown)
	}
	return nil
}

// carry carries a request out that came on a connection, and answers it unless it is answered.
func (s *timed) carry(on *peer, a *asked, answered bool) {
	s.mu.Lock()
	at, req := s.tick(), a.req
	caller := engine.Caller{Session: engine.Session(on.hello.Session), ID: a.id}
	first, again := s.done[a.id]
	var res wire.Result
	switch req.Op {
	case wire.OpPing, wire.OpUnsubscribe:
	case wire.OpSubscribe:
		res = wire.Result{Count: a.id, List: &wire.List{Positions: []wire.Position{{Log: 2, Index: 1}}}}
	case wire.OpListLocks:
		res = pageOwned(s.state, req, int(req.Page))
	case wire.OpAssertFencing:
		res = s.state.View().Assert(req.Owner, s.routes.Resolve(req.Paths[0]), req.Paths[0], req.Token)
	case wire.OpDescribe:
		res = s.state.View().Describe(s.routes.Resolve(req.Path), req.Path, int(req.Page))
	case wire.OpCancel:
		cancel := &wire.Request{Op: wire.OpCancelWait, Target: req.Target}
		s.state.Apply(at, &engine.Command{Req: cancel, Caller: caller, Epoch: 1}, &s.out)
	default:
		cmd := &engine.Command{
			Req: req, NS: namespaceAsked(s.routes, req), Version: 1, Caller: caller, Epoch: 1,
			Bound: req.Flags&wire.FlagBind != 0, Grace: int64(on.hello.Grace),
		}
		if again {
			res = s.state.Repeat(at, cmd, &first, &s.out)
		} else {
			res = s.state.Apply(at, cmd, &s.out)
		}
	}
	switch {
	case again:
	case req.Op == wire.OpRelease, req.Op == wire.OpReleaseAll,
		req.Op == wire.OpAcquire && res.Code == wire.OK && res.Status == wire.StatusOK:
		s.done[a.id] = res
	}
	s.note("request %d, %v of %q%s: %v %v", a.id, req.Op, req.Owner, about(req), res.Code, res.Status)
	var frames [][]byte
	switch {
	case answered:
	case req.Op == wire.OpAcquire && req.Flags&wire.FlagWait != 0 && res.Status == wire.StatusQueued:
		frames = append(frames, wire.AppendQueued(nil, &wire.Queued{ID: a.id, Result: res}))
	default:
		frames = append(frames, wire.AppendReply(nil, a.id, req.Op, &res))
	}
	frames = append(frames, s.told()...)
	s.mu.Unlock()
	on.send(slices.Concat(frames...))
}

// other carries out at once what another client asks for.
func (s *timed) other(req *wire.Request) wire.Result {
	s.mu.Lock()
	res := s.state.Apply(s.tick(), &engine.Command{Req: req, NS: namespaceAsked(s.routes, req), Version: 1}, &s.out)
	s.note("of others, %v of %q%s: %v %v", req.Op, req.Owner, about(req), res.Code, res.Status)
	frames := s.told()
	s.mu.Unlock()
	s.peer().send(slices.Concat(frames...))
	return res
}

// rival asks for a path in the name of somebody else, who keeps it until rivalGives, and says whether he got it.
func (s *timed) rival(path string) bool {
	res := s.other(&wire.Request{
		Op: wire.OpAcquire, Owner: "rival", TTLMillis: millis(24 * time.Hour), Flags: wire.FlagNoQueue,
		Locks: []wire.LockRequest{{Path: path}},
	})
	return res.Code == wire.OK && res.Status == wire.StatusOK
}

func (s *timed) rivalGives(path string) {
	s.other(&wire.Request{Op: wire.OpRelease, Owner: "rival", Releases: []wire.ReleaseRequest{{Path: path}}})
}

// holds says that an owner holds a path now.
func (s *timed) holds(owner string, p Path) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tick()
	return holdsPath(s.state, s.routes, owner, p)
}

// tick ends what ends with time. Called under the lock, as all that follows.
func (s *timed) tick() engine.Clock {
	now := time.Since(s.start).Milliseconds()
	at := engine.Clock{Now: now, Wall: 1 + now}
	for s.state.Expire(at, &s.out) {
	}
	return at
}

// told is what the client is told by itself: the ends of waits, and what happens to leases.
func (s *timed) told() (frames [][]byte) {
	for i := range s.out.Answers {
		a := &s.out.Answers[i]
		s.note("the wait of request %d ends: %v %v", a.Caller.ID, a.Result.Code, a.Result.Status)
		frames = append(frames, wire.AppendReply(nil, a.Caller.ID, wire.OpAcquire, &a.Result))
	}
	for i := range s.out.Told {
		e := s.out.Told[i].LeaseEvent
		s.note("told: %v of %q", e.Kind, e.Owner)
		frames = append(frames, wire.AppendLeaseEvent(nil, &e))
	}
	s.out.Reset()
	return frames
}

// note keeps what happened, to be told if something goes wrong.
func (s *timed) note(format string, args ...any) {
	const most = 60
	if len(s.notes) >= most {
		s.notes = s.notes[1:]
	}
	s.notes = append(s.notes, fmt.Sprintf("%8.3fs ", time.Since(s.start).Seconds())+fmt.Sprintf(format, args...))
}

// happened is what did at last.
func (s *timed) happened() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.notes, "\n")
}

// hours takes a lock of owner "me" for an hour.
func hours(t testing.TB, c *Client, path string) *Lock {
	t.Helper()
	l, err := c.Lock(context.Background(), path, Owner("me"), TTL(time.Hour))
	return mustLock(t, l, err)
}

// isNobodys has a rival take a lock's path, and fails if the lock counts as held for long after that.
func (s *timed) isNobodys(l *Lock) {
	s.t.Helper()
	path := l.Paths()[0].Path
	if !s.rival(path) {
		s.t.Fatal("its owner holds it yet: this shows nothing")
	}
	pass(askedWithin + time.Second)
	if l.Err() == nil {
		s.t.Errorf("a rival holds %s, and the lock counts as held for %v yet\n%s",
			path, time.Until(l.Deadline()), s.happened())
	}
}

// isHeld fails if a lock is lost that its owner holds.
func (s *timed) isHeld(l *Lock) {
	s.t.Helper()
	for _, p := range l.Paths() {
		if !s.holds(l.Owner(), p) {
			s.t.Fatalf("its owner does not hold %s: this shows nothing", p.Path)
		}
	}
	if err := l.Err(); err != nil {
		s.t.Errorf("its owner holds it, and the lock is lost: %v\n%s", err, s.happened())
	}
}
