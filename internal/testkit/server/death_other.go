//go:build !linux

package server

import "syscall"

// dieWithParent has no way to say so on this system. A Ctrl-C is for the parent alone.
func dieWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
