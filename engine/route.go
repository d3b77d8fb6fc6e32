package engine

import "github.com/pathlockd/pathlockd/wire"

// Routes says in which namespace a path lies. Clients look the same up, so it
// stands in wire.
type Routes = wire.Routes

// NewRoutes makes routes with the given chosen namespaces.
func NewRoutes(version uint64, prefix int, roots []string) *Routes {
	return wire.NewRoutes(version, prefix, roots)
}

// GroupOf is the virtual group of a namespace.
func GroupOf(ns string, groups int) uint16 { return wire.GroupOf(ns, groups) }

// HomeOf is the group that looks after what is global to an owner.
func HomeOf(owner string, groups int) uint16 { return wire.HomeOf(owner, groups) }
