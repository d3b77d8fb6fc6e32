package gauge

import (
	"io"
	"time"

	"github.com/pathlockd/pathlockd/bench/cost"
	"github.com/pathlockd/pathlockd/groups/rows"
)

// Snapshot is what was measured of the snapshot of a group.
type Snapshot struct {
	Locks int
	Heap  float64 // of a lock, in bytes
	Bytes float64 // of a lock in the stream
	Took  time.Duration
}

// MeasureSnapshot takes locks and writes them as a raft snapshot has them.
func MeasureSnapshot(locks, owners int) (s Snapshot, err error) {
	g, heap := cost.HeldHeap(locks, owners)
	s.Locks, s.Heap = locks, heap
	var n counter
	w := rows.NewWriter(&n, rows.NewestFormat)
	var buf []byte
	began := time.Now()
	err = g.Rows(func(row, val []byte) error {
		buf = rows.Group(buf[:0], 1, row)
		w.Row(buf, val)
		return w.Err()
	})
	if err == nil {
		err = w.End()
	}
	s.Took, s.Bytes = time.Since(began), float64(n)/float64(locks)
	return s, err
}

// counter counts what is written to it.
type counter int64

var _ io.Writer = (*counter)(nil)

// Write counts.
func (c *counter) Write(b []byte) (int, error) {
	*c += counter(len(b))
	return len(b), nil
}
