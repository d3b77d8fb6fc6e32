package replica

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/groups/rows"
)

// benchFences is how many fences a log has.
const benchFences = 200_000

// benchMachine is a replica on a disk in memory that was told of so many fences by a
// snapshot, and the snapshot.
func benchMachine(b *testing.B) (*Machine, []byte) {
	bounds := DefaultFolding
	bounds.Pause = time.Nanosecond
	m := machines(b, 1, 1, bounds)[0]
	var stream bytes.Buffer
	w := rows.NewWriter(&stream, rows.OldestFormat)
	for i := range benchFences {
		key := GroupKey(nil, 0, []byte(engine.FenceRow(fmt.Sprintf("\x00\x06h:/all/item-%08d", i))))
		w.Row(key, []byte{0x93, 0xce, 0, 0, 0, 7, 0x01, 0xc2})
	}
	state := rows.State{Applied: 7, Now: 2 * bounds.Age.Milliseconds()}
	w.Row(LogKey(m.Shard, rows.LogState, nil), state.Append(nil))
	if err := w.End(); err != nil {
		b.Fatal(err)
	}
	return m, stream.Bytes()
}

// BenchmarkInstall installs a snapshot, once for each operation.
func BenchmarkInstall(b *testing.B) {
	m, stream := benchMachine(b)
	b.SetBytes(int64(len(stream)))
	for b.Loop() {
		if err := m.RecoverFromSnapshot(bytes.NewReader(stream), nil); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(benchFences)*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
}

// BenchmarkSweep looks through all fences, none of which may go.
func BenchmarkSweep(b *testing.B) {
	m, stream := benchMachine(b)
	if err := m.RecoverFromSnapshot(bytes.NewReader(stream), nil); err != nil {
		b.Fatal(err)
	}
	slices, longest := 0, time.Duration(0)
	for b.Loop() {
		for w, over := m.newSweep(0), false; !over; slices++ {
			began := time.Now()
			var err error
			if over, err = w.slice(); err != nil {
				b.Fatal(err)
			}
			longest = max(longest, time.Since(began))
		}
	}
	b.ReportMetric(float64(benchFences)*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
	b.ReportMetric(float64(longest.Microseconds()), "us/longest-slice")
}
