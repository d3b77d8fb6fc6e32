// Package cputime says what a test's own thread took of the processor: what a machine that does other work beside it
// cannot lengthen. A test that measures with it stays on its thread (runtime.LockOSThread).
package cputime

import (
	"time"

	"golang.org/x/sys/unix"
)

// Thread is what the calling thread has taken of the processor so far.
func Thread() time.Duration {
	var used unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &used); err != nil {
		panic(err) // the clock is there on every system that this builds on
	}
	return time.Duration(used.Nano())
}
