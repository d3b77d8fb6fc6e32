package backup

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"

	"github.com/pathlockd/pathlockd/groups/rows"
	"github.com/pathlockd/pathlockd/wire"
)

// Writer writes a backup: into a directory beside the target, which takes the
// target's name when everything is in it and on disk.
type Writer struct {
	target, dir string
	manifest    Manifest
}

// ErrExists says that a target is there already. It is always wrapped with its name.
var ErrExists = errors.New("is there already")

// Create begins a backup at a path where nothing is.
func Create(target string) (*Writer, error) {
	target = filepath.Clean(target) // "monday/" is to be made beside others, not within itself
	if _, err := os.Lstat(target); err == nil {
		return nil, fmt.Errorf("%s %w", target, ErrExists)
	} else if !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("look for %s: %w", target, err)
	}
	dir, err := os.MkdirTemp(filepath.Dir(target), "."+filepath.Base(target)+".partial-")
	if err != nil {
		return nil, fmt.Errorf("make a directory beside %s: %w", target, err)
	}
	return &Writer{target: target, dir: dir}, nil
}

// Abort removes what was written so far. After Commit it does nothing.
func (w *Writer) Abort() error {
	if w.dir == "" {
		return nil
	}
	return os.RemoveAll(w.dir)
}

// Log begins the file of a log whose image was opened. Files are begun in the order of
// the logs' numbers, and one is ended before the next.
func (w *Writer) Log(b *wire.Backup) (*LogWriter, error) {
	if w.manifest.Format == 0 {
		w.manifest = Manifest{
			Format: backupFormat, ClusterID: b.ClusterID, GroupCount: int(b.GroupCount), LogCount: int(b.LogCount),
			Segments: int(b.PrefixSegments), Algorithm: b.Algorithm.String(), Replication: int(b.Replication),
		}
	}
	if b.ClusterID != w.manifest.ClusterID {
		return nil, fmt.Errorf("log %d is of cluster %s, the logs before it of %s", b.Log, b.ClusterID,
			w.manifest.ClusterID)
	}
	name := FileOf(b.Log)
	f, err := os.OpenFile(filepath.Join(w.dir, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, fmt.Errorf("make %s: %w", name, err)
	}
	l := &LogWriter{w: w, f: f, hash: sha256.New(), saved: Saved{
		Log: b.Log, File: name, AppliedIndex: b.AppliedIndex, UnixMillis: b.UnixMillis,
	}, counted: make(chan error, 1)}
	r, pipe := io.Pipe()
	l.pipe = pipe
	go func() {
		err := l.count(r)
		r.CloseWithError(err)
		l.counted <- err
	}()
	return l, nil
}

// Commit ends the backup: from then on it is at its target. local says that its images
// are what one node had.
func (w *Writer) Commit(serverVersion string, local bool) (*Manifest, error) {
	m := &w.manifest
	m.ServerVersion, m.Local = serverVersion, local
	if err := m.check(); err != nil {
		return nil, err
	}
	b, err := m.encode()
	if err != nil {
		return nil, err
	}
	if err := writeSynced(filepath.Join(w.dir, manifestFile), b); err != nil {
		return nil, fmt.Errorf("write the manifest: %w", err)
	}
	if err := syncDir(w.dir); err != nil {
		return nil, err
	}
	if _, err := os.Lstat(w.target); err == nil {
		return nil, fmt.Errorf("%s %w", w.target, ErrExists)
	}
	if err := os.Rename(w.dir, w.target); err != nil {
		return nil, err
	}
	w.dir = ""
	return m, syncDir(filepath.Dir(w.target))
}

// LogWriter takes the image of one log, piece by piece.
type LogWriter struct {
	w       *Writer
	f       *os.File
	hash    hash.Hash
	saved   Saved
	pipe    *io.PipeWriter
	counted chan error
	ended   bool
}

// count counts the rows, and says what is wrong with the stream.
func (l *LogWriter) count(from io.Reader) error {
	r := rows.NewReader(from)
	for {
		_, _, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		l.saved.Rows++
	}
	_, err := rows.ReadSum(r.Rest())
	return err
}

// Write implements io.Writer.
func (l *LogWriter) Write(p []byte) (int, error) {
	if _, err := l.pipe.Write(p); err != nil {
		return 0, fmt.Errorf("log %d: %w", l.saved.Log, err)
	}
	l.hash.Write(p)
	l.saved.Bytes += int64(len(p))
	return l.f.Write(p)
}

// Close ends the file once the whole image is in it, and puts it on disk. Closing it
// again, or a file of which not all came, only closes it.
func (l *LogWriter) Close() error {
	if l.ended {
		return nil
	}
	l.ended = true
	l.pipe.Close()
	if err := <-l.counted; err != nil {
		return errors.Join(fmt.Errorf("what came of log %d is no image of it: %w", l.saved.Log, err), l.f.Close())
	}
	if err := errors.Join(l.f.Sync(), l.f.Close()); err != nil {
		return fmt.Errorf("write %s: %w", l.saved.File, err)
	}
	l.saved.SHA256 = hex.EncodeToString(l.hash.Sum(nil))
	l.w.manifest.Logs = append(l.w.manifest.Logs, l.saved)
	return nil
}

func writeSynced(path string, b []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	return errors.Join(err, f.Sync(), f.Close())
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
