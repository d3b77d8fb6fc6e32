package pathlockd

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// counts recounts what a session's counters say of what is sent, and what its shares hold.
func (s *session) counts(t *testing.T, when string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	var all share
	var shares [maxShares]share
	waits := 0
	for c := range s.mu.sent.all() {
		if c.waits {
			waits++
			continue
		}
		for _, sh := range []*share{&all, &shares[c.share]} {
			sh.flying++
			if c.answer == wire.ListedAnswer {
				sh.lists++
			}
			if c.answer == wire.LongAnswer {
				sh.gathers++
			}
			if c.raises {
				sh.raises++
			}
		}
	}
	spare, unclaimed := 0, 0
	for i := range shares {
		spare += max(0, shares[i].lists-alwaysListed)
		if s.mu.known.shares&(1<<i) != 0 {
			unclaimed += max(0, alwaysSent-shares[i].flying)
		} else if i != usersShare && (shares[i].flying > 0 || !s.mu.shares[i].vacant()) {
			t.Errorf("%s: share %d has something and is not known", when, i)
		}
	}
	if unclaimed != s.mu.known.unclaimed {
		t.Errorf("%s: %d places of shares are unclaimed, counted %d", when, unclaimed, s.mu.known.unclaimed)
	}
	if all.flying != s.mu.flying || spare != s.mu.spareTaken || all.gathers != s.mu.gathers ||
		all.raises != s.mu.raises || waits != s.mu.waits {
		t.Errorf("%s: %d sent, %d spare places taken, %d long answers, %d raise, %d wait; counted %d, %d, %d, %d, %d",
			when, all.flying, spare, all.gathers, all.raises, waits, s.mu.flying, s.mu.spareTaken, s.mu.gathers,
			s.mu.raises, s.mu.waits)
	}
	if spare > sparePlaces || all.lists > wire.MaxListings || all.gathers > wire.MaxGathered {
		t.Errorf("%s: %d listings, %d spare places taken, %d other long answers", when, all.lists, spare, all.gathers)
	}
	for i := range s.mu.shares {
		sh, is := &s.mu.shares[i], &shares[i]
		if sh.flying != is.flying || sh.lists != is.lists || sh.raises != is.raises || sh.gathers != is.gathers {
			t.Errorf("%s: share %d: %d sent, %d listings, %d of those raise, %d long answers; counted %d, %d, %d, %d",
				when, i, is.flying, is.lists, is.raises, is.gathers, sh.flying, sh.lists, sh.raises, sh.gathers)
		}
		if is.lists > mostListed || 2*is.raises > mostListed {
			t.Errorf("%s: share %d: %d listings, %d of those raise", when, i, is.lists, is.raises)
		}
		if !sh.vacant() && s.mu.holding&(1<<i) == 0 {
			t.Errorf("%s: share %d holds calls, and is not looked at", when, i)
		}
	}
}

// TestSharesAreCounted: while questions hang, are refused, and come back late, callers leave, and connections break,
// what is under way is what is counted. In the end nothing is.
func TestSharesAreCounted(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { bubble(t, func(t *testing.T) { sharesAreCounted(t, seed) }) })
	}
}

func sharesAreCounted(t *testing.T, seed uint64) {
	rnd, paces := rand.New(rand.NewPCG(seed, 7)), rand.New(rand.NewPCG(seed, 8))
	c, s := newTimed(t, WithWindow([]int{0, 2, 3, 5, 12, 40}[seed%6]))
	var mu sync.Mutex
	trouble, logs, hangs := true, 1+rnd.IntN(8), seed%3 == 0
	draw := func(of int) bool {
		mu.Lock()
		defer mu.Unlock()
		return trouble && paces.IntN(of) == 0
	}
	s.takes(func(req *wire.Request) (time.Duration, bool) {
		bad := draw(60)
		mu.Lock()
		defer mu.Unlock()
		switch {
		case bad && hangs && wire.AnswerOf(req) != wire.ShortAnswer:
			return 1000 * time.Hour, false
		case bad:
			return time.Duration(paces.IntN(40)) * time.Second, false
		}
		return time.Duration(1+paces.IntN(120)) * time.Millisecond, false
	})
	s.refuses(func(*wire.Request) bool { return draw(15) })
	ctx, cancel := context.WithCancel(t.Context())
	var programs sync.WaitGroup
	for i := range 5 + rnd.IntN(40) {
		r := rand.New(rand.NewPCG(seed, uint64(100+i)))
		owner, path := fmt.Sprintf("o%d", i), fmt.Sprintf("n%d:/v/o%d", i%logs, i)
		programs.Go(func() {
			for ctx.Err() == nil {
				pauseFor(ctx, time.Duration(r.IntN(300))*time.Millisecond)
				within := time.Duration(1+r.IntN(20_000)) * time.Millisecond
				one, done := context.WithTimeout(ctx, within)
				l, err := c.TryLock(one, path, Owner(owner), TTL(time.Duration(10+r.IntN(100))*time.Second))
				done()
				if errors.Is(err, ErrClosed) {
					return
				}
				if err != nil {
					continue
				}
				two, done := context.WithTimeout(ctx, within)
				began := time.Now()
				both, err := c.LockAll(two, []Path{{Path: path}, {Path: path + "too"}}, Owner(owner), TTL(time.Minute))
				if d := time.Since(began); d > within+time.Millisecond {
					t.Errorf("LockAll is answered after %v, its context ended after %v: %v", d, within, err)
				}
				done()
				if err == nil {
					_ = both.Unlock()
				}
				_ = l.Unlock()
			}
		})
	}
	for i := range 20 {
		programs.Go(func() {
			for k := 0; ctx.Err() == nil; k++ {
				one, done := context.WithTimeout(ctx, 20*time.Second)
				if k%2 == 0 {
					_, _ = c.Describe(one, fmt.Sprintf("n%d:/v/o%d", i%logs, i), 0)
				} else {
					_, _, _ = c.ListOwnerLocks(one, fmt.Sprintf("o%d", i))
				}
				done()
				pauseFor(ctx, 100*time.Millisecond)
			}
		})
	}
	home := &c.home.session
	for i := range 400 {
		pass(time.Duration(rnd.IntN(500)) * time.Millisecond)
		if home.counts(t, fmt.Sprint("step ", i)); t.Failed() {
			break
		}
		if rnd.IntN(15) == 0 {
			s.peer().Close()
		}
	}
	mu.Lock()
	trouble = false
	mu.Unlock()
	s.peer().Close() // what hangs there for good
	pass(3 * time.Minute)
	home.counts(t, "without trouble")
	cancel()
	programs.Wait()
	pass(20 * time.Minute)
	home.counts(t, "in the end")
	home.mu.Lock()
	defer home.mu.Unlock()
	if home.mu.flying != 0 || home.mu.waits != 0 || home.mu.ordered != 0 || home.mu.leaving != 0 {
		t.Errorf("in the end: %d sent, %d wait, %d ordered, %d leave",
			home.mu.flying, home.mu.waits, home.mu.ordered, home.mu.leaving)
	}
	for one := range home.mu.sent.all() {
		t.Errorf("in the end %v of share %d is not answered", one.op, one.share)
	}
	for q := range home.queues() {
		if q.first != nil {
			t.Errorf("in the end a call of %v waits to be sent", q.first.op)
		}
	}
}
