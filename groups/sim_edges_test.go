package groups

import (
	"fmt"

	"github.com/pathlockd/pathlockd/wire"
)

// Wait edges that one client of the simulation knows of: nobody else sets or clears those of its own
// owner, and they last.

// simEdge is what a client knows of its owner's wait edge.
type simEdge struct {
	owners  int    // that it has had: another one once it is not known what comes of a request
	open    int    // requests under way about it
	crossed bool   // several were at once
	known   bool   // it is as follows
	blocker string // "" where there is none
}

func (c *simClient) edgeOwner() string { return fmt.Sprintf("o%de%d", c.index, c.edge.owners) }

// ownEdge sets or clears the edge of the client's own owner: by itself, or with what it gives back, which
// is perhaps in several namespaces.
func (m *mix) ownEdge() *wire.Request {
	c := m.c
	req := &wire.Request{Op: wire.OpSetWaitEdge, Owner: c.edgeOwner(), Blocker: m.owner(), TTLMillis: 3_600_000}
	switch m.IntN(6) {
	case 0:
		req = &wire.Request{Op: wire.OpClearWaitEdge, Owner: req.Owner}
	case 1:
		req = &wire.Request{Op: wire.OpReleaseAll, Owner: req.Owner, Domains: m.domains(), DelWait: true}
	case 2:
		req = &wire.Request{
			Op: wire.OpRelease, Owner: req.Owner, DelWait: true, Releases: []wire.ReleaseRequest{{Path: m.path()}},
		}
		if other := m.path(); other != req.Releases[0].Path {
			req.Releases = append(req.Releases, wire.ReleaseRequest{Path: other})
		}
	}
	if req.Op != wire.OpClearWaitEdge && m.IntN(3) == 0 {
		req.Key = fmt.Sprintf("edge %d.%d", c.index, c.last)
	}
	c.edge.open++
	c.edge.crossed = c.edge.crossed || c.edge.open > 1 // their order is not promised
	c.edge.known = false
	c.share(req, false)
	return nil
}

// edged takes note of an answer about the edge.
func (c *simClient) edged(call *simCall, res *wire.Result) {
	req, e := call.req, &c.edge
	if req.Owner != c.edgeOwner() {
		return
	}
	switch e.open--; {
	case res.Code != wire.OK:
		c.edge = simEdge{owners: e.owners + 1}
	case e.open == 0:
		e.known, e.blocker = !e.crossed, req.Blocker
		e.crossed = false
	}
}

// edges fails when an edge is not what its client knows for certain.
func (k *checks) edges(w *world, n *Node) {
	for _, c := range w.clients {
		if !c.edge.known {
			continue
		}
		g := wire.HomeOf(c.edgeOwner(), n.cfg.GroupCount)
		if got, _, _, _ := n.logOf(g).local.Load().View(g).Edge(c.edgeOwner()); got != c.edge.blocker {
			w.fail("client %d: %s waits for %q by its wait edge, and is to wait for %q", c.index, c.edgeOwner(),
				got, c.edge.blocker)
		}
	}
}
