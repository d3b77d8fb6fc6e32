package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// lockFile shows that a data directory is in use, and by which process. The lock on
// it goes with the process, however that ends.
const lockFile = "pathlockd.lock"

// lockDataDir makes this process the only one that uses a data directory. found
// says that the directory may be made.
func lockDataDir(ctx context.Context, dir string, found bool) (unlock func(), err error) {
	if found {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, fmt.Errorf("make data_dir: %w", err)
		}
	}
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return func() {}, nil // nothing to share; the node says what is missing
	case err != nil:
		return nil, fmt.Errorf("data_dir: %w", err)
	case !info.IsDir():
		return nil, fmt.Errorf("data_dir %s: is no directory", dir)
	}
	path := filepath.Join(dir, lockFile)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock data_dir: %w", err)
	}
	if err := flock(ctx, f); err != nil {
		defer f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("data_dir %s is in use by another pathlockd%s: stop that one, or use "+
				"another data_dir", dir, holder(f))
		}
		return nil, fmt.Errorf("lock data_dir with %s: %w", path, err)
	}
	if err := errors.Join(f.Truncate(0), writePID(f)); err != nil {
		f.Close()
		return nil, fmt.Errorf("lock data_dir: %w", err)
	}
	return func() {
		// Not only by closing it: a child that is just being started has it open too.
		_ = syscall.Flock(int(f.Fd()), syscall.LOCK_UN)
		f.Close()
	}, nil
}

const (
	// lockWithin is how long a process that was just killed may take to be gone.
	lockWithin = time.Second
	lockEvery  = 20 * time.Millisecond
)

// flock takes the lock on f.
func flock(ctx context.Context, f *os.File) error {
	try := time.NewTicker(lockEvery)
	defer try.Stop()
	for began := time.Now(); ; {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EWOULDBLOCK) || time.Since(began) > lockWithin {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-try.C:
		}
	}
}

func writePID(f *os.File) error {
	_, err := f.WriteAt(strconv.AppendInt(nil, int64(os.Getpid()), 10), 0)
	return err
}

// holder tells which process wrote the lock file, if one did.
func holder(f *os.File) string {
	b := make([]byte, 32)
	n, _ := f.ReadAt(b, 0)
	pid, err := strconv.Atoi(strings.TrimSpace(string(b[:n])))
	if err != nil {
		return ""
	}
	return fmt.Sprintf(" (process %d)", pid)
}
