package groups

import (
	"log/slog"
	"os"
	"time"

	"github.com/pathlockd/pathlockd/groups/datadir"
	"github.com/pathlockd/pathlockd/wire"
)

// lastWord ends the process: something was lost that everything rests on, and to
// go on would be to acknowledge what is not durable. What was acknowledged is
// safe: a restart finds it.
func lastWord(log *slog.Logger, err error) { new(Config).lastWord(log, err) }

// lastWord ends the process, or what Fatal ends instead.
func (c *Config) lastWord(log *slog.Logger, err error) {
	c.end(log, 3, StorageFailed(err), err)
}

// StorageFailed is what is said last when storage failed, with what to do about it.
func StorageFailed(err error) string {
	todo := "fix the cause and start again"
	if datadir.FullDisk(err) {
		todo = "make room in data_dir and start again"
	}
	return "storage failed, nothing more can be made durable; acknowledged state is safe, " + todo
}

// end ends the process with an exit code, or what Fatal ends instead.
func (c *Config) end(log *slog.Logger, code int, why string, err error) {
	if c.Fatal != nil {
		c.Fatal(err)
		return
	}
	log.Error("stopping: "+why, "error", err)
	exit(code)
}

// exit is replaced by tests.
var exit = os.Exit

// diskEvery is how often the free space is looked at.
const diskEvery = time.Second

// diskLoop refuses writes while the disk is nearly full: once a write to the raft
// log fails there is nothing left but to stop.
func (n *Node) diskLoop() {
	n.lookAtDisk()
	n.every(diskEvery, n.lookAtDisk)
}

func (n *Node) lookAtDisk() {
	free, err := n.cfg.Free(n.cfg.DataDir)
	var refusal *wire.Error
	switch {
	case err != nil:
		n.log.Error("cannot tell the free space of data_dir", "error", err)
		return
	case free < n.cfg.DiskReserve:
		refusal = wire.Errorf(wire.Unavailable,
			"data_dir has %d MiB free, below disk_reserve_bytes (%d MiB): writes are refused until there is room; "+
				"reads, releases and, above half of it, renewals go on",
			free>>20, n.cfg.DiskReserve>>20)
	}
	n.starved.Store(free < n.cfg.DiskReserve/2)
	if was := n.refusal.Swap(refusal); (was == nil) != (refusal == nil) {
		if refusal != nil {
			n.log.Error("refusing writes: the disk is nearly full", "free_bytes", free, "disk_reserve_bytes",
				n.cfg.DiskReserve)
		} else {
			n.log.Info("taking writes again: the disk has room", "free_bytes", free)
		}
	}
	n.tellRoom(free)
}
