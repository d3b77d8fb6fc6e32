package datadir

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/uuid"
	"github.com/lni/dragonboat/v4/config"
	gvfs "github.com/lni/vfs"

	"github.com/pathlockd/pathlockd/groups/rows"
)

// A data directory has three parts that are of use only together: who the node is, its
// raft logs, its state. Each says whose it is, which is looked at before anything is
// written: a part that was swapped with another directory's would make the node vote again
// on what it has voted on, or answer from a state that its logs did not make.

// RaftOwnerFile is the file in which dragonboat keeps the raft host id that a directory of
// logs was made with: 8 bytes of a checksum, 16 of the id.
const RaftOwnerFile = "NODEHOST.ID"

// CheckParts refuses a data directory whose raft logs or state are gone, or another's. raftDisk is
// the file system of the raft logs, nil for the operating system's.
func (id *Identity) CheckParts(dir, raft, state string, raftDisk config.IFS, disk vfs.FS) error {
	if err := id.ownsRaft(dir, raft, raftDisk); err != nil {
		return err
	}
	return id.ownsState(dir, state, disk)
}

// ownsRaft looks at the raft logs: replicas that have voted and acknowledged must not
// come back without knowing of what.
func (id *Identity) ownsRaft(dir, raft string, disk config.IFS) error {
	if disk == nil {
		disk = gvfs.Default
	}
	var b []byte
	f, err := disk.Open(disk.PathJoin(raft, RaftOwnerFile))
	if err == nil {
		b, err = io.ReadAll(io.LimitReader(f, 64))
		err = errors.Join(err, f.Close())
	}
	switch {
	case errors.Is(err, fs.ErrNotExist) && (!id.Began || len(id.Replicas) == 0):
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("data_dir %s: its raft logs are gone (%s is missing or empty, or has no %s) and this node "+
			"would come back without what it has acknowledged: %s", dir, raft, RaftOwnerFile, rows.Remedy)
	case err != nil:
		return fmt.Errorf("data_dir %s: read whose raft logs these are: %w", dir, err)
	case len(b) != 8+len(uuid.UUID{}):
		return fmt.Errorf("data_dir %s: %s in %s is damaged (%d bytes): %s", dir, RaftOwnerFile, raft,
			len(b), rows.Remedy)
	}
	if owner := uuid.UUID(b[8:]).String(); owner != id.HostID {
		return id.foreign(dir, "raft/", owner)
	}
	return nil
}

// foreign says that a part of the data directory is another's.
func (id *Identity) foreign(dir, part, owner string) error {
	if id.Starts == 0 && !id.Restored {
		return fmt.Errorf("data_dir %s: has %s, of raft host id %s, and no %s: %s", dir, part, owner,
			rows.IdentityFile, rows.Remedy)
	}
	return fmt.Errorf("data_dir %s: %s is of another directory (raft host id %s; %s says %s): %s", dir, part, owner,
		rows.IdentityFile, id.HostID, rows.Remedy)
}

// ownsState looks at the state database. One that an earlier build made does not say
// whose it is: it is believed until it was marked once.
func (id *Identity) ownsState(dir, state string, disk vfs.FS) error {
	owner, err := stateOwner(disk, state)
	if err != nil {
		return fmt.Errorf("data_dir %s: read whose state this is: %w", dir, err)
	}
	if owner == id.HostID {
		return nil
	}
	if owner != "" {
		return id.foreign(dir, "state/", owner)
	}
	there := false
	if db, err := pebble.Peek(state, disk); err == nil {
		there = db.Exists
	} else if !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("data_dir %s: look at the state database: %w", dir, err)
	}
	switch {
	case there && id.Marked:
		return fmt.Errorf("data_dir %s: state/ is of another directory, or not whole (it has no file %q, and was "+
			"given one): %s", dir, rows.OwnerFile, rows.Remedy)
	case !there && (id.Began || id.Restored) && len(id.Replicas) > 0:
		return fmt.Errorf("data_dir %s: its state is gone (%s is missing or empty) and the raft logs do not have "+
			"all of it any more: %s", dir, state, rows.Remedy)
	}
	return nil
}

// stateOwner answers whose a state database is, "" when it does not say.
func stateOwner(disk vfs.FS, state string) (string, error) {
	f, err := disk.Open(disk.PathJoin(state, rows.OwnerFile))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	b, err := io.ReadAll(io.LimitReader(f, 64))
	if err := errors.Join(err, f.Close()); err != nil {
		return "", err
	}
	return strings.TrimSpace(string(b)), nil
}

// MarkState writes into the state database's directory whose it is, once. It is a file
// and no row, so that it can be looked at without opening, and so changing, what may be
// another node's.
func (id *Identity) MarkState(dir, state string, disk vfs.FS) error {
	owner, err := stateOwner(disk, state)
	if err == nil && owner == "" {
		err = writeOwner(disk, state, id.HostID)
	}
	if err != nil {
		return fmt.Errorf("mark %s as this node's: %w", state, err)
	}
	if id.Marked {
		return nil
	}
	id.Marked = true
	return id.Save(dir)
}

// writeOwner writes the mark so that it is there, whole, or not at all.
func writeOwner(disk vfs.FS, state, owner string) error {
	path := disk.PathJoin(state, rows.OwnerFile)
	f, err := disk.Create(path+".new", vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = f.Write([]byte(owner + "\n"))
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := disk.Rename(path+".new", path); err != nil {
		return err
	}
	d, err := disk.OpenDir(state)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
