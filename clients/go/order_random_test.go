package pathlockd

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// orderRun is a program that asks at random by Go, of a server with logs that are slow, on connections that break and
// whose windows differ.
type orderRun struct {
	t       *testing.T
	draw    sync.Mutex
	rng     *rand.Rand
	mu      sync.Mutex
	asked   []orderAsk     // in the order in which they were
	by      map[string]int // their places, by what tells them
	arrived []int          // those that the server has, in the order in which they came first
	seen    map[string]bool
	open    int           // that have no answer
	slow    time.Duration // what the sick log takes
	deaf    bool          // what comes is lost: the connection is about to break
	broken  map[*peer]bool
}

// orderAsk is one of its requests.
type orderAsk struct {
	owner, ns string
	ahead     bool // it goes ahead of others
	waits     bool // others may go before it, which may be what it waits for
}

func (r *orderRun) intN(n int) int {
	r.draw.Lock()
	defer r.draw.Unlock()
	return r.rng.IntN(n)
}

// mark tells a request by what it says: its TTL, or the path that it gives back.
func (r *orderRun) mark(req *wire.Request) string {
	if req.Op == wire.OpRelease {
		return req.Releases[0].Path
	}
	return fmt.Sprint(req.Op, req.TTLMillis)
}

// ask asks for one more.
func (r *orderRun) ask(c *Client) {
	r.mu.Lock()
	n := len(r.asked)
	one := orderAsk{owner: []string{"me", "you"}[r.intN(2)], ns: []string{"a:/well", "a:/sick"}[r.intN(2)]}
	req := &wire.Request{Owner: one.owner, TTLMillis: uint64(600_000 + n)}
	path := fmt.Sprintf("%s/x%d", one.ns, n)
	switch k := r.intN(10); {
	case k < 4:
		req.Op, req.Domains, one.ahead = wire.OpRenew, []string{one.ns}, true
	case k < 7:
		req.Op, req.Locks, req.Flags = wire.OpAcquire, []wire.LockRequest{{Path: path}}, wire.FlagNoQueue
	case k < 8:
		req.Op, req.Locks, req.Flags = wire.OpAcquire, []wire.LockRequest{{Path: path}}, wire.FlagWait
		one.waits = true
	default:
		req.Op, req.Releases, req.TTLMillis = wire.OpRelease, []wire.ReleaseRequest{{Path: path}}, 0
	}
	if r.by == nil {
		r.by, r.seen = make(map[string]int), make(map[string]bool)
	}
	r.by[r.mark(req)] = n
	r.asked = append(r.asked, one)
	r.open++
	r.mu.Unlock()
	c.Go(req, func(*wire.Result, error) {
		r.mu.Lock()
		r.open--
		r.mu.Unlock()
	})
}

// serve takes the requests of one connection.
func (r *orderRun) serve(p *peer) {
	p.serve(func(a *asked) *wire.Result {
		r.mu.Lock()
		if r.deaf || r.broken[p] { // what comes by a broken one may have been read before
			r.mu.Unlock()
			return nil
		}
		mark := ""
		if a.req.Op == wire.OpRenew || a.req.Op == wire.OpAcquire || a.req.Op == wire.OpRelease {
			mark = r.mark(a.req)
		}
		d := time.Duration(r.intN(20)) * time.Millisecond
		if n, ok := r.by[mark]; ok {
			if !r.seen[mark] {
				r.seen[mark] = true
				r.arrived = append(r.arrived, n)
			}
			if r.asked[n].ns == "a:/sick" {
				d = r.slow
			}
		} else if strings.Contains(fmt.Sprint(a.req.Domains, a.req.Paths), "a:/sick") {
			d = r.slow
		}
		r.mu.Unlock()
		time.AfterFunc(d, func() { p.ok(a) })
		return nil
	})
}

// check compares the order at the server with that in which was asked: of one owner and namespace nothing comes before
// what was asked earlier, but what goes ahead before what does not.
func (r *orderRun) check() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, n := range r.arrived {
		for _, m := range r.arrived[:i] {
			a, b := r.asked[m], r.asked[n] // a came first
			if n < m && a.owner == b.owner && a.ns == b.ns && (!a.ahead || b.ahead) && !b.waits {
				r.t.Errorf("of %s in %s the request %d (%+v) came before %d (%+v)", a.owner, a.ns, m, a, n, b)
				return
			}
		}
	}
	if r.open > 0 {
		r.t.Errorf("%d of %d requests have no answer", r.open, len(r.asked))
	}
}

// TestOrderAtRandom: whatever windows there are, whichever log is slow and however often the connection breaks, what a
// program asks of one owner in one namespace comes in its order, and is answered; and the session counts nothing that
// is not.
func TestOrderAtRandom(t *testing.T) {
	for seed := range uint64(60) {
		bubble(t, func(t *testing.T) {
			f := newFake(t)
			r := &orderRun{t: t, rng: rand.New(rand.NewPCG(seed, 1)), slow: 5 * time.Second,
				broken: make(map[*peer]bool)}
			c, p := f.telling(WithGrace(longGrace), WithBacklog(1<<16))
			go r.serve(p)
			conns := []*peer{p}
			go func() {
				for {
					select {
					case p := <-f.conns:
						r.mu.Lock()
						limits := testLimits
						limits.InFlight = []uint64{16, 32, 256}[r.intN(3)]
						limits.Waiting = []uint64{4, 1024}[r.intN(2)]
						conns = append(conns, p)
						r.mu.Unlock()
						p.tells = wire.FeatureLeases
						p.welcome(limits)
						go r.serve(p)
					case <-t.Context().Done():
						return
					}
				}
			}()
			var locks []*Lock
			for i, owner := range []string{"me", "you", "me", "you"} {
				l, err := c.TryLock(t.Context(), fmt.Sprintf("a:/%s/lock%d", []string{"well", "sick"}[i%2], i),
					Owner(owner), TTL(time.Hour))
				mustLock(t, l, err)
				locks = append(locks, l)
			}
			for range 40 {
				for range r.intN(60) {
					r.ask(c)
				}
				pass(time.Duration(r.intN(400)) * time.Millisecond)
				if r.intN(6) == 0 {
					r.mu.Lock()
					r.deaf = true
					r.mu.Unlock()
					for range r.intN(200) {
						r.ask(c)
					}
					pass(time.Duration(r.intN(200)) * time.Millisecond)
					r.mu.Lock()
					r.deaf = false
					for _, p := range conns { // also one that came meanwhile
						r.broken[p] = true
						_ = p.Close()
					}
					r.mu.Unlock()
					pass(time.Duration(r.intN(100)) * time.Millisecond)
				}
			}
			r.mu.Lock()
			r.slow = 10 * time.Millisecond
			r.mu.Unlock()
			pass(5 * time.Minute)
			r.check()
			s := &c.home.session
			s.mu.Lock()
			left := slices.IndexFunc(s.mu.shares[:], func(sh share) bool {
				return sh.flying != 0 || sh.lists != 0 ||
					!sh.vacant()
			})
			ahead := s.mu.ordered + s.mu.again.ordered + s.mu.ahead.ordered
			if s.mu.flying != 0 || ahead != 0 || s.mu.spareTaken != 0 || s.mu.gathers != 0 ||
				s.mu.waits != 0 || left >= 0 {
				t.Errorf("seed %d: nothing is under way, and flying %d, ahead %d, spare places %d, waits %d, share %d",
					seed, s.mu.flying, ahead, s.mu.spareTaken, s.mu.waits, left)
			}
			s.mu.Unlock()
			_ = locks
		})
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}
