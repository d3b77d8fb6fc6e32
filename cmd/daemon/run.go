package daemon

import (
	"context"
	"fmt"
	"io"
	stdlog "log"
	"log/slog"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/pathlockd/pathlockd/groups"
	"github.com/pathlockd/pathlockd/groups/datadir"
)

// sameSignal is how close to the first signal another one counts as the same.
const sameSignal = 50 * time.Millisecond

// run is the daemon as a process: from its configuration until a signal.
func run(src sources, stdout, stderr io.Writer) error {
	cfg, err := src.load()
	if err != nil {
		return err
	}
	log, reopen, err := openLog(&cfg, stderr)
	if err != nil {
		return err
	}
	// Libraries write to the standard log: the replicated log's store its last word
	// before it panics, for one.
	stdlog.SetFlags(0)
	stdlog.SetOutput(slog.NewLogLogger(log.Handler(), slog.LevelWarn).Writer())
	// A reader of our output that goes away must not take the locks with it.
	signal.Ignore(syscall.SIGPIPE)
	var running atomic.Pointer[Daemon]
	again := hangup{reopen: reopen, reload: func() error {
		if d := running.Load(); d != nil {
			return d.reload()
		}
		return nil
	}}
	ctx, stop := stopSignals(log, again, isTerminal(stderr))
	defer stop()

	groups.TuneCollector()
	d, err := Start(ctx, cfg, log)
	if err != nil {
		if ctx.Err() != nil {
			log.Info("stopped before it was started")
			return nil
		}
		return report(log, &cfg, stderr, err)
	}
	running.Store(d)
	if isTerminal(stdout) {
		go func() {
			if d.WaitReady(ctx) == nil {
				_, _ = io.WriteString(stdout, d.banner())
			}
		}()
	}
	<-ctx.Done()
	if err := d.Close(context.Background()); err != nil {
		return report(log, &cfg, stderr, fmt.Errorf("stop: %w", err))
	}
	return nil
}

// report tells why the daemon does not run, where it will be looked for: in the
// log, and in plain words on a terminal or beside a log file. A disk without room ends a
// start as it ends a run (decision 0010).
func report(log *slog.Logger, cfg *Config, stderr io.Writer, err error) error {
	what, code := "pathlockd failed", ExitFailed
	if datadir.FullDisk(err) {
		what, code = "stopping: "+groups.StorageFailed(err), ExitStorage
	}
	if cfg.LogFile != "" || !isTerminal(stderr) {
		log.Error(what, "error", err)
	}
	if cfg.LogFile != "" || isTerminal(stderr) {
		printError(stderr, fmt.Errorf("%s: %w", what, err))
	}
	return reportedError{err, code}
}

// hangup is what SIGHUP does.
type hangup struct {
	reopen func() error // opens the log file anew; nil when there is none
	reload func() error // reads certificates again
}

func (h hangup) do(log *slog.Logger) {
	if h.reopen != nil {
		if err := h.reopen(); err != nil {
			log.Error("cannot open the log file anew", "error", err)
		} else {
			log.Info("opened the log file anew")
		}
	}
	if err := h.reload(); err != nil {
		log.Error("cannot read the certificate again: the one in use stays", "error", err)
	} else {
		log.Info("SIGHUP: certificates are as their files say")
	}
}

// stopSignals answers a context that ends with the first SIGTERM or SIGINT; the
// second ends the process. SIGHUP opens the log file anew and reads certificates
// again; without a log file it is the end of the terminal, if there is one.
func stopSignals(log *slog.Logger, again hangup, terminal bool) (context.Context, func()) {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	if !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(signals, syscall.SIGHUP)
	}
	go func() {
		var first time.Time
		for s := range signals {
			switch {
			case s == syscall.SIGHUP && (again.reopen != nil || !terminal):
				again.do(log)
			case ctx.Err() != nil && time.Since(first) < sameSignal:
				// Who signals a process and its group means it once.
			case ctx.Err() != nil:
				log.Warn("stopping at once: a second signal came", "signal", s.String())
				os.Exit(ExitFailed)
			default:
				log.Info("stopping", "signal", s.String())
				first = time.Now()
				cancel()
			}
		}
	}()
	return ctx, func() { signal.Stop(signals); close(signals); cancel() }
}
