package ceiling

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// EntryBytes is the size of the entries that Disk writes: what one small command
// takes in the replicated log, with what surrounds it there.
const EntryBytes = 256

// diskBytes is the size of Disk's file. Writes begin anew at its front when they
// reach its end.
const diskBytes = 8 << 20

// Disk is a file that entries are written to, one after the other, each made
// durable before the next: as fast as one thread can.
type Disk struct {
	file *os.File
	at   int64
}

// NewDisk makes the file in a directory. All its blocks are written before, so that
// no sync has to note where they are.
func NewDisk(dir string) (*Disk, error) {
	f, err := os.Create(filepath.Join(dir, "sync"))
	if err != nil {
		return nil, err
	}
	_, err = f.Write(make([]byte, diskBytes))
	if err = errors.Join(err, f.Sync()); err != nil {
		return nil, errors.Join(fmt.Errorf("preallocate: %w", err), f.Close())
	}
	return &Disk{file: f}, nil
}

// PerSecond measures for a while how many entries a second are written and synced.
func (d *Disk) PerSecond(during time.Duration) (float64, error) {
	entry := make([]byte, EntryBytes)
	began, n := time.Now(), 0
	for time.Since(began) < during {
		n++
		entry[0] = byte(n)
		if _, err := d.file.WriteAt(entry, d.at); err != nil {
			return 0, err
		}
		if err := datasync(d.file); err != nil {
			return 0, fmt.Errorf("fdatasync: %w", err)
		}
		if d.at += EntryBytes; d.at == diskBytes {
			d.at = 0
		}
	}
	return float64(n) / time.Since(began).Seconds(), nil
}

// Close removes the file.
func (d *Disk) Close() error {
	return errors.Join(d.file.Close(), os.Remove(d.file.Name()))
}
