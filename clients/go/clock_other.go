//go:build !linux

package pathlockd

import "time"

// sinceBoot is the time that the machine was awake: what a suspension takes is not seen
// here until it is over and renewals fail.
func sinceBoot() time.Duration { return monotonic() }
