package pathlockd

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestRenewalsOfAWatchedOwner: as TestRenewalsCountByLaterLooks, of an owner whose events are told: late, as gaps or
// by breaks of the connection, beside doubts of all kinds that are about nothing. PATHLOCKD_SEEDS says how many seeds
// are run, and PATHLOCKD_SEED which one is the first.
func TestRenewalsOfAWatchedOwner(t *testing.T) {
	seeds, first := simNumber(t, seedsVar, 40), simNumber(t, seedVar, 1)
	for seed := first; seed < first+seeds; seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			bubble(t, func(t *testing.T) { newWatchedRun(t, rand.New(rand.NewPCG(uint64(seed), 1))).run() })
		})
	}
}

const watchedTTL = 30 * time.Second

// watchedRun is one run of it. The server carries requests out and answers them as late as it comes.
type watchedRun struct {
	t        *testing.T
	rng      *rand.Rand
	f        *fake
	c        *Client
	most     int  // of the milliseconds by which something is late
	refusing bool // of looks, now and then

	mu   sync.Mutex
	p    *peer                   // the connection there is, or was
	cut  bool                    // it was
	done map[uint64]*wire.Result // renewals that were carried out
	gone bool                    // the lease has ended
	good time.Time               // when the last renewal of the lease was asked
	log  []string
}

func newWatchedRun(t *testing.T, rng *rand.Rand) *watchedRun {
	r := &watchedRun{
		t: t, rng: rng, f: newFake(t), most: []int{20, 150, 1500}[rng.IntN(3)], refusing: rng.IntN(3) == 0,
		done: map[uint64]*wire.Result{}, good: time.Now(),
	}
	r.c, r.p = r.f.telling(WithGrace(longGrace))
	r.p.lists = true
	if rng.IntN(3) == 0 {
		r.c.keeper.watch(0)
	}
	go r.p.serve(r.serves(r.p))
	go func() {
		for {
			select {
			case p := <-r.f.conns:
				p.lists, p.tells = true, wire.FeatureLeases
				p.welcome(testLimits)
				r.mu.Lock()
				r.p, r.cut = p, false
				r.mu.Unlock()
				go p.serve(r.serves(p))
			case <-t.Context().Done():
				return
			}
		}
	}()
	return r
}

// late is never 0: a server that answers at once leaves the bubble's time no moment to pass.
func (r *watchedRun) late() time.Duration {
	return time.Duration(1+r.rng.IntN(r.most)*r.rng.IntN(2)) * time.Millisecond
}

func (r *watchedRun) serves(p *peer) func(a *asked) *wire.Result {
	return func(a *asked) *wire.Result {
		r.mu.Lock()
		defer r.mu.Unlock()
		if a.req.Op != wire.OpRenew && a.req.Op != wire.OpListLocks && a.req.Op != wire.OpRelease {
			res := granted(a.req)
			time.AfterFunc(time.Millisecond, func() { p.reply(a.id, a.req.Op, res) })
			return nil
		}
		answered := r.late()
		refused := r.refusing && a.req.Op == wire.OpListLocks && r.rng.IntN(4) == 0
		time.AfterFunc(r.late(), func() {
			r.mu.Lock()
			defer r.mu.Unlock()
			res := r.carriesOut(a, refused)
			time.AfterFunc(answered, func() { p.reply(a.id, a.req.Op, res) })
		})
		return nil
	}
}

func (r *watchedRun) carriesOut(a *asked, refused bool) *wire.Result {
	r.notes("%v %d is carried out, which was asked at %s", a.req.Op, a.id, clock(a.at))
	res := granted(a.req)
	switch {
	case refused:
		return &wire.Result{Code: wire.Unavailable, Message: "not now"}
	case a.req.Op == wire.OpRenew && r.done[a.id] != nil:
		return r.done[a.id]
	case a.req.Op == wire.OpRenew:
		if r.done[a.id] = res; !r.gone {
			r.good = a.at
		}
	case a.req.Op == wire.OpListLocks && r.gone:
		return &wire.Result{Flag: true, Done: true, List: new(wire.List)}
	case a.req.Op == wire.OpListLocks:
		return &wire.Result{Flag: true, Done: true, List: &wire.List{Infos: []wire.LockInfo{
			{Path: "a:/b/c", HasFence: true, Fence: 7, SinceUnixMillis: 1},
			{Path: "a:/b/d", HasFence: true, Fence: 7, SinceUnixMillis: 2},
		}}}
	}
	return res
}

