package pathlockd

import (
	"slices"

	"github.com/pathlockd/pathlockd/wire"
)

// cursor is where a subscription stands in the logs of a cluster. In another cluster,
// as one that was restored from a backup and has taken the place of the first, it
// means nothing, though it may look as if it did.
type cursor struct {
	cluster string
	at      map[uint64]wire.Position // by log; nil before the first answer
}

// begins says that there is nothing to go on from yet.
func (c *cursor) begins() bool { return c.at == nil }

// serves says that a subscription can go on from the cursor in a cluster. One of more
// logs than a request takes serves nowhere.
func (c *cursor) serves(cluster string) bool {
	return c.at != nil && c.cluster == cluster && len(c.at) <= wire.MaxPositions
}

// set takes a whole cursor of a cluster.
func (c *cursor) set(cluster string, all []wire.Position) {
	c.cluster, c.at = cluster, make(map[uint64]wire.Position, len(all))
	for _, p := range all {
		c.at[p.Log] = p
	}
}

// move takes the place of an event.
func (c *cursor) move(p wire.Position) { c.at[p.Log] = p }

// positions lists the cursor for a request.
func (c *cursor) positions() []wire.Position {
	all := make([]wire.Position, 0, len(c.at))
	for _, p := range c.at {
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b wire.Position) int { return int(a.Log) - int(b.Log) })
	return all
}
