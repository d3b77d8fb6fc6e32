//go:build !linux

package server

import "syscall"

// dieWithParent has no way to say so on this system.
func dieWithParent() *syscall.SysProcAttr { return nil }
