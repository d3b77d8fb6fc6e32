package pathlockd

import (
	"sync"
	"testing"
	"time"
)

// TestReadsOfOneOwner: goroutines share an owner, and take and give back the read of one path, which is free. None of
// them may be told anything but that it has it (seen about once in 6000 takes: it is a race in the client).
func TestReadsOfOneOwner(t *testing.T) {
	ctx := within(t, patience)
	c := dial(t, server(t))
	p := path(t, "/a/p")
	until := time.Now().Add(2 * time.Second)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for time.Now().Before(until) {
				l, err := c.RLock(ctx, p, Owner("me"))
				if err != nil {
					t.Error(err)
					return
				}
				time.Sleep(time.Duration(i*50) * time.Microsecond)
				_ = l.Unlock() // which another one's may have come before
			}
		})
	}
	wg.Wait()
}
