package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// ticksPerSecond is the unit of processor time in /proc: USER_HZ, which Linux has
// fixed at 100 for programs.
const ticksPerSecond = 100

// errNoProc says that this system does not tell what processes use.
var errNoProc = errors.New("the processor time of a process is only known on Linux (/proc)")

// processorTime is what a process has used so far.
func processorTime(pid int) (time.Duration, error) {
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if errors.Is(err, os.ErrNotExist) {
		return 0, errNoProc
	}
	if err != nil {
		return 0, err
	}
	// The name, in parentheses, may have spaces in it; utime and stime are the 12th
	// and 13th fields after it (proc_pid_stat(5)).
	_, rest, _ := strings.Cut(string(line), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0, fmt.Errorf("/proc/%d/stat is not understood", pid)
	}
	var ticks int64
	for _, f := range fields[11:13] {
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("/proc/%d/stat: %w", pid, err)
		}
		ticks += n
	}
	return time.Duration(ticks) * time.Second / ticksPerSecond, nil
}

// used is the share of one processor that a process uses over a time.
func used(ctx context.Context, pid int, over time.Duration) (float64, error) {
	before, err := processorTime(pid)
	if err != nil {
		return 0, err
	}
	began := time.Now()
	if err := sleep(ctx, over); err != nil {
		return 0, err
	}
	after, err := processorTime(pid)
	return (after - before).Seconds() / time.Since(began).Seconds(), err
}

const (
	// quietShare is the share of a processor below which a server counts as at rest.
	quietShare = 0.08
	// quietWithin is how long is waited for that.
	quietWithin = 30 * time.Second
)

// settle waits until a server is at rest: until it has written what its last
// workload left behind. Where that cannot be seen it does not wait.
func (s *suite) settle(pid int) error {
	for began := time.Now(); time.Since(began) < quietWithin; {
		share, err := used(s.ctx, pid, s.quiet)
		if errors.Is(err, errNoProc) {
			return nil
		}
		if err != nil {
			return err
		}
		if share < quietShare {
			return nil
		}
	}
	return nil // what it still does, a user's server does too
}

// sleep waits.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}
