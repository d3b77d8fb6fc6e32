package dragon

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"

	"github.com/lni/dragonboat/v4/logger"
)

var messagesOnce sync.Once

// LogTo sends dragonboat's messages to a logger, and has panicked called before it panics. dragonboat has one logger
// for the whole process, so the first node of a process decides.
func LogTo(log *slog.Logger, panicked func(*slog.Logger, error)) {
	messagesOnce.Do(func() {
		logger.SetLoggerFactory(func(pkg string) logger.ILogger {
			return &messages{panicked: panicked, log: log.With("raft", pkg), level: logger.WARNING,
				quiet: pkg == "transport"}
		})
		for _, pkg := range []string{"dragonboat", "raft", "rsm", "logdb", "transport", "config", "registry",
			"settings", "utils", "server", "raftpb", "grpc", "tests", "util", "pebblekv", "fileutil"} {
			logger.GetLogger(pkg).SetLevel(logger.WARNING)
		}
	})
}

// messages passes dragonboat's messages on. A Panicf is its last word before it
// panics: the process must end, and say why.
type messages struct {
	log      *slog.Logger
	panicked func(*slog.Logger, error)
	level    logger.LogLevel
	quiet    bool // its errors are that nodes cannot be reached, which the link tells better
}

func (l *messages) SetLevel(level logger.LogLevel) { l.level = level }

func (l *messages) Debugf(format string, args ...any) {
	if l.level >= logger.DEBUG {
		l.log.Debug(message(format, args))
	}
}

func (l *messages) Infof(format string, args ...any) {
	if l.level >= logger.INFO {
		l.log.Debug(message(format, args))
	}
}

func (l *messages) Warningf(format string, args ...any) {
	if l.level >= logger.WARNING {
		l.log.Debug(message(format, args))
	}
}

func (l *messages) Errorf(format string, args ...any) {
	if l.quiet {
		l.log.Debug(message(format, args))
		return
	}
	l.log.Error(message(format, args))
}

func (l *messages) Panicf(format string, args ...any) {
	l.panicked(l.log, fmt.Errorf(format, args...))
	panic(message(format, args))
}

func message(format string, args []any) string {
	return strings.TrimSpace(fmt.Sprintf(format, args...))
}
