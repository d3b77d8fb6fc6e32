package groups

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/groups/replica"
	"github.com/pathlockd/pathlockd/groups/rows"
	"github.com/pathlockd/pathlockd/wire"
)

// pagesOf is how many policies hasLong is to set for their routes to take so many pages.
func pagesOf(pages int) int { return (pages-1)*(replica.RoutesBytes/4070) + 16*pages }

// TestRoutesChangeBetweenPages: before each later page is asked for, the policies change. All pages are of the version
// that the first was of, for as long as who tells them keeps that. When it does not, they are told anew, and are of one
// version again.
func TestRoutesChangeBetweenPages(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		dropped   bool // the version, before the second page is asked for
		questions int
	}{
		"the version is kept": {false, 3},
		"the version is not":  {true, 2 + 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := apart(t, nil)
			near, far := f.rigOn(0), f.nodes[1]
			c := near.session()
			c.must(setPolicy("a:/gone", wire.RecursiveRW)) // before all others
			hasLong(t, near, pagesOf(3))
			far.routes.Store(wire.NewRoutes(0, far.cfg.Segments, nil))
			p := newPipes(f, 1, 0)
			m := near.node.logs[rows.SystemLog].own()
			var first *wire.Routes // in force when the first page was told, at last
			asked := 0
			changes := func() {
				if asked++; asked == 1 || test.dropped && asked == 3 {
					first = near.node.routes.Load()
					return
				}
				if asked == 2 {
					c.must(deletePolicy("a:/gone"))
				} else {
					c.must(setPolicy(fmt.Sprintf("a:/n%d", asked), wire.RecursiveRW))
				}
				if test.dropped && asked == 2 {
					m.Lock()
					m.Paged = nil
					m.Unlock()
				}
			}
			p.asks.Store(&changes)
			if err := far.learnRoutes(far.clock.Mono()); err != nil {
				t.Fatal(err)
			}
			if asked != test.questions {
				t.Errorf("%d pages are asked for, not %d", asked, test.questions)
			}
			sameRoutes(t, first, far.routes.Load())
		})
	}
}

// TestRoutesWhilePoliciesChange: four clients set and delete policies one after the other, more often than all pages of
// the routes can be told. A node without a replica of the system log, which has to know the routes, carries out what it
// is asked about owners.
func TestRoutesWhilePoliciesChange(t *testing.T) {
	t.Parallel()
	f := apart(t, func(_ int, c *Config) { c.RequestTimeout = 10 * time.Second })
	near, far := f.rigOn(0), f.rigOn(1)
	fs := far.session()
	fs.must(write("o", "z:/a/x", time.Hour))
	hasLong(t, near, pagesOf(2)+400)
	stop := make(chan struct{})
	var changes atomic.Int64
	var wait sync.WaitGroup
	for i := range 4 {
		c := near.session()
		wait.Go(func() {
			for j := 0; ; j++ {
				select {
				case <-stop:
					return
				default:
				}
				ns := fmt.Sprintf("n%d:/%d", i, j%2)
				c.ask(setPolicy(ns, wire.RecursiveRW))
				c.ask(deletePolicy(ns))
				changes.Add(2)
			}
		})
	}
	renewals := 0
	for ; renewals < 10 || changes.Load() < 20; renewals++ {
		if res := fs.ask(&wire.Request{Op: wire.OpRenew, Owner: "o", TTLMillis: 3_600_000}); res.Code != wire.OK {
			t.Errorf("renewal %d, after %d changes: %v %.200q", renewals, changes.Load(), res.Code, res.Message)
			break
		}
	}
	close(stop)
	wait.Wait()
	t.Logf("%d renewals, %d changes", renewals, changes.Load())
}

// TestRoutesAreLearntForAll: calls that want to know the routes while these are being learnt wait for the next
// question, all for one.
func TestRoutesAreLearntForAll(t *testing.T) {
	t.Parallel()
	f := apart(t, nil)
	near, far := f.rigOn(0), f.nodes[1]
	hasLong(t, near, pagesOf(2))
	far.routes.Store(wire.NewRoutes(0, far.cfg.Segments, nil))
	p := newPipes(f, 1, 0)
	var asked atomic.Int64
	asks := func() { asked.Add(1) }
	p.asks.Store(&asks)
	thaw := p.freeze(near.node)
	const calls = 50
	told := make(chan *wire.Error, 1+calls)
	learns := func() { told <- far.learnRoutes(far.clock.Mono()) }
	go learns()
	eventually(t, "the first asks", func() bool { return asked.Load() == 1 })
	for range calls {
		go learns()
	}
	eventually(t, "the others wait", func() bool {
		far.learning.mu.Lock()
		defer far.learning.mu.Unlock()
		return len(far.learning.waiting) == calls
	})
	thaw()
	for range 1 + calls {
		if err := <-told; err != nil {
			t.Error(err)
		}
	}
	if n := asked.Load(); n != 3 { // two pages, and that there are no later ones
		t.Errorf("%d questions", n)
	}
	sameRoutes(t, near.node.routes.Load(), far.routes.Load())
}

// TestRoutesLearntInAnotherWay: who was told the first page asks for no further one when the node has got the routes
// meanwhile.
func TestRoutesLearntInAnotherWay(t *testing.T) {
	t.Parallel()
	f := apart(t, nil)
	near, far := f.rigOn(0), f.nodes[1]
	hasLong(t, near, pagesOf(2))
	p := newPipes(f, 1, 0)
	for name, learn := range map[string]func() *wire.Error{
		"those in force": func() *wire.Error { return far.learnRoutes(far.clock.Mono()) },
		"later ones":     func() *wire.Error { return far.learnRoutesAfter(0) },
	} {
		far.routes.Store(wire.NewRoutes(0, far.cfg.Segments, nil))
		var asked atomic.Int64
		asks := func() { asked.Add(1) }
		p.asks.Store(&asks)
		<-far.learning.pages
		told := make(chan *wire.Error, 1)
		go func() { told <- learn() }()
		eventually(t, "it asks", func() bool { return asked.Load() == 1 })
		far.setRoutes(near.node.routes.Load())
		far.learning.pages <- struct{}{}
		if err := <-told; err != nil || asked.Load() != 1 {
			t.Errorf("%s: %v, and %d questions", name, err, asked.Load())
		}
	}
}
