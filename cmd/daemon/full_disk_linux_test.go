package daemon

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pathlockd/pathlockd/wire"
)

// smallDisk is a directory on a disk of its own, of so many bytes.
func smallDisk(t *testing.T, size int) string {
	t.Helper()
	dir := t.TempDir()
	err := unix.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d", size))
	if err != nil && os.Getuid() != 0 {
		t.Skip("a disk is mounted by root alone")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// roomOn is how many bytes of a disk are free.
func roomOn(t *testing.T, dir string) uint64 {
	t.Helper()
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		t.Error(err)
	}
	return s.Bavail * uint64(s.Bsize)
}

// fill leaves so many bytes of a disk, and answers the file that took the others.
func fill(t *testing.T, dir string, leave uint64) string {
	t.Helper()
	name := filepath.Join(dir, "filler")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for block := make([]byte, 4096); ; {
		if roomOn(t, dir) <= leave {
			return name
		}
		if _, err := f.Write(block); err != nil {
			return name
		}
	}
}

// diskWriter takes locks until its node is gone, and knows which were acknowledged.
type diskWriter struct {
	c     *client
	next  int
	acked []string
}

// write takes n locks, and says whether the node answered.
func (w *diskWriter) write(n int) bool {
	paths := make(map[uint64]string)
	var b []byte
	for range n {
		w.next++
		w.c.id++
		path := fmt.Sprintf("t:/n%d/%s-%d", w.next%8, strings.Repeat("x", 1000), w.next)
		paths[w.c.id] = path
		b = wire.AppendRequest(b, w.c.id, lock("o", path, 0))
	}
	if _, err := w.c.conn.Write(b); err != nil {
		return false
	}
	for range n {
		f, err := w.c.read()
		if err != nil {
			return false
		}
		var res wire.Result
		if err := res.Decode(wire.OpAcquire, wire.Code(f.code), &f.r, f.n); err == nil && res.Code == wire.OK &&
			res.Status == wire.StatusOK {
			w.acked = append(w.acked, paths[f.id])
		}
	}
	return true
}

// TestFullDiskEndsTheSameWay: a disk fills up altogether, at one moment or another and to the last byte or nearly. With
// no reserve to stop at before, the node ends with exit code 3 at the next write that needs room, and its last line
// says what to do; a start on the full disk ends so too. When there is room, a start finds every lock that was
// acknowledged.
func TestFullDiskEndsTheSameWay(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		when   string
		before int    // locks taken before it fills up
		leave  uint64 // bytes
		under  bool   // while locks are taken
		idle   bool   // nothing is asked then, and a checkpoint is due
	}{
		{"when nothing was written yet", 0, 0, false, false},
		{"after some writes", 500, 0, false, false},
		{"to the last but a little", 500, 300 << 10, false, false},
		{"just above what the raft log takes at a time", 1500, 1100 << 10, false, false},
		{"amid writes", 200, 0, true, false},
		{"amid checkpoints", 6000, 64 << 10, true, false},
		{"before a checkpoint", 900, 0, false, true},
	} {
		t.Run(c.when, func(t *testing.T) {
			// What 6000 locks take at most, with checkpoints under way, is half of it: the rest is the room that is
			// made.
			dir := smallDisk(t, 96<<20)
			args := []string{
				"--bootstrap", "--data_dir=" + dir + "/data", "--native_listen=127.0.0.1:0", "--raft_addr=127.0.0.1:0",
				"--disk_reserve_bytes=0", "--group_count=8", "--log_count=2",
			}
			p := runPathlockd(t, t.TempDir(), args...)
			addr, _ := p.ready()
			w := &diskWriter{c: dial(t, "tcp", addr, wire.Hello{})}
			for w.next < c.before {
				if !w.write(50) {
					t.Fatal("it does not answer though there is room")
				}
			}
			filled := make(chan string, 1)
			if c.under {
				go func() { filled <- fill(t, dir, c.leave) }()
			} else {
				filled <- fill(t, dir, c.leave)
			}
			for began := time.Now(); !c.idle && w.write(50); {
				if time.Since(began) > patience {
					t.Fatalf("it goes on with a full disk, %d locks later", len(w.acked))
				}
			}
			file := <-filled
			lastWords(t, p, dir)

			again := runPathlockd(t, t.TempDir(), args...)
			lastWords(t, again, dir)

			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
			if room := roomOn(t, dir); room < 24<<20 {
				t.Fatalf("%d bytes are free without the file that filled it: this shows nothing", room)
			}
			p = runPathlockd(t, t.TempDir(), args...)
			addr, _ = p.ready()
			r := dial(t, "tcp", addr, wire.Hello{})
			for _, path := range w.acked {
				r.mustHold(path, "o")
			}
			t.Logf("%d locks were acknowledged", len(w.acked))
		})
	}
}

// lastWords checks how a process ended whose disk is full.
func lastWords(t *testing.T, p *process, dir string) {
	t.Helper()
	code := p.exit()
	p.mu.Lock()
	defer p.mu.Unlock()
	last := map[string]any{}
	if n := len(p.lines); n > 0 {
		last = p.lines[n-1]
	}
	msg, _ := last["msg"].(string)
	why, _ := last["error"].(string)
	if code != 3 || !strings.HasPrefix(msg, "stopping: storage failed") ||
		!strings.Contains(why, "no space left on device") ||
		!strings.Contains(msg, "make room in data_dir") {
		t.Errorf("it ended with %d, and its last line is %v", code, last)
	}
}
