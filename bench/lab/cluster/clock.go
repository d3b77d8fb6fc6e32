package cluster

import (
	"sync"
	"time"
)

// clock is a machine's clock whose time of day can be set.
type clock struct {
	start time.Time
	mu    sync.Mutex
	off   time.Duration
}

// Mono implements groups.Clock.
func (c *clock) Mono() time.Duration { return time.Since(c.start) }

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
