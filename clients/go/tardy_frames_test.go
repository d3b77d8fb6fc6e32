package pathlockd

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestTardyReadsFramesOfOthers: locks whose owner the program names are given back while a node takes about slowWay to
// answer. The keeper looks at what is unanswered (session.tardy) and reads paths that lie in frames of calls; these are
// answered meanwhile, and their frames are written anew by other calls. Fails with -race. (The clock runs faster, so
// that slowWay is short.)
func TestTardyReadsFramesOfOthers(t *testing.T) {
	const faster = 2000
	start := time.Now()
	f := newFakeCluster(t, 2, 1, 0, 0, 0)
	f.serve = func(p *peer, a *asked) *wire.Result {
		if len(a.req.Releases) > 0 {
			time.AfterFunc(rand.N(3*slowWay/faster), func() { p.ok(a) })
			return nil
		}
		return granted(a.req)
	}
	c := f.client(WithGrace(longGrace), withClock(func() time.Duration { return time.Since(start) * faster }))
	for g := range groupsOfFakeCluster {
		f.goes(c, g)
	}
	var all sync.WaitGroup
	for i := range 16 {
		all.Add(1)
		go func() {
			defer all.Done()
			for n := range 300 {
				l, err := c.TryLock(context.Background(), fmt.Sprintf("%s/%d/%d", in(1), i, n),
					Owner(fmt.Sprint("o", i)), TTL(24*time.Hour))
				if err != nil {
					t.Error(err)
					return
				}
				_ = l.UnlockContext(context.Background())
			}
		}()
	}
	all.Wait()
}

// TestTardyPathsChange: the same without the race detector: what tardy answers changes once its call was answered.
func TestTardyPathsChange(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFakeCluster(t, 2, 1, 0, 0, 0)
		var late *asked
		var at *peer
		f.serve = func(p *peer, a *asked) *wire.Result {
			if len(a.req.Releases) > 0 && a.req.Owner == "me" {
				late, at = a, p
				return nil
			}
			return granted(a.req)
		}
		c := f.client()
		f.warm(c)
		for range 50 {
			l, err := c.TryLock(context.Background(), in(1)+"/mine", Owner("me"))
			mustLock(t, l, err)
			freed := make(chan error, 1)
			go func() { freed <- l.Unlock() }()
			pass(0)
			// as router.tardy asks, which then reads them
			paths, _ := c.home.session.tardy(c.now()+time.Minute, slowWay)
			if len(paths) != 1 {
				t.Fatalf("%q", paths)
			}
			was := strings.Clone(paths[0])
			at.ok(late)
			must(t, <-freed)
			for i := range 20 { // others ask for something
				must(t, c.Release(context.Background(), "o",
					[]wire.ReleaseRequest{{Path: in(2) + fmt.Sprintf("/qqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqq%d",
						i)}}, false, ""))
			}
			if paths[0] != was {
				t.Fatalf("the path %q that is unanswered has become %q", was, paths[0])
			}
		}
	})
}
