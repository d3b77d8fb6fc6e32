package check

import (
	"strings"

	"github.com/pathlockd/pathlockd/wire"
)

// above says that path a lies above path b.
func above(a, b string) bool {
	return strings.HasSuffix(a, ":/") && strings.HasPrefix(b, a) && a != b || strings.HasPrefix(b, a+"/")
}

// conflict says that two owners must not hold what they ask for at once
// (contract.md section 5), semaphores aside.
func conflict(alg wire.Algorithm, a, b *claim) bool {
	for _, p := range a.Paths {
		for _, q := range b.Paths {
			switch {
			case p == q:
				if a.Mode == wire.ModeWrite || b.Mode == wire.ModeWrite {
					return true
				}
			case !alg.Recursive():
			case above(p, q) && a.Mode == wire.ModeWrite, above(q, p) && b.Mode == wire.ModeWrite:
				return true
			}
		}
	}
	return false
}
