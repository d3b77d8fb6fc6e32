package backup

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pathlockd/pathlockd/groups/rows"
)

// TestWriterRefuses: what is no whole image does not become a backup, and nothing is
// written over.
func TestWriterRefuses(t *testing.T) {
	p := full(t)
	whole := p.stream(t, 1, nil)
	for _, c := range []struct {
		name string
		b    []byte
	}{
		{"nothing", nil}, {"a part", whole[:len(whole)-1]}, {"no sum", whole[:len(whole)-rows.SumBytes]},
		{"more", append(bytes.Clone(whole), 0)}, {"garbage", []byte("HTTP/1.1 400 Bad Request")},
	} {
		dir := filepath.Join(t.TempDir(), "backup")
		w, err := Create(dir)
		if err != nil {
			t.Fatal(err)
		}
		l, err := w.Log(described(1))
		if err != nil {
			t.Fatal(err)
		}
		_, err = l.Write(c.b)
		if err = errors.Join(err, l.Close()); err == nil {
			t.Errorf("%s passes for an image", c.name)
		}
		if _, err := w.Commit("v1", false); err == nil {
			t.Errorf("%s: a backup of nothing was committed", c.name)
		}
		if err := w.Abort(); err != nil {
			t.Fatal(err)
		}
		if left, err := os.ReadDir(filepath.Dir(dir)); err != nil || len(left) > 0 {
			t.Errorf("%s: %v is left, %v", c.name, left, err)
		}
	}
	dir := p.save(t, nil)
	if _, err := Create(dir); !errors.Is(err, ErrExists) {
		t.Errorf("a backup is begun over another: %v", err)
	}
	w, err := Create(filepath.Join(t.TempDir(), "mixed"))
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	l, err := w.Log(described(1))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Write(whole); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	b := described(2)
	b.ClusterID = "another"
	if _, err := w.Log(b); err == nil || !strings.Contains(err.Error(), "another") {
		t.Errorf("logs of two clusters become one backup: %v", err)
	}
}

// TestTargetThatCameMeanwhile: what is put where a backup is to be while it is written
// stays, an empty directory too.
func TestTargetThatCameMeanwhile(t *testing.T) {
	p, dir := full(t), filepath.Join(t.TempDir(), "backup")
	w, err := Create(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, log := range rows.LogsOf(testLogs) {
		l, err := w.Log(described(log))
		if err != nil {
			t.Fatal(err)
		}
		if _, err = l.Write(p.stream(t, log, nil)); errors.Join(err, l.Close()) != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Commit("v1", false); !errors.Is(err, ErrExists) {
		t.Errorf("committed over what came meanwhile: %v", err)
	}
	if err := w.Abort(); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(filepath.Dir(dir)); err != nil || len(left) != 1 {
		t.Errorf("%v is left, %v", left, err)
	}
}

// TestSlashAtTheEnd: a backup's name may end with a slash, as shells complete it.
func TestSlashAtTheEnd(t *testing.T) {
	root := t.TempDir()
	w, err := Create(filepath.Join(root, "backup") + "/")
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	if w.target != filepath.Join(root, "backup") || filepath.Dir(w.dir) != root {
		t.Errorf("it is made as %s, and written to %s", w.target, w.dir)
	}
}
