package replica

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// TestLeaseClock is the arithmetic: no stamp moves the clock back, or forward by
// more than 2 s.
func TestLeaseClock(t *testing.T) {
	var c leaseClock
	own, other := LeaderEpoch{Term: 2, Node: 1}, LeaderEpoch{Term: 1, Node: 2}
	for _, step := range []struct {
		stamp, want int64
		mono        time.Duration
	}{
		{5, 5, 0},
		{3, 5, time.Second},                // an older stamp
		{1_000_000, 2005, 2 * time.Second}, // a wild one
		{2105, 2105, 3 * time.Second},
	} {
		if got := c.advance(other, step.stamp, step.mono); got != step.want {
			t.Errorf("stamp %d: now %d, want %d", step.stamp, got, step.want)
		}
	}
	if got := c.stamp(own, 3*time.Second+250*time.Millisecond); got != 2355 {
		t.Errorf("stamp a quarter of a second later: %d, want 2355", got)
	}
	// Two entries are in flight after a minute of silence: a lease of 1 s that the first
	// gave is not over with the second.
	first, second := c.stamp(own, time.Minute), c.stamp(own, time.Minute+time.Millisecond)
	if first != 4105 {
		t.Errorf("stamp after a minute: %d, want 4105", first)
	}
	began := c.advance(own, first, time.Minute+2*time.Millisecond)
	if now := c.advance(own, second, time.Minute+3*time.Millisecond); now-began > 3 {
		t.Errorf("the clock goes %d ms in 3 ms", now-began)
	}
	// What silence lost is not made up for later.
	if got := c.stamp(own, time.Minute+100*time.Millisecond); got < began+97 || got > began+100 {
		t.Errorf("stamp 0.1 s later: %d, want about %d", got, began+100)
	}
	// An outage: entries are stamped and none is applied for 10 s.
	for at := time.Minute + 200*time.Millisecond; at < time.Minute+10*time.Second; at += 100 * time.Millisecond {
		if got := c.stamp(own, at); got > began+2000 {
			t.Fatalf("stamp %v after an entry: %d ms more", at-time.Minute, got-began)
		}
	}
	c.advance(own, began+200, time.Minute+10*time.Second)
	if got := c.stamp(own, time.Minute+10*time.Second); got > began+2100 {
		t.Errorf("an outage of 10 s took %d ms of the leases", got-began)
	}
	// The same, and nothing is stamped: two entries are in flight, and that is all there may be.
	c.advance(own, c.stamp(own, 2*time.Minute), 2*time.Minute)
	began = c.now
	first, second = c.stamp(own, 2*time.Minute+time.Second), c.stamp(own, 2*time.Minute+2*time.Second)
	c.advance(own, first, 2*time.Minute+10*time.Second)
	c.advance(own, second, 2*time.Minute+10*time.Second)
	if got := c.stamp(own, 2*time.Minute+10*time.Second); got > began+2000 {
		t.Errorf("an outage of 10 s with two entries in flight took %d ms of the leases", got-began)
	}
	// A clock that was read back goes on from where its leader epoch stamped with another one.
	c = newLeaseClock(100, time.Hour)
	c.leaderEpoch = own
	c.advance(own, 1_100, time.Hour+time.Millisecond)
	if got := c.stamp(own, time.Hour+11*time.Millisecond); got != 1_110 {
		t.Errorf("stamp 10 ms after an entry of 1100: %d", got)
	}
}

// TestLeaseClockGoesOn has entries come one after the other, each as long under way as
// there is until the next: the clock counts all of that time at who stamps them, and what
// is less than a millisecond too. At a follower it never goes ahead, though the follower's
// monotonic clock be fast.
func TestLeaseClockGoesOn(t *testing.T) {
	for _, every := range []time.Duration{100 * time.Microsecond, 3*time.Millisecond + 700*time.Microsecond,
		time.Second, 1900 * time.Millisecond} {
		for _, way := range []time.Duration{0, every / 2, every - time.Microsecond} {
			var c, follower leaseClock
			own := LeaderEpoch{Term: 1, Node: 1}
			for mono := time.Duration(0); mono < 30*time.Second; mono += every {
				s := c.stamp(own, mono)
				if lost := mono.Milliseconds() - s; lost < 0 || lost > 1 {
					t.Fatalf("an entry each %v, %v under way: stamp %d after %v", every, way, s, mono)
				}
				c.advance(own, s, mono+way)
				heard := mono + way
				heard += heard / 100
				follower.advance(own, s, heard)
				if took := follower; took.stamp(LeaderEpoch{Term: 2, Node: 2},
					heard) > (mono+way+every/50).Milliseconds()+1 {
					t.Fatalf("an entry each %v, %v under way: %v after the first one a follower is ahead",
						every, way, mono)
				}
			}
		}
	}
}

// TestLeaseClockAtFollowers has a follower apply an entry whose stamp it knew already, since
// the leader's clock had stood still, or began later: when it leads itself, it takes nothing
// off what the entry gave.
func TestLeaseClockAtFollowers(t *testing.T) {
	for name, play := range map[string]func(next *leaseClock) (granted int64, at time.Duration){
		"nothing was applied at the leader": func(next *leaseClock) (int64, time.Duration) {
			var lead leaseClock
			o := LeaderEpoch{Term: 1, Node: 1}
			lead.advance(o, lead.stamp(o, 0), 0)
			next.advance(o, lead.now, 0)
			next.advance(o, lead.stamp(o, time.Minute), time.Minute)
			const at = time.Minute + 1500*time.Millisecond
			return next.advance(o, lead.stamp(o, at), at), at
		},
		"the leader heard of the last entry late": func(next *leaseClock) (int64, time.Duration) {
			var lead leaseClock
			before, o := LeaderEpoch{Term: 1, Node: 2}, LeaderEpoch{Term: 2, Node: 1}
			const at = 1500 * time.Millisecond
			next.advance(before, 1000, 0)
			lead.advance(before, 1000, at)
			return next.advance(o, lead.stamp(o, at), at), at
		},
	} {
		t.Run(name, func(t *testing.T) {
			var next leaseClock
			granted, at := play(&next)
			if early := next.stamp(LeaderEpoch{Term: 9, Node: 3}, at+time.Second) - granted - 1000; early > 0 {
				t.Errorf("a lease of 1 s is over %d ms early", early)
			}
		})
	}
}

