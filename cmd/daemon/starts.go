package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// startsFile counts the starts of a node whose event streams were served.
const startsFile = "starts"

// maxStarts is how many there can be: event ids are numbers below 2^53, of which the
// upper 21 bits tell the run of the node.
const maxStarts = 1 << 20

// countStart answers how many starts there were before this one, and counts it. The
// count is on disk before anybody can see an id that depends on it.
func countStart(dir string) (uint64, error) {
	path := filepath.Join(dir, startsFile)
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, fmt.Errorf("count the starts: %w", err)
	}
	n := uint64(0)
	if err == nil {
		if n, err = strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64); err != nil {
			return 0, fmt.Errorf("count the starts: %s holds %q, which is no number: write the count of starts into it, or a number that is surely higher", path, text)
		}
	}
	if err := replaceFile(path, strconv.AppendUint(nil, n+1, 10)); err != nil {
		return 0, fmt.Errorf("count the starts: %w", err)
	}
	return n % maxStarts, nil
}

// replaceFile writes a file in place of another, so that after a loss of power
// either the old or the new one is there.
func replaceFile(path string, text []byte) error {
	f, err := os.OpenFile(path+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(text, '\n'))
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Sync()
}
