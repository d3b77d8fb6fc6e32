package loop

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestStandstillIsSeenAtOnce: the process goes on after a standstill, and its sweeper notes that while an event loop reads what was sent
// before: at no instant that counts as fresh.
func TestStandstillIsSeenAtOnce(t *testing.T) {
	missed, n := 0, 20_000
	for range n {
		p := &pulse{begin: time.Now().Add(-time.Hour)}
		p.last.Store(int64(time.Since(p.begin) - standstill - time.Second))
		opened := time.Minute // long before the standstill
		var on atomic.Bool
		var wg sync.WaitGroup
		wg.Add(1)
		go func() {
			defer wg.Done()
			for !on.Load() {
			}
			p.beats()
		}()
		on.Store(true)
		bad := false
		for range 40 {
			if !p.stale(opened) {
				bad = true
				break
			}
		}
		wg.Wait()
		if bad {
			missed++
		}
		if !p.stale(opened) {
			t.Fatal("not stale behind the beat")
		}
	}
	if missed > 0 {
		t.Errorf("%d of %d: what was sent before the standstill is taken, as the beat is noted before the standstill is", missed, n)
	}
}
