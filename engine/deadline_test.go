package engine

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// armed is what deadlines should hold: every armed timer, in the order in which
// they come due.
type armed []*timer

func (a *armed) add(t *timer) {
	*a = append(*a, t)
	slices.SortFunc(*a, func(x, y *timer) int {
		return cmp.Or(cmp.Compare(x.at, y.at), cmp.Compare(x.kind, y.kind), cmp.Compare(slotOf(x), slotOf(y)),
			cmp.Compare(x.key, y.key))
	})
}

func (a *armed) remove(t *timer) {
	*a = slices.DeleteFunc(*a, func(x *timer) bool { return x == t })
}

// TestDeadlinesAgainstSortedList arms, moves, disarms and drains timers, also in
// the instant that is being drained, as leases are that end while others do.
func TestDeadlinesAgainstSortedList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := deadlines{small: rapid.SampledFrom([]int{0, 3}).Draw(t, "small bucket")}
		var want armed
		timers := make([]*timer, 12)
		for i := range timers {
			timers[i] = &timer{kind: timerKind(i % 4), key: fmt.Sprintf("k%d", i/3)}
		}
		now := int64(0)
		some := rapid.IntRange(0, len(timers)-1)
		ahead := rapid.Int64Range(-2, 6)
		t.Repeat(map[string]func(*rapid.T){
			"arm": func(t *rapid.T) {
				x, at := timers[some.Draw(t, "timer")], now+ahead.Draw(t, "ahead")
				d.arm(x, at)
				want.remove(x)
				want.add(x)
			},
			"disarm": func(t *rapid.T) {
				x := timers[some.Draw(t, "timer")]
				d.disarm(x)
				want.remove(x)
			},
			"free": func(t *rapid.T) {
				i := some.Draw(t, "timer")
				x := timers[i]
				kind, key := x.kind, x.key
				want.remove(x)
				d.free(x)
				timers[i] = d.timer(kind, key)
			},
			"pass": func(t *rapid.T) { now += rapid.Int64Range(0, 3).Draw(t, "time") },
			"pop": func(t *rapid.T) {
				got := d.pop(now)
				switch {
				case len(want) == 0 || want[0].at > now:
					if got != nil {
						t.Fatalf("at %d popped %+v, want none", now, got)
					}
				case got != want[0]:
					t.Fatalf("at %d popped %+v, want %+v", now, got, want[0])
				default:
					want.remove(got)
				}
			},
			"": func(t *rapid.T) {
				at, ok := d.next()
				if ok != (len(want) > 0) || ok && at != want[0].at {
					t.Fatalf("next is %d %v, want %v", at, ok, want)
				}
				for _, x := range timers {
					if (x.in != nil) != slices.Contains(want, x) {
						t.Fatalf("%+v thinks it is armed: %v", x, x.in != nil)
					}
				}
			},
		})
	})
}

// TestDeadlinesForgetTimes: leases that are taken and let go within a long TTL
// leave no more behind than the named slack.
func TestDeadlinesForgetTimes(t *testing.T) {
	var d deadlines
	kept := &timer{key: "kept"}
	d.arm(kept, 1)
	for i := range int64(100 * slackTimes) {
		x := &timer{key: "x"}
		d.arm(x, 10+i)
		d.disarm(x)
		if len(d.times) > 2*len(d.buckets)+slackTimes+1 {
			t.Fatalf("%d times are kept for %d buckets", len(d.times), len(d.buckets))
		}
	}
	if got := d.pop(1); got != kept {
		t.Fatalf("popped %+v, want %+v", got, kept)
	}
	if _, ok := d.next(); ok {
		t.Fatal("something is armed still")
	}
}
