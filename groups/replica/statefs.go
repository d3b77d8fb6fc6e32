package replica

import (
	"errors"
	"fmt"
	"os"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// stateDisk is the file system of the state database: a write or a sync that fails
// ends the process with its last word, as it does for the raft log (groups/dragon).
// Left to itself the database panics when it cannot write its log, and tells
// nobody why.
type stateDisk struct {
	vfs.FS
	fail func(error)
}

func (d *stateDisk) check(what, name string, err error) error {
	if err != nil && !errors.Is(err, os.ErrClosed) && !errors.Is(err, os.ErrNotExist) {
		d.fail(fmt.Errorf("state database: %s %s: %w", what, name, err))
		return nil // nobody will know (Config.Fatal)
	}
	return err
}

func (d *stateDisk) wrap(what, name string, f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, errors.Join(err, d.check(what, name, err))
	}
	return &stateFile{File: f, d: d, name: name}, nil
}

func (d *stateDisk) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := d.FS.Create(name, c)
	return d.wrap("create", name, f, err)
}

func (d *stateDisk) OpenReadWrite(name string, c vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	f, err := d.FS.OpenReadWrite(name, c, opts...)
	return d.wrap("open", name, f, err)
}

func (d *stateDisk) ReuseForWrite(old, name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := d.FS.ReuseForWrite(old, name, c)
	return d.wrap("reuse", name, f, err)
}

func (d *stateDisk) OpenDir(name string) (vfs.File, error) {
	f, err := d.FS.OpenDir(name)
	return d.wrap("open", name, f, err)
}

// Unwrap implements vfs.FS.
func (d *stateDisk) Unwrap() vfs.FS { return d.FS }

// stateFile is a file whose failing writes are the process's end.
type stateFile struct {
	vfs.File
	d    *stateDisk
	name string
}

func (f *stateFile) Write(p []byte) (int, error) {
	n, err := f.File.Write(p)
	if err != nil {
		return len(p), f.d.check("write", f.name, err)
	}
	return n, nil
}

func (f *stateFile) WriteAt(p []byte, at int64) (int, error) {
	n, err := f.File.WriteAt(p, at)
	if err != nil {
		return len(p), f.d.check("write", f.name, err)
	}
	return n, nil
}

func (f *stateFile) Sync() error { return f.d.check("sync", f.name, f.File.Sync()) }

func (f *stateFile) SyncData() error { return f.d.check("sync", f.name, f.File.SyncData()) }

func (f *stateFile) SyncTo(length int64) (bool, error) {
	full, err := f.File.SyncTo(length)
	return full, f.d.check("sync", f.name, err)
}
