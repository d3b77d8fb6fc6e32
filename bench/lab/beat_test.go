package lab

import (
	"reflect"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/bench/lab/history"
)

// TestSilences: what is reported of each log after each fault, and of what nodes said of the cluster.
func TestSilences(t *testing.T) {
	s := func(at ...float64) (out []time.Duration) {
		for _, x := range at {
			out = append(out, time.Duration(x*float64(time.Second)))
		}
		return out
	}
	at := func(x float64) time.Duration { return s(x)[0] }
	faults := []history.Fault{{Kind: "isolate", From: at(1), To: at(4)}, {Kind: "kill", From: at(20), To: at(22)}}
	b := &beating{
		acked: [][]time.Duration{s(0.5, 1.2, 3, 3.5, 9, 10, 15, 19.5, 24),
			s(0.5, 2, 4, 7, 10, 13, 16, 19, 22, 25, 28)},
		healthy: s(0.9, 3.6, 3.9, 8, 19.6, 21.5, 27),
		calmed:  s(3.8, 21),
	}
	want := []Silence{
		{"isolate", 0, at(5.5), at(5.2)}, {"isolate", 1, at(3), at(3)},
		{"kill", 0, at(6), at(6)}, {"kill", 1, at(3), at(3)},
	}
	if got := b.silences(faults, at(30)); !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	// That of 3.9 s was said once the isolation was over, and the first log took a write 5.1 s later. Of that at
	// 3.6 and that at 19.6 s nothing can be said: something was done meanwhile. Nor of that at 27 s.
	if got := b.unfounded(faults, at(30), at(4)); !reflect.DeepEqual(got, s(5.1)) {
		t.Errorf("got %v, want that at 3.9 s", got)
	}
	if got := b.unfounded(faults, at(7), at(4)); len(got) != 0 {
		t.Errorf("got %v of what was not seen to its end", got)
	}
}
