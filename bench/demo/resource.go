package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
)

// errStale says that whoever holds the lock now, or held it since, was here before.
var errStale = errors.New("the token is stale")

// resource is the tree as something that checks tokens: it is what storage that
// takes part in fencing does, here in the library that all workers use. Whatever a
// worker believes of its lock is not asked.
//
// Each name of a box has a sidecar with two tokens. An OS lock on it (flock) is
// held for as long as one check and what it is for take, so that they are one step;
// it ends with a process that is killed. Sidecars of boxes belong to names, as
// locks do, and are never renamed: so they can be locked safely.
//
//   - below: the highest token that came with a lock on the whole box. What is older
//     may not touch any file in it.
//   - seen: the highest token that came with any lock on the box or in it. What is
//     older may not touch the box as a whole.
//
// Each file has a sidecar with the highest token that came for it, and goes with
// its box: a box that is renamed brings files with lower tokens than that of the
// rename, which both names have seen.
//
// A token is shown when something is read, too: what was read is only good for a
// change as long as nobody who was given the lock later has begun.
type resource struct {
	dir    string
	fenced bool
}

// guard is the sidecar of a box's name, locked.
type guard struct {
	f           *os.File
	below, seen int64
}

const guardFormat = "%019d %019d\n"

func (r *resource) guard(box string) (*guard, error) {
	f, err := os.OpenFile(filepath.Join(r.dir, box+fenceTail), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open the sidecar of %s: %w", box, err)
	}
	g := &guard{f: f}
	if err := flock(f); err != nil {
		return nil, errors.Join(fmt.Errorf("lock the sidecar of %s: %w", box, err), f.Close())
	}
	if st, err := f.Stat(); err == nil && st.Size() == 0 {
		return g, nil // it was made just now
	}
	var b [40]byte
	if _, err := f.ReadAt(b[:], 0); err != nil {
		return nil, errors.Join(fmt.Errorf("read the sidecar of %s: %w", box, err), f.Close())
	}
	if _, err := fmt.Sscanf(string(b[:]), guardFormat, &g.below, &g.seen); err != nil {
		return nil, errors.Join(fmt.Errorf("read the sidecar of %s: %q: %w", box, b, err), f.Close())
	}
	return g, nil
}

// flock waits for the lock of a file.
func flock(f *os.File) error {
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
		if !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

// store writes the tokens, in one write: a kill leaves the old or the new ones.
func (g *guard) store() error {
	_, err := g.f.WriteAt(fmt.Appendf(nil, guardFormat, g.below, g.seen), 0)
	return err
}

// release closes the sidecar, which unlocks it.
func (g *guard) release() { _ = g.f.Close() } // what was written is in the system's hands

// claimFile shows the token of a lock on a file.
func (r *resource) claimFile(g *guard, file string, token int64) error {
	name := filepath.Join(r.dir, file+fenceTail)
	var fence int64
	b, err := os.ReadFile(name)
	switch {
	case errors.Is(err, os.ErrNotExist):
	case err != nil:
		return fmt.Errorf("read the sidecar of %s: %w", file, err)
	default:
		if _, err := fmt.Sscan(string(b), &fence); err != nil {
			return fmt.Errorf("read the sidecar of %s: %q: %w", file, b, err)
		}
	}
	if r.fenced && (token < g.below || token < fence) {
		return errStale
	}
	if token > g.seen {
		g.seen = token
		if err := g.store(); err != nil {
			return fmt.Errorf("write the sidecar of the box of %s: %w", file, err)
		}
	}
	if token > fence {
		return replace(name, fmt.Appendf(nil, "%d\n", token))
	}
	return nil
}

// claimBox shows the token of a lock on a whole box.
func (r *resource) claimBox(g *guard, token int64) error {
	if r.fenced && token < g.seen {
		return errStale
	}
	g.below, g.seen = max(g.below, token), max(g.seen, token)
	return g.store()
}

// enter shows the token of a lock on a whole box before something is done in it.
func (r *resource) enter(box string, token int64) error {
	g, err := r.guard(box)
	if err != nil {
		return err
	}
	defer g.release()
	return r.claimBox(g, token)
}

// read answers what a file holds, to who has the lock.
func (r *resource) read(file string, token int64) ([]byte, error) {
	g, err := r.guard(filepath.Dir(file))
	if err != nil {
		return nil, err
	}
	defer g.release()
	b, err := os.ReadFile(filepath.Join(r.dir, file))
	if err != nil {
		return nil, err // the box is elsewhere
	}
	return b, r.claimFile(g, file, token)
}

// write gives a file other content.
func (r *resource) write(file string, token int64, b []byte) error {
	g, err := r.guard(filepath.Dir(file))
	if err != nil {
		return err
	}
	defer g.release()
	if _, err := os.Stat(filepath.Join(r.dir, file)); err != nil {
		return err
	}
	if err := r.claimFile(g, file, token); err != nil {
		return err
	}
	return replace(filepath.Join(r.dir, file), b)
}

// rename moves a box to a free name. Both names are locked meanwhile, in one order
// for everybody. The system renames in one step, and the tokens are stored before
// it: a kill in between leaves the box where it was.
func (r *resource) rename(from, to string, token int64) error {
	if from == to { // a second flock of one's own would wait for ever
		return fmt.Errorf("rename %s to %s: %w", from, to, os.ErrExist)
	}
	names := []string{from, to}
	slices.Sort(names)
	for _, name := range names {
		g, err := r.guard(name)
		if err != nil {
			return err
		}
		defer g.release()
		if err := r.claimBox(g, token); err != nil {
			return err
		}
	}
	if _, err := os.Lstat(filepath.Join(r.dir, to)); err == nil {
		return fmt.Errorf("rename %s to %s: %w", from, to, os.ErrExist)
	}
	return os.Rename(filepath.Join(r.dir, from), filepath.Join(r.dir, to))
}

// replace gives a file other content in one step.
func replace(name string, b []byte) error {
	tmp := fmt.Sprintf("%s.%d", name, os.Getpid())
	if err := os.WriteFile(tmp, b, 0o644); err != nil {
		return err
	}
	return os.Rename(tmp, name)
}
