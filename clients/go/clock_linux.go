package pathlockd

import (
	"time"

	"golang.org/x/sys/unix"
)

// sinceBoot is the time since the machine was started, suspensions included.
func sinceBoot() time.Duration {
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts) != nil {
		return monotonic() // of a kernel from before 2011, always
	}
	return time.Duration(ts.Nano())
}
