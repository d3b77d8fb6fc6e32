package groups

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/groups/replica"
	"github.com/pathlockd/pathlockd/groups/rows"
	"github.com/pathlockd/pathlockd/wire"
)

// TestImage: the image of a log is of one instant: it has what is not on disk yet, lacks
// what is there no more, and does not change with the log.
func TestImage(t *testing.T) {
	r := newRig(t, func(c *Config) { c.LogCount = 1 })
	r.clock.freeze() // nothing ticks
	m := r.node.logs[rows.FirstLog].local.Load()
	c := r.session()
	read := func(f *replica.Frozen) map[string]string {
		t.Helper()
		var b bytes.Buffer
		if err := m.SaveSnapshot(f, &b, nil); err != nil {
			t.Fatal(err)
		}
		all := make(map[string]string)
		for in := rows.NewReader(&b); ; {
			key, val, err := in.Next()
			if errors.Is(err, io.EOF) {
				return all
			}
			if err != nil {
				t.Fatal(err)
			}
			all[string(key)] = string(val)
		}
	}
	c.must(write("a", "h:/a/1", time.Hour))
	c.must(write("a", "h:/a/2", time.Hour))
	if err := m.Checkpoint(true); err != nil {
		t.Fatal(err)
	}
	c.must(release("a", "h:/a/1"))
	c.must(write("b", "h:/a/3", time.Hour))
	behind, before := read(m.Freeze(false)), m.Freeze(false)
	if err := m.Checkpoint(true); err != nil {
		t.Fatal(err)
	}
	if written := read(m.Freeze(false)); !maps.Equal(behind, written) {
		t.Errorf("an image has %d rows, and %d once all of it is on disk", len(behind), len(written))
	}
	c.must(release("a", "h:/a/2"))
	c.must(write("b", "h:/a/4", time.Hour))
	if late := read(before); !maps.Equal(behind, late) {
		t.Errorf("an image changed while the log went on: %d rows, %d before", len(late), len(behind))
	}
}

// TestImageOfAQuietLog: a lock that was let go and taken again is in the image of a log in
// which nothing happened since, whoever looked at the log before all of it was on disk.
func TestImageOfAQuietLog(t *testing.T) {
	r := newRig(t, func(c *Config) { c.LogCount = 1 })
	r.clock.freeze() // nothing ticks
	m := r.node.logs[rows.FirstLog].local.Load()
	c := r.session()
	c.must(write("a", "h:/a/1", time.Hour))
	if err := m.Checkpoint(true); err != nil {
		t.Fatal(err)
	}
	c.must(release("a", "h:/a/1"))
	c.must(write("b", "h:/a/1", time.Hour))
	c.must(&wire.Request{Op: wire.OpDescribe, Path: "h:/a/1"})
	if err := m.Checkpoint(true); err != nil {
		t.Fatal(err)
	}
	image := m.Freeze(true)
	want := digestsOf(m)
	var b bytes.Buffer
	if err := m.SaveSnapshot(image, &b, nil); err != nil {
		t.Fatal(err)
	}
	copied := r.machineOf(rows.FirstLog)
	if err := copied.RecoverFromSnapshot(&b, nil); err != nil {
		t.Fatal(err)
	}
	if got := digestsOf(copied); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("the copy's digests are %v, want %v", got, want)
	}
	g := r.node.groupOf("h:/a")
	if got := copied.View(g).Inspect("h:/a", "h:/a/1").Owner; got != "b" {
		t.Errorf("h:/a/1 is held by %q in the copy, want b", got)
	}
}
