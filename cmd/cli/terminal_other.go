//go:build !linux

package cli

import (
	"io"
	"os"
	"syscall"
)

// terminal is the one that run was started from. Only on Linux it is lent to the
// command: elsewhere the command stays in the background of it.
type terminal struct{}

func borrowTerminal(io.Reader) *terminal { return nil }

func (t *terminal) attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
func (t *terminal) lend(int)                         {}
func (t *terminal) takeBack()                        {}
func (t *terminal) suspend(int) bool                 { return false }

func watchStops() (<-chan os.Signal, func()) { return nil, func() {} }
