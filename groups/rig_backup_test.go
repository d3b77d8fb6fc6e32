package groups

import (
	"context"
	"io"
	"path/filepath"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	gvfs "github.com/lni/vfs"

	"github.com/pathlockd/pathlockd/groups/backup"
	"github.com/pathlockd/pathlockd/groups/rows"
	"github.com/pathlockd/pathlockd/wire"
)

// openImage opens an image of a log.
func (c *caller) openImage(log uint64, local bool) *wire.Backup {
	c.r.t.Helper()
	return c.must(&wire.Request{Op: wire.OpBackupOpen, Target: log, Explicit: local}).List.Backup
}

// readImage reads an image to its end, each page twice.
func (c *caller) readImage(id uint64, to io.Writer) {
	c.r.t.Helper()
	req := &wire.Request{Op: wire.OpBackupRead, Target: id}
	for {
		res := c.must(req)
		if again := c.must(req); string(again.List.Rows) != string(res.List.Rows) || again.Done != res.Done {
			c.r.t.Fatal("a page that is asked for again differs")
		}
		if _, err := to.Write(res.List.Rows); err != nil {
			c.r.t.Fatal(err)
		}
		if res.Done {
			return
		}
		req = &wire.Request{Op: wire.OpBackupRead, Target: id, Cursor: res.List.Cursor}
	}
}

// saveImage has a backup take an image, and closes it.
func (c *caller) saveImage(w *backup.Writer, b *wire.Backup) {
	c.r.t.Helper()
	l, err := w.Log(b)
	if err != nil {
		c.r.t.Fatal(err)
	}
	c.readImage(b.ID, l)
	if err := l.Close(); err != nil {
		c.r.t.Fatal(err)
	}
	c.must(&wire.Request{Op: wire.OpBackupClose, Target: b.ID})
}

// save takes a backup of the node, once all images are open.
func (r *rig) save(opened func(log uint64)) string {
	r.t.Helper()
	dir := filepath.Join(r.t.TempDir(), "backup")
	w, err := backup.Create(dir)
	if err != nil {
		r.t.Fatal(err)
	}
	c := r.session()
	var images []*wire.Backup
	for _, log := range rows.LogsOf(r.cfg.LogCount) {
		images = append(images, c.openImage(log, false))
		if opened != nil {
			opened(log)
		}
	}
	for _, b := range images {
		c.saveImage(w, b)
	}
	if _, err := w.Commit("test", false); err != nil {
		r.t.Fatal(err)
	}
	return dir
}

// restore founds another cluster with a backup, and opens its node.
func (r *rig) restore(dir string) (*rig, *backup.Restored) {
	r.t.Helper()
	data := filepath.Join(r.t.TempDir(), "restored")
	made, err := backup.Restore(context.Background(), backup.Options{From: dir, DataDir: data, NodeID: "pathlockd-7"})
	if err != nil {
		r.t.Fatal(err)
	}
	other := &rig{t: r.t, cfg: r.cfg, clock: &testClock{start: time.Now()}}
	other.cfg.DataDir, other.cfg.NodeID, other.cfg.Bootstrap = data, "pathlockd-7", false
	other.cfg.RaftAddr, other.cfg.Clock = freeAddr(r.t), other.clock
	other.cfg.FS, other.cfg.RaftFS = vfs.Default, gvfs.NewStrictMem()
	other.openRestored()
	r.t.Cleanup(func() {
		if other.node != nil {
			other.node.Close(0)
		}
	})
	return other, made
}

func (r *rig) openRestored() {
	r.t.Helper()
	n, err := Open(r.cfg)
	if err != nil {
		r.t.Fatal(err)
	}
	r.node = n
	r.live.Store(n)
	if !n.WaitReady(90 * time.Second) {
		r.t.Fatalf("not ready: %s", n.health().Message)
	}
}

// countdown is cancelled after it was looked at so many times.
type countdown struct {
	context.Context
	left int
}

func (c *countdown) Err() error {
	if c.left--; c.left < 0 {
		return context.Canceled
	}
	return nil
}
