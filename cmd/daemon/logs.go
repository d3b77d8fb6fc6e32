package daemon

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"

	"golang.org/x/term"
)

// openLog makes the logger that a configuration asks for: text on a terminal, JSON
// otherwise. reopen, nil without a log_file, opens the file anew by its name, after
// somebody moved it away; until that works, the old one is written on.
func openLog(c *Config, stderr io.Writer) (log *slog.Logger, reopen func() error, err error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(c.LogLevel)); err != nil {
		return nil, nil, fmt.Errorf("log_level: %w", err)
	}
	opts := &slog.HandlerOptions{Level: level}
	if c.LogFile != "" {
		f := &logFile{path: c.LogFile}
		if err := f.reopen(); err != nil {
			return nil, nil, err
		}
		return slog.New(slog.NewJSONHandler(f, opts)), f.reopen, nil
	}
	if isTerminal(stderr) {
		return slog.New(slog.NewTextHandler(stderr, opts)), nil, nil
	}
	return slog.New(slog.NewJSONHandler(stderr, opts)), nil, nil
}

// isTerminal says that a person reads what is written to w.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// logFile is a log file that can be opened anew.
type logFile struct {
	path string
	mu   struct {
		sync.Mutex
		f *os.File
	}
}

func (l *logFile) reopen() error {
	f, err := os.OpenFile(l.path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o640)
	if err != nil {
		return fmt.Errorf("log_file: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.f != nil {
		l.mu.f.Close()
	}
	l.mu.f = f
	return nil
}

// Write implements io.Writer.
func (l *logFile) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.f.Write(b)
}
