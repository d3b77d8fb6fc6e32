package groups

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// ladder takes one path after the other, each below the same namespace, and notes
// what it asked for and what it was told.
type ladder struct {
	space       string
	asked, told atomic.Int64
}

func (l *ladder) climb(c *caller, stop chan struct{}) {
	for i := int64(1); ; i++ {
		l.asked.Store(i)
		o := c.start(c.r.next.Add(1), write("climber", fmt.Sprintf("%s/%06d", l.space, i), time.Hour))
		select {
		case res := <-o.done:
			if res.Code != wire.OK {
				return
			}
			l.told.Store(i)
		case <-stop:
			return
		}
	}
}

// TestBackupIsOneInstant takes a backup while clients go on: in each log it has what
// was acknowledged before its image was opened, nothing that was asked for after, and
// of what came between a beginning without holes.
func TestBackupIsOneInstant(t *testing.T) {
	r := newRig(t, nil)
	var ladders []*ladder
	stop := make(chan struct{})
	var clients sync.WaitGroup
	for i := range 6 {
		l := &ladder{space: fmt.Sprintf("h:/%d", i)}
		ladders = append(ladders, l)
		clients.Add(1)
		go func() {
			defer clients.Done()
			l.climb(r.session(), stop)
		}()
	}
	defer func() {
		close(stop)
		clients.Wait()
	}()
	high := func(rungs int64) func() bool {
		return func() bool {
			for _, l := range ladders {
				if l.told.Load() < rungs {
					return false
				}
			}
			return true
		}
	}
	eventually(t, "some hundred locks", high(100))
	for _, m := range r.node.hosted() { // half of it is on disk, half is not
		if err := m.Checkpoint(false); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "some more", high(200))
	least, most := make([]int64, len(ladders)), make([]int64, len(ladders))
	for i, l := range ladders {
		least[i] = l.told.Load()
	}
	dir := r.save(func(log uint64) {
		for i, l := range ladders {
			if r.node.homes[r.node.groupOf(l.space)] == log {
				most[i] = l.asked.Load()
			}
		}
	})
	eventually(t, "the clients went on", high(least[0]+100))
	other, made := r.restore(dir)
	c := other.session()
	for i, l := range ladders {
		n := int64(0)
		last := int64(0)
		for c.inspect(fmt.Sprintf("%s/%06d", l.space, n+1)).Owner == "climber" {
			n++
			res := c.inspect(fmt.Sprintf("%s/%06d", l.space, n))
			if res.Token <= made.Base || res.Token <= last {
				t.Fatalf("rung %d of %s has token %d, after %d and with base %d", n, l.space, res.Token,
					last, made.Base)
			}
			last = res.Token
		}
		if n < least[i] || n > most[i] {
			t.Errorf("%s has %d rungs in the backup: %d were acknowledged before, %d asked for until its "+
				"image was there", l.space, n, least[i], most[i])
		}
		for beyond := n + 1; beyond <= most[i]; beyond++ {
			if owner := c.inspect(fmt.Sprintf("%s/%06d", l.space, beyond)).Owner; owner != "" {
				t.Errorf("%s has rung %d and not %d", l.space, beyond, n+1)
			}
		}
		if late := c.must(write("late", fmt.Sprintf("%s/late", l.space), time.Hour)); late.Token <= made.Base {
			t.Errorf("token %d in %s, with base %d", late.Token, l.space, made.Base)
		}
	}
}

// TestBackupLimits: images are bounded, and close when their connection goes, when
// nobody reads them, and when they are told to.
func TestBackupLimits(t *testing.T) {
	r := newRig(t, nil)
	c := r.session()
	fails := func(c *caller, req *wire.Request, code wire.Code, says string) {
		t.Helper()
		if res := c.ask(req); res.Code != code || !strings.Contains(res.Message, says) {
			t.Errorf("%v is answered %v %s, want %v with %q", req.Op, res.Code, res.Message, code, says)
		}
	}
	read := func(id uint64, cursor ...byte) *wire.Request {
		return &wire.Request{Op: wire.OpBackupRead, Target: id, Cursor: cursor}
	}
	fails(c, &wire.Request{Op: wire.OpBackupOpen, Target: 99}, wire.InvalidArgument, "log 99")
	fails(c, read(1), wire.FailedPrecondition, "no such image")

	most := maxBackups * (len(r.node.logs) + 1)
	var ids []uint64
	for i := range most {
		ids = append(ids, c.openImage(uint64(1+i%3), i%2 == 0).ID)
	}
	fails(c, &wire.Request{Op: wire.OpBackupOpen, Target: 1}, wire.ResourceExhausted, fmt.Sprintf("at most %d", most))
	fails(c, read(ids[0], 1), wire.InvalidArgument, "cursor")
	fails(c, read(ids[0], 0, 0, 0, 0, 0, 0, 0, 9), wire.InvalidArgument, "read from 0 on, not from 9")
	fails(r.session(), read(ids[0]), wire.FailedPrecondition, "no such image") // another's
	c.must(&wire.Request{Op: wire.OpBackupClose, Target: ids[0]})
	c.must(&wire.Request{Op: wire.OpBackupClose, Target: ids[0]})
	fails(c, read(ids[0]), wire.FailedPrecondition, "no such image")
	other := r.session()
	theirs := other.openImage(1, false).ID // in its place

	r.node.Closed(c.session, false, true) // it goes on on another connection
	c.must(read(ids[1]))
	r.node.Closed(c.session, false, false)
	fails(c, read(ids[1]), wire.FailedPrecondition, "no such image")
	other.must(read(theirs))

	r.node.backups.mu.Lock()
	r.node.backups.idle = 20 * time.Millisecond
	r.node.backups.mu.Unlock()
	other.must(read(theirs)) // from here on it is given 20 ms
	eventually(t, "the image that nobody reads is closed", func() bool {
		r.node.backups.mu.Lock()
		defer r.node.backups.mu.Unlock()
		return len(r.node.backups.open) == 0
	})
	r.node.backups.work.Wait()
	fails(other, read(theirs), wire.FailedPrecondition, "no such image")
}

// TestBackupEndsWithTheNode: a node with open images stops.
func TestBackupEndsWithTheNode(t *testing.T) {
	r := newRig(t, nil)
	c := r.session()
	c.must(write("o", "h:/a/x", time.Hour))
	for log := range 3 {
		c.openImage(uint64(log+1), false)
	}
	r.close()
}
