package check

import (
	"cmp"
	"slices"

	"github.com/pathlockd/pathlockd/bench/lab/history"
)

// resource holds that who surely holds a lock is not taken for one who was superseded
// (promise 4).
func (c *checker) resource(holds []span) {
	for i := range c.h.Accesses {
		a := &c.h.Accesses[i]
		if a.Accepted {
			continue
		}
		for _, h := range holds {
			if h.owner == a.Owner && h.token == a.Token && h.from <= a.Time && a.Time < h.to {
				c.violate(4, "%s holds %s with token %d until %.3fs at least, and at %.3fs the resource had seen %d",
					a.Owner, a.Path, a.Token, h.to.Seconds(), a.Time.Seconds(), a.Seen)
			}
		}
	}
}

// checkResource holds that a resource that checks tokens took no write that did not know
// of the one before, and none of a superseded holder (promise 4).
func (c *checker) checkResource() {
	paths := make(map[string][]*history.Access)
	for i := range c.h.Accesses {
		a := &c.h.Accesses[i]
		if a.Accepted {
			paths[a.Path] = append(paths[a.Path], a)
		}
	}
	for _, p := range sortedKeys(paths) {
		list := paths[p]
		slices.SortStableFunc(list, func(a, b *history.Access) int { return cmp.Compare(a.Time, b.Time) })
		version, high := uint64(0), list[0]
		users := make(map[int64]string)
		for _, a := range list {
			if a.Token < high.Token {
				c.violate(4, "%s: at %.3fs it took token %d of %s, and had seen %d of %s", p, a.Time.Seconds(), a.Token,
					a.Owner, high.Token, high.Owner)
			}
			if a.Token >= high.Token {
				high = a
			}
			if other := users[a.Token]; other != "" && other != a.Owner {
				c.violate(4, "%s: %s and %s both came with token %d", p, other, a.Owner, a.Token)
			}
			users[a.Token] = a.Owner
			if a.Write {
				if a.Base != version {
					c.violate(4, "%s: at %.3fs %s overwrote version %d and knew of %d", p, a.Time.Seconds(), a.Owner,
						version, a.Base)
				}
				version = a.Version
			}
		}
	}
}