// TestLeaseClockOfThree has three nodes stamp and apply entries as it comes: leaders change,
// entries are lost, nodes lag, start anew, stall, and their clocks drift by a hundredth.
// Between any two entries all clocks say the same, and no more passes than did in truth,
// by the fastest of them.
func TestLeaseClockOfThree(t *testing.T) {
	for seed := range uint64(2000) {
		nodes := newLogOfThree(seed)
		for range 400 {
			nodes.step()
		}
		nodes.apply(nodes.leader, len(nodes.log))
		for i, e := range nodes.log {
			for _, later := range nodes.log[i+1:] {
				passed := float64(max(0, later.stamped-e.stamped)) / 1e6 * nodes.fastest
				if ran := float64(later.now-e.now) - 1; ran > passed+0.001 {
					t.Fatalf("seed %d: entries stamped %v and %v: %v ms by the lease clock", seed, e.stamped,
						later.stamped, later.now-e.now)
				}
			}
		}
		if nodes.differs != "" {
			t.Fatalf("seed %d: %s", seed, nodes.differs)
		}
	}
}

// logOfThree is a log of three nodes, as far as its time goes.
type logOfThree struct {
	rng         *rand.Rand
	at          time.Duration // in truth
	clocks      [3]leaseClock
	rate        [3]float64
	began       [3]time.Duration
	fastest     float64
	pace        time.Duration
	applied     [3]int
	log         []*stamped
	flying      []*stamped
	leader      int
	leaderEpoch LeaderEpoch
	differs     string
}

// stamped is an entry.
type stamped struct {
	leaderEpoch LeaderEpoch
	stamp       int64
	stamped     time.Duration // in truth
	now         int64         // once somebody applied it
	applied     bool
}

func newLogOfThree(seed uint64) *logOfThree {
	s := &logOfThree{rng: rand.New(rand.NewPCG(seed, 0)), fastest: 1}
	for i := range s.rate {
		s.rate[i] = 1
		if seed%2 == 1 {
			s.rate[i] += (s.rng.Float64() - 0.5) / 50
		}
		s.fastest = max(s.fastest, s.rate[i])
		s.began[i] = time.Duration(s.rng.Int64N(int64(time.Hour)))
		s.clocks[i] = newLeaseClock(0, s.mono(i))
	}
	s.pace = []time.Duration{50 * time.Microsecond, time.Millisecond, 30 * time.Millisecond, time.Second}[s.rng.IntN(4)]
	s.lead(0)
	return s
}

func (s *logOfThree) mono(node int) time.Duration {
	return s.began[node] + time.Duration(float64(s.at)*s.rate[node])
}

func (s *logOfThree) lead(node int) {
	s.leader, s.leaderEpoch = node, LeaderEpoch{Term: s.leaderEpoch.Term + 1, Node: uint64(node + 1)}
	s.apply(node, len(s.log))
}

func (s *logOfThree) apply(node, until int) {
	for ; s.applied[node] < until; s.applied[node]++ {
		e := s.log[s.applied[node]]
		now := s.clocks[node].advance(e.leaderEpoch, e.stamp, s.mono(node))
		if e.applied && e.now != now {
			s.differs = fmt.Sprintf("entry %d: %d and %d", s.applied[node], e.now, now)
		}
		e.now, e.applied = now, true
	}
}

func (s *logOfThree) step() {
	s.at += time.Duration(s.rng.Int64N(int64(s.pace))) + 1
	if s.rng.IntN(60) == 0 {
		s.at += time.Duration(s.rng.Int64N(int64(12 * time.Second))) // everything stalls
	}
	switch x, node := s.rng.IntN(100), s.rng.IntN(3); {
	case x < 45 && len(s.flying) < 2: // as many as are under way (window, groups/log.go)
		s.flying = append(s.flying, &stamped{leaderEpoch: s.leaderEpoch, stamp: s.clocks[s.leader].stamp(s.leaderEpoch,
			s.mono(s.leader)), stamped: s.at})
	case x < 80 && len(s.flying) > 0:
		s.log, s.flying = append(s.log, s.flying[0]), s.flying[1:]
		if s.rng.IntN(2) == 0 {
			s.apply(s.leader, len(s.log))
		}
	case x < 84 && len(s.flying) > 0: // lost
		s.flying = s.flying[1:]
	case x < 92 && s.applied[node] < len(s.log):
		s.apply(node, s.applied[node]+1+s.rng.IntN(len(s.log)-s.applied[node]))
	case x < 95:
		s.log, s.flying = append(s.log, s.flying[:s.rng.IntN(len(s.flying)+1)]...), nil
		s.lead(node)
	case x < 97: // a node starts anew, with a snapshot of another or what it had
		if node == s.leader {
			s.flying = nil
		} else {
			s.apply(node, slices.Max(s.applied[:]))
		}
		s.clocks[node] = newLeaseClock(s.clocks[node].now, s.mono(node))
		if node == s.leader {
			s.lead(node)
		}
	}
}
