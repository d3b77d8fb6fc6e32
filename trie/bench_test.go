package trie

import (
	"fmt"
	"runtime"
	"testing"
)

// keysOf makes n keys of depth 4 in 64 namespaces, as the budgets are stated for.
func keysOf(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("bench:/ns%02d/a%02d/b%02d/c%06d", i%64, i/64%50, i/3200%50, i)
	}
	return keys
}

func fill(w *Writer, keys []string) *Tree[[6]uint64] {
	t := new(Tree[[6]uint64])
	for _, k := range keys {
		t.Insert(w, k, 0, 0)
	}
	return t
}

// BenchmarkInsertDelete is one insert and one delete of a key among 1 M others;
// with=snapshot freezes the tree before every 100 of them.
func BenchmarkInsertDelete(b *testing.B) {
	keys := keysOf(1_100_000)
	for _, every := range []int{0, 100} {
		w := NewWriter(1)
		t := fill(w, keys[:1_000_000])
		name := "plain"
		if every > 0 {
			name = "snapshot-per-100"
		}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for i := range b.N {
				if every > 0 && i%every == 0 {
					w.Freeze()
				}
				k := keys[1_000_000+i*7919%100_000]
				t.Insert(w, k, 0, 0)
				t.Delete(w, k)
			}
		})
	}
}

func BenchmarkGet(b *testing.B) {
	keys := keysOf(1_000_000)
	t := fill(NewWriter(1), keys)
	for i := range b.N {
		if t.Get(keys[i*7919%len(keys)]) == nil {
			b.Fatal("missing")
		}
	}
}

// BenchmarkBytesPerKey reports what a key costs in memory, its own bytes aside.
func BenchmarkBytesPerKey(b *testing.B) {
	keys := keysOf(1_000_000)
	for range b.N {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		t := fill(NewWriter(1), keys)
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/float64(len(keys)), "B/key")
		runtime.KeepAlive(t)
	}
}
