package server

import "syscall"

// dieWithParent has the kernel kill the child when its parent is gone, also when
// that was killed and could not clean up.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
