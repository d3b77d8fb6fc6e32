package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

const (
	boxA  = "shelf-00/box-00"
	boxB  = "shelf-00/box-01"
	free  = "shelf-00/box-09"
	fileA = boxA + "/file-3"
	fileB = boxB + "/file-3"
)

// newResource makes a tree of two boxes.
func newResource(t *testing.T, fenced bool) *resource {
	t.Helper()
	r := &resource{dir: t.TempDir(), fenced: fenced}
	for _, f := range []string{fileA, fileB} {
		if err := os.MkdirAll(filepath.Join(r.dir, filepath.Dir(f)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(r.dir, f), []byte("0"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// TestResource shows what is refused, a step at a time: each case is what was done
// before, and then what is asked.
func TestResource(t *testing.T) {
	read := func(file string, token int64) func(*resource) error {
		return func(r *resource) error { _, err := r.read(file, token); return err }
	}
	write := func(file string, token int64) func(*resource) error {
		return func(r *resource) error { return r.write(file, token, []byte("1")) }
	}
	enter := func(box string, token int64) func(*resource) error {
		return func(r *resource) error { return r.enter(box, token) }
	}
	rename := func(from, to string, token int64) func(*resource) error {
		return func(r *resource) error { return r.rename(from, to, token) }
	}
	for _, c := range []struct {
		name   string
		before []func(*resource) error
		ask    func(*resource) error
		want   error
	}{
		{"a holder writes again", []func(*resource) error{read(fileA, 5), write(fileA, 5)}, write(fileA, 5), nil},
		{"the successor", []func(*resource) error{write(fileA, 5)}, write(fileA, 6), nil},
		{"the superseded, after a write", []func(*resource) error{read(fileA, 5), write(fileA, 6)},
			write(fileA, 5), errStale},
		{"the superseded, after a read", []func(*resource) error{read(fileA, 5), read(fileA, 6)},
			write(fileA, 5), errStale},
		{"the superseded reads", []func(*resource) error{write(fileA, 6)}, read(fileA, 5), errStale},
		{"an older one, of another file", []func(*resource) error{write(boxA+"/file-3", 6)}, write(fileB, 5), nil},
		{"a file, after the box was entered", []func(*resource) error{read(fileA, 5), enter(boxA, 6)},
			write(fileA, 5), errStale},
		{"the box, after a file was read", []func(*resource) error{read(fileA, 6)}, enter(boxA, 5), errStale},
		{"a rename, after a file was read", []func(*resource) error{read(fileA, 6)}, rename(boxA, free, 5), errStale},
		{"a file of a box that went", []func(*resource) error{rename(boxA, free, 6)}, write(fileA, 5), fs.ErrNotExist},
		{"a file of another box that came", []func(*resource) error{rename(boxA, free, 6), rename(boxB, boxA, 7)},
			write(fileA, 5), errStale},
		{"a file where it went", []func(*resource) error{rename(boxA, free, 6)}, write(free+"/file-3", 7), nil},
		{"a late rename to a name that was used since", []func(*resource) error{rename(boxA, free, 6),
			rename(free, boxA, 7)}, rename(boxB, free, 5), errStale},
		{"a rename to a name that is taken", nil, rename(boxA, boxB, 5), fs.ErrExist},
		{"a rename to itself", nil, rename(boxA, boxA, 5), fs.ErrExist},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newResource(t, true)
			for _, f := range c.before {
				if err := f(r); err != nil {
					t.Fatal(err)
				}
			}
			if err := c.ask(r); !errors.Is(err, c.want) {
				t.Errorf("%v, want %v", err, c.want)
			}
			if !errors.Is(c.want, errStale) {
				return
			}
			r = newResource(t, false)
			for _, f := range c.before {
				if err := f(r); err != nil {
					t.Fatal(err)
				}
			}
			if err := c.ask(r); err != nil {
				t.Errorf("without fencing: %v", err)
			}
		})
	}
}
