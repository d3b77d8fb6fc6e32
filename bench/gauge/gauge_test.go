package gauge

import (
	"testing"
	"time"
)

func TestTry(t *testing.T) {
	l, err := MeasureLinks(t.Context(), 16)
	t.Logf("%+v %v", l, err)
	s, err := MeasureSnapshot(1000000, 10000)
	t.Logf("%+v %v", s, err)
	for _, n := range []int{5, 20, 40} {
		g, err := MeasureGossip(t.Context(), n, 8*time.Second)
		t.Logf("%+v %v", g, err)
	}
}
