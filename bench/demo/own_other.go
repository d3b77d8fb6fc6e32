//go:build !linux

package main

import "syscall"

// ofItsOwn keeps a worker out of the terminal's signals, which are the supervisor's.
// When that is gone, the worker's input ends, and so does the worker.
func ofItsOwn() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
