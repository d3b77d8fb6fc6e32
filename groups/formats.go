package groups

import (
	"fmt"
	"time"

	"github.com/pathlockd/pathlockd/groups/datadir"
	"github.com/pathlockd/pathlockd/groups/gossip"
	"github.com/pathlockd/pathlockd/groups/rows"
)

// formatEvery is how often a node looks whether the format can go up.
const formatEvery = 250 * time.Millisecond

// useFormat has the data directory say that there may be something of a format in it.
func (n *Node) useFormat(format uint32) error {
	n.idLock.Lock()
	defer n.idLock.Unlock()
	old := n.id.Format
	if format <= old {
		return nil
	}
	n.id.Format = format
	if err := n.id.Save(n.cfg.DataDir); err != nil {
		n.id.Format = old
		return fmt.Errorf("node %s cannot take note in identity.json that format %d is in use: %w",
			n.id.NodeID, format, err)
	}
	n.formats.Use(format)
	n.log.Info("a newer format is in use: versions that do not read it are refused from now on, here and by "+
		"this data_dir", "format", format, "before", old)
	return nil
}

// soleFormat has a node that cannot have others use and write its newest format.
func (n *Node) soleFormat() error {
	err := n.useFormat(rows.NewestFormat)
	n.formats.Write(nil)
	return err
}

// formatLoop has the format go up when the nodes of the cluster are ready for it. told is
// the one in use that gossip tells.
func (n *Node) formatLoop(told uint32) {
	t := time.NewTicker(formatEvery)
	defer t.Stop()
	var last uint32 // what all were seen to read
	var since time.Duration
	for told < rows.NewestFormat || n.formats.Written() < rows.NewestFormat {
		select {
		case <-n.stop:
			return
		case <-t.C:
		}
		others, now := n.cluster.formats(), n.clock.Mono()
		_, read := datadir.Agreed(n.formats.Own(), others)
		if read != last {
			last, since = read, now
		}
		if now-since >= n.cfg.StabilityWindow {
			if err := n.useFormat(read); err != nil {
				n.log.Error("the format cannot go up, trying again later", "error", err)
				since = now
			}
		}
		if used := n.formats.InUse(); used > told {
			if err := n.cluster.gossip.Update(func(r *gossip.Record) { r.FormatMin = used }); err != nil {
				n.log.Error("cannot tell the others which format is in use", "error", err)
				continue
			}
			told = used
		}
		if n.formats.Write(others) {
			n.log.Info("all nodes have a newer format in use: it is written from now on", "format", n.formats.Written())
		}
	}
}

// formats lists what the other nodes of the cluster work with, each as it told last. A
// node that has a replica, as raft knows, and never told counts as one of the first build.
func (c *cluster) formats() (all [][2]uint32) {
	hosts := c.n.book.Hosts()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.known.By {
		if p.Gossip != "" { // else its disk was replaced, or it was removed
			all = append(all, p.Formats)
		}
	}
	for _, host := range hosts {
		if _, ok := c.known.By[host]; !ok && host != c.n.id.HostID {
			all = append(all, [2]uint32{})
		}
	}
	return all
}
