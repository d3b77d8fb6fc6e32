package cli

import (
	"io"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// terminal is the one that run was started from. Its commands are to read it and to
// hear of Ctrl-C and Ctrl-Z, for which their process group has to be the one in the
// foreground. A nil terminal is none.
type terminal struct {
	fd  int
	own int // our process group
}

// borrowTerminal answers the terminal if it is ours to lend: standard input, and we
// are in the foreground.
func borrowTerminal(stdin io.Reader) *terminal {
	f := stdinFile(stdin)
	if f == nil {
		return nil
	}
	t := &terminal{fd: int(f.Fd()), own: unix.Getpgrp()}
	if front, err := unix.IoctlGetInt(t.fd, unix.TIOCGPGRP); err != nil || front != t.own {
		return nil
	}
	// Who is in the background and takes the terminal is stopped, unless it ignores that.
	signal.Ignore(syscall.SIGTTOU)
	return t
}

// attributes make a child lead a process group, in the terminal's foreground if
// there is one, that is killed when the thread that started it ends.
func (t *terminal) attributes() *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if t != nil {
		a.Foreground, a.Ctty = true, t.fd
	}
	return a
}

// lend puts a process group into the foreground.
func (t *terminal) lend(group int) {
	if t == nil {
		return
	}
	if front, err := unix.IoctlGetInt(t.fd, unix.TIOCGPGRP); err == nil && front == t.own {
		_ = unix.IoctlSetPointerInt(t.fd, unix.TIOCSPGRP, group) // it runs on in the background
	}
}

// takeBack puts our own process group into the foreground.
func (t *terminal) takeBack() {
	if t != nil {
		_ = unix.IoctlSetPointerInt(t.fd, unix.TIOCSPGRP, t.own) // it may be gone
	}
}

// watchStops answers a channel that hears when a child may have been stopped.
func watchStops() (<-chan os.Signal, func()) {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGCHLD)
	return c, func() { signal.Stop(c) }
}

// suspend stops run if its child was stopped (Ctrl-Z), as a shell expects of a job,
// and answers true once both are to go on.
func (t *terminal) suspend(child int) bool {
	if t == nil {
		return false
	}
	var info unix.Siginfo
	err := unix.Waitid(unix.P_PID, child, &info, unix.WSTOPPED|unix.WNOHANG, nil)
	if err != nil || info.Signo != int32(syscall.SIGCHLD) {
		return false
	}
	t.takeBack()
	goOn := make(chan os.Signal, 1)
	signal.Notify(goOn, syscall.SIGCONT)
	defer signal.Stop(goOn)
	_ = syscall.Kill(0, syscall.SIGSTOP) // nobody can refuse that
	<-goOn                               // this thread may run on for a moment before it is stopped
	return true
}
