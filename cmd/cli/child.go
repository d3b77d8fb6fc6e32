package cli

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	pathlockd "github.com/pathlockd/pathlockd/clients/go"
)

// child is the command of run: a process that leads a process group of its own, so
// that all it started can be ended with it.
type child struct {
	cmd  *exec.Cmd
	tty  *terminal     // that it was lent, nil: none
	done chan struct{} // closed once it was waited for
	err  error         // of that
}

// How the end of a process group is waited for.
const (
	groupPoll = 10 * time.Millisecond
	// drainWithin is how long output is copied on that somebody left behind still
	// holds open. It matters only where output is no file.
	drainWithin = time.Second
)

// supervise runs the command while the lock is held. It answers the command's exit
// code, as a childExit; or why it was ended; or a startError.
func (r *running) supervise(lock *pathlockd.Lock, cmd *exec.Cmd) error {
	// The system ties the child to the thread that starts it (terminal.attributes).
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	k := &child{cmd: cmd, done: make(chan struct{})}
	started := make(chan struct{})
	err := r.a.signals.takeOver(func(s syscall.Signal) {
		<-started
		k.signal(s)
	})
	if err != nil {
		close(started)
		return &startError{err}
	}
	k.tty = borrowTerminal(r.a.stdin)
	cmd.SysProcAttr = k.tty.attributes()
	cmd.WaitDelay = drainWithin
	stops, quiet, err := k.start()
	defer quiet()
	close(started)
	if err != nil {
		k.tty.takeBack()
		f := &failure{exit: ExitNotRunnable, code: codeNotRunnable, message: "run: " + err.Error()}
		return &startError{f}
	}
	go func() { k.err = cmd.Wait(); close(k.done) }()
	revoked := lock.Revoked()
	for {
		select {
		case <-k.done:
			k.tty.takeBack()
			return k.exit()
		case <-lock.Lost():
			how := k.end(r.killAfter)
			k.tty.takeBack()
			return lostWhile(lock, how)
		case <-revoked:
			revoked = nil
			if !r.stopOnRevoke {
				r.a.note("somebody asks to let go of %s; the command goes on", visible(lock.Paths()[0].Path))
				continue
			}
			how := k.end(r.killAfter)
			r.a.note("somebody asked to let go of %s; the command was ended (%s)", visible(lock.Paths()[0].Path), how)
			k.tty.takeBack()
			return k.exit()
		case <-stops:
			if k.tty.suspend(cmd.Process.Pid) && lock.Err() == nil {
				k.tty.lend(cmd.Process.Pid)
				k.signal(syscall.SIGCONT)
			}
		}
	}
}

// start starts the command. The channel hears when it may have been stopped, from its first
// moment on: that may be at once, and nobody tells of it again. quiet is to be called in
// any case.
func (k *child) start() (stops <-chan os.Signal, quiet func(), err error) {
	stops, quiet = watchStops()
	return stops, quiet, k.cmd.Start()
}

// signal sends a signal to the child's group, and answers whether there is one: as long
// as the child was not waited for, or something it started is left.
func (k *child) signal(s syscall.Signal) (there bool) {
	return k.cmd.Process != nil && !errors.Is(syscall.Kill(-k.cmd.Process.Pid, s), syscall.ESRCH)
}

// end ends the child and all of its group, and answers how.
func (k *child) end(grace time.Duration) (how string) {
	how = "SIGTERM"
	if grace > 0 {
		k.signal(syscall.SIGTERM)
		k.signal(syscall.SIGCONT) // one that is stopped would not hear it
		if k.gone(grace) {
			return how
		}
		how += fmt.Sprintf(", and SIGKILL after %s", short(grace))
	} else {
		how = "SIGKILL"
	}
	k.signal(syscall.SIGKILL)
	<-k.done // nothing survives that, but the system may take its time
	return how
}

// gone waits until nothing is left of the group. What ended and was not collected by
// whoever it was left to counts as left.
func (k *child) gone(most time.Duration) bool {
	over := time.NewTimer(most)
	defer over.Stop()
	poll := time.NewTicker(groupPoll)
	defer poll.Stop()
	done := k.done
	for {
		select {
		case <-done:
			done = nil
		case <-poll.C:
		case <-over.C:
			return false
		}
		if done == nil && !k.signal(0) {
			return true
		}
	}
}

// exit is how the command ended, after it was waited for.
func (k *child) exit() error {
	state := k.cmd.ProcessState
	if state == nil {
		return fmt.Errorf("wait for the command: %w", k.err)
	}
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return childExit(exitSignal + int(status.Signal()))
	}
	return childExit(state.ExitCode())
}

// stdinFile is a reader as a file, nil when it is none.
func stdinFile(r any) *os.File {
	f, _ := r.(*os.File)
	return f
}