func clock(at time.Time) string { return at.Format("04:05.000") }

func (r *watchedRun) notes(format string, args ...any) {
	r.log = append(r.log, clock(time.Now())+" "+fmt.Sprintf(format, args...))
}

// ways in which an end is told, or missed, and others that are about nothing.
const (
	byGap = iota
	byExpired
	byKilled
	byRevoke
	byAllMissed
	byLeaseExpired
	byBreak
	byRelease
	byAcquire
	waysToDoubt
)

func (r *watchedRun) doubts(way int) {
	r.mu.Lock()
	p := r.p
	r.cut = r.cut || way == byBreak
	r.notes("doubt of kind %d", way)
	r.mu.Unlock()
	event := func(kind wire.EventKind) {
		p.send(wire.AppendEvent(nil, sub1(wire.Event{Kind: kind, At: wire.Position{Log: 2, Index: 11}})))
	}
	switch way {
	case byGap:
		p.send(wire.AppendProgress(nil, wire.PushGap, &wire.Progress{Subscription: 1}))
	case byExpired:
		event(wire.EventExpired)
	case byKilled:
		event(wire.EventKilled)
	case byRevoke:
		p.tell(wire.EventRevoke, "me", 12345)
	case byAllMissed:
		p.tell(0, "")
	case byLeaseExpired:
		p.tell(wire.EventExpired, "me", 12345)
	case byBreak:
		p.Close()
	case byRelease:
		req := releaseOf("me", "a:/b/c")
		r.c.Go(&req, nil)
	case byAcquire:
		r.c.Go(&wire.Request{
			Op: wire.OpAcquire, Owner: "me", TTLMillis: 30_000, Flags: wire.FlagNoQueue,
			Locks: []wire.LockRequest{{Path: "a:/b/e"}},
		}, nil)
	}
}

func (r *watchedRun) run() {
	t := r.t
	l, err := r.c.TryLock(t.Context(), "a:/b/c", TTL(watchedTTL), Owner("me"))
	mustLock(t, l, err)
	pass(3 * time.Second)
	often := []int{0, 10, 60}[r.rng.IntN(3)] // of 1000 steps so many have a doubt
	how := []int{byGap, byExpired, byKilled, byBreak}[r.rng.IntN(4)]
	ends := time.Now().Add(time.Duration(r.rng.IntN(40_000)) * time.Millisecond)
	var tellAt, may time.Time // the end is told then, and it may last until then whatever is told
	for range 4000 {
		pass(20 * time.Millisecond)
		if often > 0 && r.rng.IntN(1000) < often {
			way := r.rng.IntN(waysToDoubt)
			if r.most > 300 && way == byBreak {
				way = byGap // who is cut off so often on such a way may lose it
			}
			r.doubts(way)
		}
		r.mu.Lock()
		if !r.gone && !time.Now().Before(ends) {
			r.gone, tellAt = true, time.Now().Add(time.Duration(1+r.rng.IntN(3000))*time.Millisecond)
			r.notes("its lease has ended")
		}
		tell := r.gone && may.IsZero() && !time.Now().Before(tellAt)
		if tell && r.cut {
			how = byBreak // nothing else can be told
		}
		r.mu.Unlock()
		if tell {
			r.doubts(how)
			synctest.Wait()
			may = l.Deadline()
			if asks := time.Now().Add(askedWithin); how == byExpired || how == byKilled || may.Before(asks) {
				may = asks
			}
		}
		if l.Err() != nil {
			break
		}
		r.mu.Lock()
		if last := latest(r.good.Add(watchedTTL), may); !may.IsZero() && l.Deadline().After(last) {
			t.Errorf("at %s it is believed in until %s, and that is over at %s:\n%s", clock(time.Now()),
				clock(l.Deadline()),
				clock(last), strings.Join(r.log[max(0, len(r.log)-40):], "\n"))
		}
		r.mu.Unlock()
		if t.Failed() {
			return
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case l.Err() == nil:
		t.Error("it is not lost")
	case !r.gone && r.most < 100: // on a slower way a hint of its end and a break may leave no time for a look
		t.Errorf("it is lost, and nothing was wrong: %v:\n%s", l.Err(),
			strings.Join(r.log[max(0, len(r.log)-40):], "\n"))
	}
}

func latest(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}
