package place

import (
	"fmt"
	"slices"
	"strings"
)

// Plan is the next change that brings a log to its voters, as its leader sees it:
// voters are the log's seats in the layout, the one to lead first. It keeps these
// rules:
//
//   - After the step, a majority of the voters is live and caught up, a node that
//     was just made a voter included.
//   - A voter is replaced in the order that never makes the log depend on more nodes
//     than before. One that is live goes after its successor votes. One that is gone
//     goes when its successor is caught up, and before that one votes; it is gone if
//     its disk is, or its node was away for the eviction window. One that is just not
//     seen is waited for until it is either.
//   - An odd number of voters becomes even only if the step out of it is ready.
//   - The leader does not remove itself; it hands over and its successor does that.
//   - A leader that is short of disk space hands over to one that is not, and leads on
//     if there is none.
//   - A replica without a vote that is stuck is removed; being missing, another one is added.
//   - A replica whose disk is gone is not waited for: its node has another one, and was
//     seen with that for the stability window.
func Plan(l *Log, voters []string, nodes map[string]Node) Step {
	s := newSurvey(l, voters, nodes)
	step := s.next()
	step.Log, step.Version, step.Catching = l.ID, l.Version, s.catching()
	if step.Kind != Settled && step.Kind != Wait {
		switch {
		case len(s.voters)%2 == 0 && step.Urgency != Balance:
			step.Urgency = Finish
		case step.Urgency == Spread && s.hurt():
			step.Urgency = Repair
		case step.Urgency == Spread && s.emptying():
			step.Urgency = Empty
		}
	}
	return step
}

// hurt says whether voters are fewer than they should be, or dead.
func (s *survey) hurt() bool { return len(s.voters) < len(s.want) || s.sound < len(s.voters) }

// emptying says whether a replica is on a node that leaves.
func (s *survey) emptying() bool {
	for _, t := range s.voters {
		if t.drain >= DrainReplicas {
			return true
		}
	}
	return false
}

func (s *survey) next() Step {
	switch {
	case len(s.want) == 0:
		return wait("no members to place it on")
	case s.self == nil || !s.self.Voting:
		return wait("this node's replica is no voter")
	case s.sound < majority(len(s.voters)):
		return wait("only %d of %d voters are live and caught up", s.sound, len(s.voters))
	}
	if s.self.drain > DrainNothing {
		if t := s.successor(); t != nil {
			return s.transfer(t, Empty, "%s is drained", s.self.Node)
		}
	}
	if s.self.short {
		if t := s.best(false); t != nil {
			return s.transfer(t, Empty, "the disk of %s is nearly full", s.self.Node)
		}
	}
	if len(s.voters)%2 == 0 {
		if next, ok := s.change(); ok {
			return next
		}
	}
	for _, t := range s.waiting {
		switch {
		case t.lost:
			return step(Remove, t, "the disk it was made on is gone")
		case !t.wanted:
			return step(Remove, t, "no voter belongs on %s", t.Node)
		case t.Stuck && t.alive && !t.sound:
			return step(Remove, t, "it has made no headway, and is made anew")
		}
	}
	if len(s.missing) > 0 {
		n := s.missing[0]
		return Step{Kind: Add, Urgency: Spread, Replica: s.log.freshID(), Node: n.ID, Disk: n.Disk,
			Why: "a voter belongs on " + n.ID}
	}
	if next, ok := s.change(); ok {
		return next
	}
	return s.rest()
}

// change is the next change among the voters.
func (s *survey) change() (Step, bool) {
	n, want := len(s.voters), len(s.want)
	switch {
	case n%2 == 0 && n > want:
		return s.drop()
	case n%2 == 0 && len(s.ready) > 0:
		return s.promote("makes the voters odd")
	case n%2 == 0 && s.overdue():
		return s.drop()
	case n%2 == 0:
		return Step{}, false
	case n > want && s.complete():
		return s.drop()
	case len(s.ready) == 0:
		return Step{}, false
	case s.overdue():
		return s.drop()
	case s.unsure():
		return Step{}, false // how to replace it depends on whether it comes back
	case n >= want:
		return s.promote("a voter that does not belong goes next")
	case len(s.ready) > 1:
		return s.promote("another is ready too")
	}
	return Step{}, false // one more would make the voters even, and leave them so
}

func (s *survey) promote(why string) (Step, bool) {
	t := s.ready[0]
	return s.safe(step(Promote, t, "caught up, %s", why), s.sound+1, len(s.voters)+1)
}

// drop removes the voter that is missed least.
func (s *survey) drop() (Step, bool) {
	n := len(s.voters)
	switch {
	case len(s.dead) > 0 && s.dead[0].lost:
		return s.safe(step(Remove, s.dead[0], "the disk it was made on is gone"), s.sound, n-1)
	case len(s.dead) > 0 && s.dead[0].alive:
		return s.safe(step(Remove, s.dead[0], "behind, and no voter belongs on %s", s.dead[0].Node), s.sound, n-1)
	case len(s.dead) > 0:
		return s.safe(step(Remove, s.dead[0], "away, and no voter belongs on %s", s.dead[0].Node), s.sound, n-1)
	case len(s.spare) > 0:
		t := s.spare[len(s.spare)-1]
		for _, other := range s.spare {
			if other.drain > t.drain {
				t = other
			}
		}
		return s.safe(step(Remove, t, "no voter belongs on %s", t.Node), s.sound-1, n-1)
	}
	if t := s.successor(); t != nil && !s.self.wanted {
		return s.transfer(t, Spread, "no voter belongs on %s", s.self.Node), true
	}
	return Step{}, false
}

// safe lets a change through that leaves a majority.
func (s *survey) safe(step Step, sound, voters int) (Step, bool) {
	return step, voters > 0 && sound >= majority(voters)
}

// rest is for a log whose members do not change now: its leadership may.
func (s *survey) rest() Step {
	if first := s.voters[0]; first != s.self && first.wanted && first.Node == s.want[0] && s.catching() == 0 &&
		first.sound && first.steady && first.drain == DrainNothing && !first.short {
		return s.transfer(first, Balance, "belongs to %s", first.Node)
	}
	var behind []string
	for _, t := range slices.Concat(s.voters, s.waiting) {
		switch {
		case t.sound:
		case !t.alive:
			behind = append(behind, t.Node+" to come back")
		default:
			behind = append(behind, t.Node+" to catch up")
		}
	}
	for _, id := range s.absent {
		behind = append(behind, id+" to come")
	}
	if len(behind) > 0 {
		return wait("for %s", strings.Join(behind, ", "))
	}
	if !s.complete() || len(s.voters) != len(s.want) {
		return wait("a change would leave no live majority")
	}
	return Step{Kind: Settled, Why: fmt.Sprintf("%d voters where they belong", len(s.voters))}
}

func wait(format string, args ...any) Step {
	return Step{Kind: Wait, Why: fmt.Sprintf(format, args...)}
}

func step(k Kind, t *seat, format string, args ...any) Step {
	return Step{Kind: k, Urgency: Spread, Replica: t.ID, Node: t.Node, Disk: t.Disk, Why: fmt.Sprintf(format, args...)}
}

func (s *survey) transfer(t *seat, u Urgency, format string, args ...any) Step {
	next := step(Transfer, t, format, args...)
	next.Urgency = u
	return next
}
