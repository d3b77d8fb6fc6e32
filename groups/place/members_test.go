package place

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestMembers walks a cluster through what nodes do, second by second. A line is
// "time: what is seen [| marks] => who is placed [flags]"; node a is the observer,
// x/2 is node x with its second disk, x! drains its leaderships and x!! leaves. Flags:
// held, and next=T.
func TestMembers(t *testing.T) {
	windows := Windows{Stability: 30 * time.Second, Eviction: 60 * time.Second}
	for name, script := range map[string]string{
		"a node counts after the stability window": `
			0: a b => a next=30
			29: a b => a next=30
			30: a b => a b next=never`,
		"and until the eviction window after it was last seen": `
			0: a b => a next=30
			30: a b => a b next=never
			100: a => a b next=160
			159: a => a b next=160
			160: a => a next=never`,
		"a break begins the wait anew": `
			50: a b => a next=80
			70: a => a next=130
			75: a b => a next=105
			104: a b => a next=105
			105: a b => a b next=never`,
		"while the node is new it does not": `
			0: a b => a next=30
			20: a => a next=80
			25: a b => a next=30
			30: a b => a b next=never`,
		"breaks shorter than the eviction window change nothing": `
			0: a b => a next=30
			30: a b => a b next=never
			40: a => a b next=100
			99: a b => a b next=129
			100: a => a b next=160
			159: a b => a b next=189
			189: a b => a b next=never`,
		"who was dropped waits twice as long each time, up to 16 times": `
			0: a b => a next=30
			30: a b => a b next=never
			31: a => a b next=91
			91: a => a next=never
			100: a b => a next=160
			130: a b => a next=160
			160: a b => a b next=never
			161: a => a b next=221
			221: a => a next=never
			300: a b => a next=420
			420: a b => a b next=never
			421: a => a b next=481
			481: a => a next=never
			500: a b => a next=740
			740: a b => a b next=never
			741: a => a b next=801
			801: a => a next=never
			900: a b => a next=1380
			1380: a b => a b next=never
			1381: a => a b next=1441
			1441: a => a next=never
			1500: a b => a next=1980
			1980: a b => a b next=never`,
		"staying long is remembered too": `
			0: a b => a next=30
			30: a b => a b next=never
			31: a => a b next=91
			91: a => a next=never
			100: a b => a next=160
			160: a b => a b next=never
			1540: a => a b next=1600
			1600: a => a next=never
			1700: a b => a next=1760
			1760: a b => a b next=never`,
		"nobody is dropped while most are away": `
			0: a b c d => a next=30
			30: a b c d => a b c d next=never
			40: a => a b c d held next=never
			500: a => a b c d held next=never
			501: a b => a b next=531
			531: a b => a b next=never`,
		"new members end a hold": `
			0: a b c => a next=30
			30: a b c => a b c next=never
			31: a d e => a b c held next=61
			61: a d e => a b c d e next=91
			91: a d e => a d e next=never`,
		"half is enough": `
			0: a b c d => a next=30
			30: a b c d => a b c d next=never
			40: a b => a b c d next=100
			100: a b => a b next=never`,
		"a new disk is the same member, and not steady": `
			0: a b => a next=30
			30: a b => a b next=never
			40: a b/2 => a b next=70
			70: a b/2 => a b next=never`,
		"of two with one name the known one is seen": `
			0: a b => a next=30
			30: a b => a b next=never
			40: a b/2 b => a b next=never
			50: a b b/2 => a b next=never`,
		"who leaves is not placed, and not dropped early": `
			0: a b c => a next=30
			30: a b c => a b c next=never
			40: a b c!! => a b next=never
			50: a b => a b next=110
			60: a b c => a b c next=90`,
		"who is about to stop stays placed": `
			0: a b c => a next=30
			30: a b c => a b c next=never
			40: a b c! => a b c next=never
			41: a b => a b c next=101`,
		"an operator's mark counts for who is away": `
			0: a b c => a next=30
			30: a b c => a b c next=never
			40: a => a b c held next=never
			50: a | b!! => a c next=100
			100: a | b!! => a next=never
			101: a b => a next=161`,
		"while most are away a marked one is dropped": `
			0: a b c d e => a next=30
			30: a b c d e => a b c d e next=never
			40: a | b!! => a c d e held next=100
			100: a | b!! => a c d e held next=never
			110: a => a c d e held next=never`,
		"a mark that is taken back": `
			0: a b => a next=30
			30: a b => a b next=never
			40: a b | b!! => a next=never
			50: a b => a b next=never`,
		"the node itself always counts": `
			0: b => a next=30
			900: b => a b next=never`,
	} {
		t.Run(name, func(t *testing.T) {
			m := NewMembers(0, Sighting{Node: "a", Disk: "1"}, windows)
			for line := range strings.SplitSeq(strings.TrimSpace(script), "\n") {
				line = strings.TrimSpace(line)
				at, rest, _ := strings.Cut(line, ":")
				saw, want, _ := strings.Cut(rest, "=>")
				saw, marked, _ := strings.Cut(saw, "|")
				now, err := strconv.Atoi(at)
				if err != nil {
					t.Fatal(err)
				}
				marks := make(map[string]Drain)
				for _, s := range sightings(marked) {
					marks[s.Node] = s.Drain
				}
				v := m.Observe(time.Duration(now)*time.Second, sightings(saw), marks)
				if got := viewed(m, v); got != strings.TrimSpace(want) {
					t.Errorf("%s\n\tgot %s", line, got)
				}
			}
		})
	}
}

