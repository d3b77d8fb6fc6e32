package place

import (
	"cmp"
	"slices"
)

// survey is a log beside what it should be.
type survey struct {
	log   *Log
	want  []string
	nodes map[string]Node

	self    *seat
	voters  []*seat // in the order of the wanted, then of replica ids
	waiting []*seat // do not vote
	dead    []*seat // voters not wanted, and not sound; those that are gone first
	spare   []*seat // voters not wanted, sound, and not the leader
	ready   []*seat // wanted, sound, and not voting yet
	missing []Node  // wanted, seen, and without a replica
	absent  []string
	sound   int // voters
}

// seat is a replica and what became of it.
type seat struct {
	Replica
	wanted bool // on a node that should have one, with the disk it was made on
	lost   bool // the disk it was made on is gone: its node has another one, and that for long enough
	gone   bool // lost, or on a node that was away for the eviction window
	alive  bool // its node and its disk are seen
	sound  bool // alive and caught up
	drain  Drain
	steady bool
	short  bool // of disk space
}

func newSurvey(l *Log, want []string, nodes map[string]Node) *survey {
	s := &survey{log: l, want: want, nodes: nodes}
	for i := range l.Replicas {
		s.take(&l.Replicas[i])
	}
	order := func(a, b *seat) int {
		return cmp.Or(cmp.Compare(s.rank(a), s.rank(b)), cmp.Compare(a.ID, b.ID))
	}
	for _, list := range [][]*seat{s.voters, s.waiting, s.ready, s.spare} {
		slices.SortFunc(list, order)
	}
	// What never comes back goes first.
	slices.SortFunc(s.dead, func(a, b *seat) int {
		return cmp.Or(cmp.Compare(first(a.lost), first(b.lost)), cmp.Compare(first(a.gone), first(b.gone)), order(a, b))
	})
	for _, id := range want {
		if s.seated(id) {
			continue
		}
		if n := nodes[id]; n.Alive {
			s.missing = append(s.missing, n)
		} else {
			s.absent = append(s.absent, id)
		}
	}
	return s
}

// first orders what is true before what is not.
func first(b bool) int {
	if b {
		return 0
	}
	return 1
}

// take files one replica.
func (s *survey) take(r *Replica) {
	n := s.nodes[r.Node]
	t := &seat{Replica: *r, drain: n.Drain, steady: n.Steady, short: n.Short}
	other := n.Disk != "" && n.Disk != r.Disk
	t.lost = other && (n.Steady || s.log.on(n.Disk)) // one that was just put in may be the wrong one
	t.alive = n.Alive && !other
	t.gone = t.lost || n.Gone
	t.wanted = !t.lost && slices.Contains(s.want, r.Node)
	t.sound = t.alive && r.Applied > 0 && r.Applied+MaxLag >= s.log.Applied
	if r.ID == s.log.Self {
		t.alive, t.sound = !t.lost, !t.lost
		s.self = t
	}
	switch {
	case !r.Voting:
		s.waiting = append(s.waiting, t)
		if t.wanted && t.sound {
			s.ready = append(s.ready, t)
		}
		return
	case !t.wanted && !t.sound:
		s.dead = append(s.dead, t)
	case !t.wanted && r.ID != s.log.Self:
		s.spare = append(s.spare, t)
	}
	s.voters = append(s.voters, t)
	if t.sound {
		s.sound++
	}
}

// rank is the place of a replica among the wanted.
func (s *survey) rank(t *seat) int {
	if t.wanted {
		return slices.Index(s.want, t.Node)
	}
	return len(s.want)
}

// seated says whether a wanted node has a replica that can be used.
func (s *survey) seated(node string) bool {
	has := func(t *seat) bool { return t.Node == node && t.wanted }
	return slices.ContainsFunc(s.voters, has) || slices.ContainsFunc(s.waiting, has)
}

// successor is who should lead instead of this node: the first that is wanted and in good
// health, or else any voter that is not about to go. One that is short of disk space
// comes after all that are not.
func (s *survey) successor() *seat {
	if t := s.best(false); t != nil {
		return t
	}
	return s.best(true)
}

// best is the successor among those that are short of disk space, or among the others.
func (s *survey) best(short bool) *seat {
	for _, fits := range []func(t *seat) bool{
		func(t *seat) bool { return t.wanted && t.steady },
		func(t *seat) bool { return t.wanted },
		func(*seat) bool { return true },
	} {
		for _, t := range s.voters {
			if t.ID != s.log.Self && t.sound && t.drain == DrainNothing && t.short == short && fits(t) {
				return t
			}
		}
	}
	return nil
}

// overdue says whether a voter that does not belong is surely gone, and unsure
// whether one is not seen and may yet come back.
func (s *survey) overdue() bool { return len(s.dead) > 0 && s.dead[0].gone }

func (s *survey) unsure() bool {
	return slices.ContainsFunc(s.dead, func(t *seat) bool { return !t.alive && !t.gone })
}

// complete says whether all the wanted vote.
func (s *survey) complete() bool {
	n := 0
	for _, t := range s.voters {
		if t.wanted {
			n++
		}
	}
	return n >= len(s.want)
}

// catching is what the replicas on their way to a vote have applied.
func (s *survey) catching() (applied uint64) {
	for _, t := range s.waiting {
		if t.wanted && t.alive {
			applied += t.Applied + 1
		}
	}
	return applied
}
