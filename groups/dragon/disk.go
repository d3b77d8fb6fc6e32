package dragon

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/lni/dragonboat/v4/config"
	gvfs "github.com/lni/vfs"
)

// logAhead is how many zeros are kept written ahead of a write-ahead log. A sync of
// a file that has its size and its blocks already writes the data and nothing else;
// one that grows needs the file system's journal too: 9.1 k against 6.3 k syncs a
// second of 300 bytes each, on ext4.
const logAhead = 1 << 20

// disk is the file system raft's log store works on. It differs from the plain
// one in two things: its write-ahead logs are written over zeros, and a write or a
// sync that fails ends the process with its last word. After such a failure nobody
// knows what the disk has, so nothing may be acknowledged any more.
type disk struct {
	gvfs.FS
	ahead int64
	zeros []byte
	fail  func(error)
}

// newDisk wraps a file system, nil for the operating system's.
func newDisk(fs config.IFS, fail func(error)) config.IFS {
	d := &disk{FS: gvfs.Default, ahead: logAhead, fail: fail}
	if fs != nil {
		d.FS, d.ahead = fs, 16<<10 // in memory a sync copies the file
	}
	d.zeros = make([]byte, d.ahead)
	// dragonboat accepts no file system but its own types; of those, this one passes
	// everything on.
	return gvfs.Wrap(d, noFaults{})
}

// noFaults is an injector of no faults.
type noFaults struct{}

func (noFaults) MaybeError(gvfs.Op) error { return nil }

// check passes err on, after the last word if it says that the disk failed.
func (d *disk) check(what, name string, err error) error {
	if err != nil && !errors.Is(err, os.ErrClosed) && !errors.Is(err, os.ErrNotExist) {
		d.fail(fmt.Errorf("raft log: %s %s: %w", what, name, err))
		return nil // nobody will know (Config.Failed)
	}
	return err
}

func (d *disk) Create(name string) (gvfs.File, error) {
	f, err := d.FS.Create(name)
	if err != nil {
		return nil, errors.Join(err, d.check("create", name, err))
	}
	return d.wrap(f, name, 0), nil
}

func (d *disk) OpenForAppend(name string) (gvfs.File, error) {
	f, err := d.FS.OpenForAppend(name)
	if err != nil {
		return nil, errors.Join(err, d.check("open", name, err))
	}
	return &file{File: f, d: d, name: name}, nil
}

// ReuseForWrite gives a log that is not needed any more a new name: its blocks are
// there already.
func (d *disk) ReuseForWrite(oldname, newname string) (gvfs.File, error) {
	f, err := d.FS.ReuseForWrite(oldname, newname)
	if err != nil {
		return nil, errors.Join(err, d.check("reuse", oldname, err))
	}
	info, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, d.check("stat", newname, err), f.Close())
	}
	return d.wrap(f, newname, info.Size()), nil
}

func (d *disk) OpenDir(name string) (gvfs.File, error) {
	f, err := d.FS.OpenDir(name)
	if err != nil {
		return nil, err
	}
	return &file{File: f, d: d, name: name}, nil
}

func (d *disk) wrap(f gvfs.File, name string, size int64) gvfs.File {
	plain := file{File: f, d: d, name: name}
	if strings.HasSuffix(name, ".log") {
		return &walFile{file: plain, filled: size}
	}
	return &plain
}

// file is a file whose failing writes are the process's end. It has no Fd: who
// writes it must come through here.
type file struct {
	gvfs.File
	d    *disk
	name string
}

func (f *file) Write(p []byte) (int, error) {
	n, err := f.File.Write(p)
	if err != nil {
		return len(p), f.d.check("write", f.name, err)
	}
	return n, nil
}

func (f *file) WriteAt(p []byte, at int64) (int, error) {
	n, err := f.File.WriteAt(p, at)
	if err != nil {
		return len(p), f.d.check("write", f.name, err)
	}
	return n, nil
}

func (f *file) Sync() error { return f.d.check("sync", f.name, f.File.Sync()) }

// walFile is a write-ahead log: it is written from start to end over zeros. Who
// reads it knows zeros for its end. Write and Sync are called by one goroutine each.
type walFile struct {
	file
	at     int64 // where the next write goes
	filled int64 // the file's size: at least at
}

func (f *walFile) Write(p []byte) (int, error) {
	for f.at+int64(len(p)) > f.filled {
		n, err := f.File.WriteAt(f.d.zeros, f.filled)
		if err != nil {
			if err = f.d.check("extend", f.name, err); err != nil {
				return 0, err
			}
			n = len(f.d.zeros)
		}
		f.filled += int64(n)
	}
	n, err := f.file.Write(p)
	f.at += int64(n)
	return n, err
}

// Sync makes what was written durable: all of it, and no more of the file's own
// particulars than reading it needs.
func (f *walFile) Sync() error {
	return f.d.check("sync", f.name, dataSync(f.File))
}
