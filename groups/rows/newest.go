//go:build !format2

package rows

// NewestFormat is the newest format that this build reads and writes.
const NewestFormat uint32 = 1
