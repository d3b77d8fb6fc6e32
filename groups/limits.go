package groups

import (
	"slices"
	"sync"

	"github.com/pathlockd/pathlockd/groups/replica"
)

// limits is what this node states when its leader epoch begins.
func (c *Config) limits() replica.Limits {
	l := replica.DefaultLimits()
	l.MaxQueued = c.MaxQueued
	if c.stated != nil {
		c.stated(&l)
	}
	return l
}

// maxStrange bounds the limits of others that a node tells of.
const maxStrange = 16

// strange is the limits of others that a node has told of.
type strange struct {
	sync.Mutex
	told []string
}

// LimitsDiffer tells once that a log goes by other limits than this node's own.
func (h replicaHost) LimitsDiffer(other string) {
	n := h.n
	n.strange.Lock()
	defer n.strange.Unlock()
	if len(n.strange.told) >= maxStrange || slices.Contains(n.strange.told, other) {
		return
	}
	n.strange.told = append(n.strange.told, other)
	n.log.Warn("logs go by the limits of the nodes that lead them, and those are not this node's: give all nodes "+
		"the same settings and version", "limits", other)
}
