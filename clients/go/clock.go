package pathlockd

import "time"

// now is the time by the client's clock, which also runs while the machine is suspended:
// the servers' does. Only differences between its times mean something.
func (c *Client) now() time.Duration {
	if planted == plantUnslept {
		return monotonic()
	}
	return c.opt.clock()
}

// at is when the client's clock shows something, as time tells it.
func (c *Client) at(d time.Duration) time.Time { return time.Now().Add(d - c.now()) }

// monotonic is a clock for systems whose own does not tell what was slept through.
func monotonic() time.Duration { return time.Since(processStart) + time.Second }
