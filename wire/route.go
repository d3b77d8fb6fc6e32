package wire

import (
	"math/bits"
	"slices"
	"strings"

	"github.com/zeebo/xxh3"
)

// Routes says in which namespace a path lies (contract.md section 3). It is never
// changed, only replaced, so any goroutine may read it.
type Routes struct {
	Version  uint64 // grows with every change of the roots
	Segments int    // routing_prefix_segments

	roots  map[string]struct{} // every namespace that somebody chose an algorithm for
	deep   int                 // segments of the deepest root
	bare   bool                // some root is a bare handler
	handle bool                // some root is a handler's root path, "h:/", which holds what "h" holds
}

// NewRoutes makes routes with the given chosen namespaces.
func NewRoutes(version uint64, prefix int, roots []string) *Routes {
	r := &Routes{Version: version, Segments: prefix, roots: make(map[string]struct{}, len(roots))}
	for _, root := range roots {
		r.roots[root] = struct{}{}
		switch {
		case strings.IndexByte(root, ':') < 0:
			r.bare = true
		case strings.HasSuffix(root, "/"):
			r.handle = true
		default:
			r.deep = max(r.deep, Segments(root))
		}
	}
	return r
}

// Has says that somebody chose an algorithm for exactly this namespace.
func (r *Routes) Has(root string) bool {
	_, ok := r.roots[root]
	return ok
}

// Resolve answers the namespace of a valid path: the longest chosen root that
// holds it, else its handler and first segments. It shares the path's memory.
func (r *Routes) Resolve(path string) string {
	if len(r.roots) > 0 {
		if ns, ok := r.chosen(path); ok {
			return ns
		}
	}
	return r.implied(path)
}

// chosen finds the longest chosen root that holds path.
func (r *Routes) chosen(path string) (string, bool) {
	colon := strings.IndexByte(path, ':')
	if r.deep > 0 && len(path) > colon+2 {
		// The prefixes of path by whole segments, the longest first, from the depth
		// of the deepest root on.
		end, depth := colon+1, 0
		for end < len(path) && depth < r.deep {
			depth++
			if i := strings.IndexByte(path[end+1:], '/'); i >= 0 {
				end += 1 + i
			} else {
				end = len(path)
			}
		}
		for ; end > colon+1; end = strings.LastIndexByte(path[:end], '/') {
			if r.Has(path[:end]) {
				return path[:end], true
			}
		}
	}
	if root := path[:colon+2]; r.handle && r.Has(root) {
		return root, true
	}
	if r.bare && r.Has(path[:colon]) {
		return path[:colon], true
	}
	return "", false
}

// implied is the namespace that routing_prefix_segments gives a path.
func (r *Routes) implied(path string) string {
	colon := strings.IndexByte(path, ':')
	if r.Segments == 0 {
		return path[:colon]
	}
	end := colon + 1
	for range r.Segments {
		i := strings.IndexByte(path[end+1:], '/')
		if i < 0 {
			return path
		}
		end += 1 + i
	}
	return path[:end]
}

// Moves says that to choose, or to give up, a namespace of its own at root
// changes the namespace of some path, beside giving root an algorithm: true
// unless root is what those paths are routed to anyway.
func (r *Routes) Moves(root string) bool {
	without := r
	if r.Has(root) {
		rest := make([]string, 0, len(r.roots))
		for k := range r.roots {
			if k != root {
				rest = append(rest, k)
			}
		}
		without = NewRoutes(r.Version, r.Segments, rest)
	}
	switch {
	case strings.IndexByte(root, ':') < 0: // it holds nothing beside the handler's root path
		return r.Segments > 0 && !without.Has(root+":/")
	case strings.HasSuffix(root, "/"): // a namespace of its own, and all of the handler once it is chosen
		return true
	}
	return Segments(root) != r.Segments || without.Resolve(root) != root
}

// Parent is the namespace that the paths at and below root belong to without it;
// "" when that differs from path to path.
func (r *Routes) Parent(root string) string {
	if strings.IndexByte(root, ':') < 0 {
		return ""
	}
	rest := make([]string, 0, len(r.roots))
	for k := range r.roots {
		if k != root {
			rest = append(rest, k)
		}
	}
	without := NewRoutes(r.Version, r.Segments, rest)
	ns := without.Resolve(root)
	if Segments(root) < r.Segments && ns == root {
		return ""
	}
	return ns
}

// Roots lists the chosen namespaces in no order.
func (r *Routes) Roots() []string {
	all := make([]string, 0, len(r.roots))
	for k := range r.roots {
		all = append(all, k)
	}
	return all
}

// TopologyRoots lists the roots that a topology tells, in order of their names:
// enough to find the namespace of every path. What the first segments of a path give
// it anyway is left out, unless another root lies above. There are none when they are
// more than MaxTopologyRoots.
func (r *Routes) TopologyRoots() []string {
	var all []string
	for root := range r.roots {
		if r.plain(root) {
			continue
		}
		if all = append(all, root); len(all) > MaxTopologyRoots {
			return nil
		}
	}
	slices.Sort(all)
	return all
}

// plain says that root would be the namespace of the paths below it if nobody had
// chosen it.
func (r *Routes) plain(root string) bool {
	colon := strings.IndexByte(root, ':')
	if colon < 0 {
		return r.Segments == 0
	}
	for end := len(root); end > colon+1; {
		end = strings.LastIndexByte(root[:end], '/')
		if r.Has(root[:end]) {
			return false
		}
	}
	return !r.Has(root[:colon]) && !r.Has(root[:colon+2]) && r.implied(root) == root && Segments(root) == r.Segments
}

// GroupOf is the virtual group of a namespace, by rendezvous hashing: of all
// groups the one whose number, hashed together with the name, weighs most.
func GroupOf(ns string, groups int) uint16 { return heaviest(xxh3.HashString(ns), groups) }

// HomeOf is the group that looks after what is global to an owner.
func HomeOf(owner string, groups int) uint16 {
	return heaviest(xxh3.HashStringSeed(owner, 1), groups)
}

// Segments is how many segments a namespace root has below its handler.
func Segments(ns string) int {
	i := strings.IndexByte(ns, ':')
	if i < 0 || len(ns) == i+2 {
		return 0
	}
	return strings.Count(ns[i+1:], "/")
}

func heaviest(h uint64, groups int) uint16 {
	best, most := 0, uint64(0)
	for g := range groups {
		hi, lo := bits.Mul64(h^uint64(g)*0x9e3779b97f4a7c15, 0xd6e8feb86659fd93)
		if w := hi ^ lo; w >= most {
			best, most = g, w
		}
	}
	return uint16(best)
}
