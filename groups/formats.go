package groups

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/pathlockd/pathlockd/groups/gossip"
	"github.com/pathlockd/pathlockd/groups/rows"
)

// Which format this node writes. rows.OldestFormat and rows.NewestFormat say what this
// build reads and can write; that of the others of the cluster, those who are away and
// not removed too, is what each told last, by gossip (peers.json keeps it). A format goes
// up in two steps, each of them for good:
//
//   - It is in use here, once every known node has read it for the stability window. That
//     is written into identity.json, so that an older build refuses the directory, and
//     told as the lowest format that this node works with: links and gossip refuse
//     nodes that do not read it.
//   - It is written, once every known node has it in use. So nothing of a format gets to a
//     node before its directory says so.
//
// Who connects to a node that has a newer format in use has it in use at once
// (link.Config.Raise): a node that joined, or was away.
//
// Entries and snapshots say their format in their first byte. Frames between nodes have
// none: a build that changes what is in one writes it by written(), as it does entries.

// formatEvery is how often a node looks whether the format can go up.
const formatEvery = 250 * time.Millisecond

// formats is what a node has in use and writes. Both are read for each entry or hello
// and only grow.
type formats struct {
	inUse   atomic.Uint32
	writing atomic.Uint32
}

// begin takes over what a data directory says.
func (f *formats) begin(inUse uint32) {
	f.inUse.Store(inUse)
	f.writing.Store(rows.OldestFormat)
}

// used is the format that is in use.
func (f *formats) used() uint32 { return f.inUse.Load() }

// written is the format to write in.
func (f *formats) written() uint32 { return f.writing.Load() }

// own is what this node works with.
func (f *formats) own() [2]uint32 { return [2]uint32{f.used(), rows.NewestFormat} }

// write has the node write what it and all others have in use, and says whether that is
// news. It is called by one goroutine at a time.
func (f *formats) write(others [][2]uint32) bool {
	lowest, _ := agreed(f.own(), others)
	if lowest <= f.written() {
		return false
	}
	f.writing.Store(lowest)
	return true
}

// agreed answers the newest format that all nodes have in use, and the newest that all
// of them read.
func agreed(own [2]uint32, others [][2]uint32) (inUse, read uint32) {
	inUse, read = own[0], own[1]
	for _, o := range others {
		if o[1] == 0 {
			o = [2]uint32{rows.UntoldFormat, rows.UntoldFormat}
		}
		inUse, read = min(inUse, o[0]), min(read, o[1])
	}
	return inUse, read
}

// useFormat has the data directory say that there may be something of a format in it.
func (n *Node) useFormat(format uint32) error {
	n.seats.Lock()
	defer n.seats.Unlock()
	old := n.id.Format
	if format <= old {
		return nil
	}
	n.id.Format = format
	if err := n.id.save(n.cfg.DataDir); err != nil {
		n.id.Format = old
		return fmt.Errorf("node %s cannot take note in identity.json that format %d is in use: %w", n.id.NodeID, format, err)
	}
	n.formats.inUse.Store(format)
	n.log.Info("a newer format is in use: versions that do not read it are refused from now on, here and by this data_dir", "format", format, "before", old)
	return nil
}

// soleFormat has a node that cannot have others use and write its newest format.
func (n *Node) soleFormat() error {
	err := n.useFormat(rows.NewestFormat)
	n.formats.write(nil)
	return err
}

// formatLoop has the format go up when the nodes of the cluster are ready for it. told is
// the one in use that gossip tells.
func (n *Node) formatLoop(told uint32) {
	t := time.NewTicker(formatEvery)
	defer t.Stop()
	var last uint32 // what all were seen to read
	var since time.Duration
	for told < rows.NewestFormat || n.formats.written() < rows.NewestFormat {
		select {
		case <-n.stop:
			return
		case <-t.C:
		}
		others, now := n.cluster.formats(), n.clock.Mono()
		_, read := agreed(n.formats.own(), others)
		if read != last {
			last, since = read, now
		}
		if now-since >= n.cfg.StabilityWindow {
			if err := n.useFormat(read); err != nil {
				n.log.Error("the format cannot go up, trying again later", "error", err)
				since = now
			}
		}
		if used := n.formats.used(); used > told {
			if err := n.cluster.gossip.Update(func(r *gossip.Record) { r.FormatMin = used }); err != nil {
				n.log.Error("cannot tell the others which format is in use", "error", err)
				continue
			}
			told = used
		}
		if n.formats.write(others) {
			n.log.Info("all nodes have a newer format in use: it is written from now on", "format", n.formats.written())
		}
	}
}

// formats lists what the other nodes of the cluster work with, each as it told last. A
// node that has a replica, as raft knows, and never told counts as one of the first build.
func (c *cluster) formats() (all [][2]uint32) {
	hosts := c.n.book.hosts()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.known.by {
		if p.Gossip != "" { // else its disk was replaced, or it was removed
			all = append(all, p.Formats)
		}
	}
	for _, host := range hosts {
		if _, ok := c.known.by[host]; !ok && host != c.n.id.HostID {
			all = append(all, [2]uint32{})
		}
	}
	return all
}
