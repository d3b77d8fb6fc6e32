package place

import (
	"cmp"
	"slices"
	"time"
)

const (
	// stall is how long a replica that catches up may apply nothing before its log no
	// longer counts as being changed.
	stall = 30 * time.Second
	// firstRetry and lastRetry bound the wait after a step that had no effect; it
	// doubles in between.
	firstRetry = time.Second
	lastRetry  = 30 * time.Second
	// balanceTries is how often a leadership is offered in one round of balancing:
	// raft drops about two of three transfers that come right after writes.
	balanceTries = 5
)

// Pace bounds what a node changes at a time.
type Pace struct {
	Concurrent int           // max_concurrent_reconciles: logs being changed at once
	Balance    time.Duration // leader_balance_interval_secs: between rounds that even out leaderships
	Quiet      time.Duration // after its start a node changes nothing for this long (Windows.Quiet)
}

// Scheduler picks the steps that a node carries out now, from those of all logs it
// leads. A log takes one of Concurrent places from its first change of members until
// it is settled, or can only wait, or its new replicas have caught up nothing for
// stall; so the limit also bounds the replicas that are filled at a time. Leaderships
// do not wait for replicas to be filled: as many may be under way besides. Those that
// only even out move in rounds, and those that came since a round began wait for the
// next: a failover is not followed by a storm of transfers.
type Scheduler struct {
	pace  Pace
	logs  map[uint64]*work // that the node leads, or that a step is under way for
	round time.Duration    // when the next round of balancing begins
	quiet time.Duration    // until when nothing is changed
}

// work is one log's state in the scheduler.
type work struct {
	busy  bool          // a step is under way
	open  bool          // the log has a place
	step  Step          // the last one started
	fails int           // times in a row that the same one was started before
	retry time.Duration // when that one may be started again

	catching uint64        // Step.Catching when it last changed
	moved    time.Duration // and when that was
	tries    int           // left in this round of balancing
}

// NewScheduler begins with nothing under way. The first round of balancing is due
// after the interval.
//
// A node that has just started does not know yet who the members are, and would lay
// logs out over too few. So it only hands over leaderships that a drain asks for until
// Quiet has passed.
func NewScheduler(now time.Duration, p Pace) *Scheduler {
	return &Scheduler{pace: p, logs: make(map[uint64]*work), round: now + p.Balance, quiet: now + p.Quiet}
}

// Open is how many logs have their members changed, and how many leaderships are
// being handed over. Neither is ever above Concurrent.
func (s *Scheduler) Open() (changes, transfers int) {
	for _, w := range s.logs {
		switch {
		case w.busy && w.step.Kind == Transfer:
			transfers++
		case w.open || w.busy:
			changes++
		}
	}
	return changes, transfers
}

// Next takes the plans of all logs that the node leads, one for each, and picks the
// steps to start now. Done must be told of each when it has ended. It also says when
// to ask again though nothing has changed, or Never.
func (s *Scheduler) Next(now time.Duration, plans []Step) (start []Step, again time.Duration) {
	s.take(now, plans)
	s.beginRound(now, plans)
	var due []Step
	again = Never
	for _, p := range plans {
		w := s.logs[p.Log]
		switch {
		case w.open && p.Catching > 0:
			again = min(again, w.moved+stall)
		case p.Kind > Wait && p.Urgency == Balance && w.tries == 0:
			again = min(again, s.round)
		}
		switch {
		case w.busy || p.Kind <= Wait:
		case now < s.quiet && (p.Kind != Transfer || p.Urgency != Empty):
			again = min(again, s.quiet)
		case p.Urgency == Balance && w.tries == 0:
		case w.repeats(p) && w.retry > now:
			again = min(again, w.retry)
		default:
			due = append(due, p)
		}
	}
	slices.SortFunc(due, func(a, b Step) int {
		if x, y := s.logs[a.Log].open, s.logs[b.Log].open; x != y {
			if x {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(a.Urgency, b.Urgency), cmp.Compare(a.Log, b.Log))
	})
	changes, transfers := s.Open()
	for _, p := range due {
		w := s.logs[p.Log]
		switch {
		case p.Kind == Transfer && transfers >= s.pace.Concurrent, p.Kind != Transfer && !w.open &&
			changes >= s.pace.Concurrent:
			continue
		case p.Kind == Transfer:
			transfers++
		case !w.open:
			changes++
		}
		w.begin(now, p)
		start = append(start, p)
	}
	return start, again
}

// take brings what is known of each log up to the plans.
func (s *Scheduler) take(now time.Duration, plans []Step) {
	led := make(map[uint64]bool, len(plans))
	for _, p := range plans {
		led[p.Log] = true
		w := s.logs[p.Log]
		if w == nil {
			w = &work{}
			s.logs[p.Log] = w
		}
		if p.Catching != w.catching {
			w.catching, w.moved = p.Catching, now
		}
		if p.Kind == Settled || p.Kind == Transfer || p.Kind == Wait && (p.Catching == 0 || now-w.moved >= stall) {
			w.open = false
		}
	}
	for log, w := range s.logs {
		if !led[log] {
			w.open, w.tries = false, 0
			if !w.busy {
				delete(s.logs, log)
			}
		}
	}
}

// beginRound gives the leaderships that are out of place now their tries.
func (s *Scheduler) beginRound(now time.Duration, plans []Step) {
	if now < s.round {
		return
	}
	s.round = now + s.pace.Balance
	for _, p := range plans {
		s.logs[p.Log].tries = 0
		if p.Kind == Transfer && p.Urgency == Balance {
			s.logs[p.Log].tries = balanceTries
		}
	}
}

func (w *work) begin(now time.Duration, p Step) {
	if w.repeats(p) {
		w.fails++
	} else {
		w.fails = 0
	}
	if p.Urgency == Balance {
		w.tries--
	}
	w.busy, w.open, w.step, w.moved = true, p.Kind != Transfer, p, now
}

// repeats says whether a plan is what was started last, which had no effect then.
func (w *work) repeats(p Step) bool {
	return w.step.Kind == p.Kind && w.step.Replica == p.Replica && w.step.Version == p.Version
}

// Done says that a step has ended, in whatever way: what came of it is seen in the
// log's next plan. If that is the same step again it waits for its turn, longer each
// time.
func (s *Scheduler) Done(now time.Duration, log uint64) {
	if w := s.logs[log]; w != nil && w.busy {
		w.busy = false
		w.retry = now + min(firstRetry<<min(w.fails, 5), lastRetry)
	}
}
