package cluster

import (
	"sync"
	"time"
)

// clock is a machine's clock: it runs as fast as it does, and its time of day can be set.
type clock struct {
	start time.Time
	rate  float64 // of its monotonic hands: 1 is right
	mu    sync.Mutex
	off   time.Duration
}

// Mono implements groups.Clock.
func (c *clock) Mono() time.Duration { return time.Duration(float64(time.Since(c.start)) * c.rate) }

// Wall implements groups.Clock.
func (c *clock) Wall() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.off)
}

func (c *clock) step(by time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.off += by
}
