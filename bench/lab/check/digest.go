package check

// checkDigests holds that replicas that applied the same entries are the same
// (design.md section 3: what all promises rest on).
func (c *checker) checkDigests() {
	type place struct{ log, index uint64 }
	first := make(map[place]int)
	for i := range c.h.Digests {
		d := &c.h.Digests[i]
		at, ok := first[place{d.Log, d.Index}]
		if !ok {
			first[place{d.Log, d.Index}] = i
			continue
		}
		if o := &c.h.Digests[at]; o.Sum != d.Sum {
			c.violate(1, "log %d at index %d: digest %x on node %d, %x on node %d", d.Log, d.Index, o.Sum, o.Node,
				d.Sum, d.Node)
		}
	}
}