func sightings(text string) (seen []Sighting) {
	for _, f := range strings.Fields(text) {
		name := strings.TrimRight(f, "!")
		s := Sighting{Node: name, Disk: "1", Drain: Drain(len(f) - len(name))}
		if node, disk, ok := strings.Cut(name, "/"); ok {
			s.Node, s.Disk = node, disk
		}
		seen = append(seen, s)
	}
	return seen
}

func viewed(m *Members, v View) string {
	words := slices.Clone(v.Placed)
	if m.held() {
		words = append(words, "held")
	}
	next := "next=never"
	if v.Next != Never {
		next = fmt.Sprintf("next=%d", v.Next/time.Second)
	}
	return strings.Join(append(words, next), " ")
}

// TestMembersSayWhatIsSeen is about the rest of a view.
func TestMembersSayWhatIsSeen(t *testing.T) {
	m := NewMembers(0, Sighting{Node: "a", Disk: "1"}, Windows{30 * time.Second, 60 * time.Second})
	m.Observe(0, sightings("a b"), nil)
	m.Observe(30*time.Second, sightings("a b"), nil)
	m.Observe(35*time.Second, sightings("a b d"), nil)
	m.Observe(36*time.Second, sightings("a b c"), nil)
	m.Observe(40*time.Second, sightings("a! b/2 c"), nil)
	v := m.Observe(96*time.Second, sightings("a! b/2 c"), nil)
	for _, want := range []Node{
		{ID: "a", Disk: "1", Alive: true, Steady: true, Stable: true, Drain: DrainLeads},
		{ID: "b", Disk: "2", Alive: true, Steady: true, Stable: true},
		{ID: "c", Disk: "1", Alive: true, Steady: true, Stable: true},
		{ID: "d", Disk: "1", Gone: true},
	} {
		if got := v.Nodes[want.ID]; got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
}

// TestAdopt is a leader that has just started: who holds replicas counts at once,
// for an eviction window if it is not seen; who was dropped does not.
func TestAdopt(t *testing.T) {
	const s = time.Second
	m := NewMembers(0, Sighting{Node: "a", Disk: "1"}, Windows{30 * s, 60 * s})
	step := func(at time.Duration, seen string, holders []string, want string) {
		t.Helper()
		m.Adopt(at, holders)
		if got := viewed(m, m.Observe(at, sightings(seen), nil)); got != want {
			t.Errorf("at %v: %s, want %s", at, got, want)
		}
	}
	step(10*s, "a b", []string{"a", "b", "c"}, "a b c next=40")
	step(40*s, "a b d", []string{"a", "b", "c"}, "a b c next=70")
	step(45*s, "a b d", []string{"a", "b", "d"}, "a b c d next=70")
	step(70*s, "a b d", []string{"a", "b", "c", "d"}, "a b d next=never")
	step(80*s, "a b c d", []string{"a", "b", "c", "d"}, "a b d next=140")
	step(140*s, "a b c d", []string{"a", "b", "c", "d"}, "a b c d next=never")
}

// TestMembersAreBounded says that names without end neither grow the memory nor push
// members out.
func TestMembersAreBounded(t *testing.T) {
	m := NewMembers(0, Sighting{Node: "a", Disk: "1"}, Windows{30 * time.Second, 60 * time.Second})
	m.Adopt(0, []string{"b"})
	var flood []Sighting
	for i := range maxMembers + 10 {
		flood = append(flood, Sighting{Node: fmt.Sprintf("x-%d", i), Disk: "1"})
	}
	v := m.Observe(0, append(flood, sightings("a b")...), nil)
	if len(v.Nodes) != maxMembers {
		t.Errorf("%d nodes are known, want %d", len(v.Nodes), maxMembers)
	}
	m.Observe(10*time.Second, sightings("a b"), nil)
	v = m.Observe(time.Hour, sightings("a b new"), nil)
	if got := viewed(m, v); got != "a b next=3630" {
		t.Errorf("an hour later: %s: who was away for long has to make room", got)
	}
}

// TestRollingRestartMovesNothing: a node that is new counts the members that restart
// after it when its quiet time is over, and one that was seen first after that only
// when it was seen for the stability window.
func TestRollingRestartMovesNothing(t *testing.T) {
	w := Windows{Stability: 30 * time.Second, Eviction: time.Minute}
	m := NewMembers(0, Sighting{Node: "a", Disk: "a"}, w)
	b, c := Sighting{Node: "b", Disk: "b"}, Sighting{Node: "c", Disk: "c"}
	a := Sighting{Node: "a", Disk: "a"}
	at := func(s int) time.Duration { return time.Duration(s) * time.Second }
	m.Observe(at(1), []Sighting{a, b, c}, nil)
	m.Observe(at(25), []Sighting{a, c}, nil) // b restarts
	m.Observe(at(32), []Sighting{a, b, c}, nil)
	m.Observe(at(40), []Sighting{a, b}, nil) // c restarts
	m.Observe(at(44), []Sighting{a, b, c}, nil)
	if v := m.Observe(at(46), []Sighting{a, b, c}, nil); len(v.Placed) != 3 {
		t.Errorf("placed on %v after the quiet time, want all three", v.Placed)
	}
	// Later a break counts again: d is new, and goes for a moment.
	d := Sighting{Node: "d", Disk: "d"}
	m.Observe(at(50), []Sighting{a, b, c, d}, nil)
	m.Observe(at(70), []Sighting{a, b, c}, nil)
	m.Observe(at(75), []Sighting{a, b, c, d}, nil)
	if v := m.Observe(at(90), []Sighting{a, b, c, d}, nil); len(v.Placed) != 3 {
		t.Errorf("placed on %v, though d was not seen for 30 s without a break", v.Placed)
	}
	if v := m.Observe(at(106), []Sighting{a, b, c, d}, nil); len(v.Placed) != 4 {
		t.Errorf("placed on %v, want all four", v.Placed)
	}
}
