package cli

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// signalError is the end of a call by a signal.
type signalError struct{ sig syscall.Signal }

func (e *signalError) Error() string { return "stopped by a signal (" + e.sig.String() + ")" }

// signals turns the first signal into the end of a context; or, once somebody took
// them over, hands them on. A second signal that nobody took over ends the process,
// whatever it is cleaning up.
type signals struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	came   chan os.Signal
	mu     struct {
		sync.Mutex
		forward func(syscall.Signal)
	}
}

// catchSignals begins to listen.
func catchSignals() *signals {
	s := &signals{came: make(chan os.Signal, 8)}
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	signal.Notify(s.came, syscall.SIGINT, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // nohup
		signal.Notify(s.came, syscall.SIGHUP)
	}
	go func() {
		for got := range s.came {
			sig := got.(syscall.Signal)
			s.mu.Lock()
			forward := s.mu.forward
			s.mu.Unlock()
			switch {
			case forward != nil:
				forward(sig)
			case s.ctx.Err() != nil:
				os.Exit(exitSignal + int(sig))
			default:
				s.cancel(&signalError{sig})
			}
		}
	}()
	return s
}

// takeOver hands signals on to f from now on, those that commands like to get
// included. It answers the signal that came before, if there was one.
func (s *signals) takeOver(f func(syscall.Signal)) error {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	s.mu.forward = f
	s.mu.Unlock()
	signal.Notify(s.came, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2)
	return context.Cause(s.ctx)
}

// release ends the listening.
func (s *signals) release() {
	signal.Stop(s.came)
	close(s.came)
	s.cancel(nil)
}
