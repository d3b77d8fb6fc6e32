package replica

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/groups/rows"
	"github.com/pathlockd/pathlockd/internal/testkit/cputime"
	"github.com/pathlockd/pathlockd/wire"
)

// TestManyLateRequests: clients ask under ids that fall, after requests about as many paths as are told apart. An
// entry of as many as a batch has holds its log up for a part of the time that it took when all of them were sorted
// for each.
func TestManyLateRequests(t *testing.T) {
	const sessions, before = 4, 760
	runtime.LockOSThread() // whose time is counted
	defer runtime.UnlockOSThread()
	measure := func(falling bool) time.Duration {
		b := newBare(t, rows.FirstLog, DefaultLimits())
		var ss []*wire.Session
		for n := range sessions {
			s := bareSession(n)
			s.Window = 1024
			ss = append(ss, s)
			var asks []*bareCall
			for i := range before {
				// it names an acquire
				req := &wire.Request{Op: wire.OpRelease, Owner: fmt.Sprint("o", n), Target: 99_000}
				for j := range MaxSessionMarks {
					req.Releases = append(req.Releases, wire.ReleaseRequest{Path: fmt.Sprintf("h:/a/%d-%d", i, j)})
				}
				asks = append(asks, bareAsk(s, uint64(100_000+i), req))
			}
			asks = append(asks, bareAsk(s, 150_000, write(fmt.Sprint("o", n), fmt.Sprintf("h:/a/%d", n), time.Hour)))
			for len(asks) > 0 {
				k := min(100, len(asks))
				b.do(1, asks[:k]...)
				asks = asks[k:]
			}
		}
		var asks []*bareCall
		for i := range MaxBatchCommands {
			id := uint64(200_000 + i)
			if falling {
				id = uint64(90_000 - i)
			}
			a := bareAsk(ss[i%sessions], id, release(fmt.Sprint("o", i%sessions), fmt.Sprintf("h:/b/%d", i)))
			a.Again = falling
			asks = append(asks, a)
		}
		began := cputime.Thread()
		b.do(1, asks...)
		took := cputime.Thread() - began
		for _, a := range asks {
			if len(a.res) != 1 || a.res[0].Code != wire.OK {
				t.Fatalf("%d: %+v", a.ID, a.res)
			}
		}
		return took
	}
	rising, falling := time.Hour, time.Hour
	for range 3 {
		rising, falling = min(rising, measure(false)), min(falling, measure(true))
	}
	// Who is late is compared with all that is remembered, 6000 names here; but that is all.
	t.Logf("an entry of %d releases: %v, under falling ids %v", MaxBatchCommands, rising, falling)
	if falling > 60*rising {
		t.Errorf("an entry of %d releases: %v, under falling ids %v", MaxBatchCommands, rising, falling)
	}
}
