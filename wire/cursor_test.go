package wire

import (
	"bytes"
	"math"
	"slices"
	"testing"
)

func TestPositions(t *testing.T) {
	for _, ps := range [][]Position{
		nil, {{1, 2, 3}}, {{1, 200, 0}, {2, math.MaxUint64, math.MaxUint64}},
		slices.Repeat([]Position{{7, 8, 9}}, MaxPositions),
	} {
		b := AppendPositions(nil, ps)
		got, err := DecodePositions(b)
		if err != nil || !slices.Equal(got, ps) {
			t.Errorf("%d positions: %v, %v", len(ps), got, err)
		}
		for cut := range b[:min(len(b), 64)] {
			if _, err := DecodePositions(b[:cut]); err == nil {
				t.Errorf("%x is taken", b[:cut])
			}
		}
		if _, err := DecodePositions(append(bytes.Clone(b), 0)); err == nil {
			t.Errorf("%d positions and another byte are taken", len(ps))
		}
	}
	if _, err := DecodePositions(AppendPositions(nil, make([]Position, MaxPositions+1))); err == nil {
		t.Errorf("more than %d positions are taken", MaxPositions)
	}
}

// FuzzPositions: what is taken is encoded as it was, or shorter.
func FuzzPositions(f *testing.F) {
	f.Add([]byte{})
	f.Add(AppendPositions(nil, []Position{{1, 200, 0}, {2, 3, 4}}))
	f.Add([]byte{0xdd, 0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		ps, err := DecodePositions(b)
		if err != nil {
			return
		}
		again, err := DecodePositions(AppendPositions(nil, ps))
		if err != nil || !slices.Equal(again, ps) {
			t.Fatalf("%v was encoded and read as %v, %v", ps, again, err)
		}
	})
}
