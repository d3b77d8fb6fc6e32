package main

import "syscall"

// ofItsOwn keeps a worker out of the terminal's signals, which are the supervisor's,
// and has the kernel kill it when the supervisor is gone.
func ofItsOwn() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
