//go:build format2

package rows

// NewestFormat of a build with the tag format2 is one that no release has: all is laid
// out as in format 1 and says 2, so that an upgrade from one format to the next can be
// tried with two builds of the same source (bench/devcluster/upgrade_test.go).
const NewestFormat uint32 = 2
