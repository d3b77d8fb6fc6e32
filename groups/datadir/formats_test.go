package datadir

import (
	"testing"
)

// TestAgreed: a format is in use or read by all when it is by each, who is away and told
// nothing being of the first build.
func TestAgreed(t *testing.T) {
	for _, c := range []struct {
		own         [2]uint32
		others      [][2]uint32
		inUse, read uint32
	}{
		{[2]uint32{1, 2}, nil, 1, 2},
		{[2]uint32{2, 2}, nil, 2, 2},
		{[2]uint32{1, 2}, [][2]uint32{{1, 1}, {1, 2}}, 1, 1},
		{[2]uint32{1, 2}, [][2]uint32{{1, 2}, {1, 2}}, 1, 2},
		{[2]uint32{2, 2}, [][2]uint32{{1, 2}, {2, 2}}, 1, 2},
		{[2]uint32{1, 2}, [][2]uint32{{2, 2}, {2, 2}}, 1, 2},
		{[2]uint32{2, 2}, [][2]uint32{{2, 2}, {2, 2}}, 2, 2},
		{[2]uint32{2, 3}, [][2]uint32{{2, 2}, {2, 4}}, 2, 2},
		{[2]uint32{2, 3}, [][2]uint32{{2, 3}, {0, 0}}, 1, 1},
	} {
		if inUse, read := Agreed(c.own, c.others); inUse != c.inUse || read != c.read {
			t.Errorf("%v beside %v: %d is in use and %d read by all, want %d and %d", c.own, c.others, inUse, read,
				c.inUse, c.read)
		}
	}
}

// TestFormatsOnlyGrow: a node writes what all have in use, and nothing older after it.
func TestFormatsOnlyGrow(t *testing.T) {
	var f Formats
	f.Begin(3)
	for _, step := range []struct {
		other uint32 // in use there
		news  bool
		want  uint32
	}{{1, false, 1}, {2, true, 2}, {2, false, 2}, {1, false, 2}, {4, true, 3}} {
		if news := f.Write([][2]uint32{{step.other, 9}}); news != step.news || f.Written() != step.want {
			t.Errorf("another has %d in use: %d is written, want %d; news: %v", step.other, f.Written(),
				step.want, news)
		}
	}
}
