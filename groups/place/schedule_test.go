package place

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// rounds drives a scheduler: the plans it is given at a time, in seconds, and the logs
// it should start.
type rounds struct {
	*testing.T
	s     *Scheduler
	again time.Duration
}

func (r *rounds) next(at int, want string, plans ...Step) {
	r.Helper()
	start, again := r.s.Next(time.Duration(at)*time.Second, plans)
	var got []string
	for _, s := range start {
		got = append(got, fmt.Sprint(s.Log))
	}
	if strings.Join(got, " ") != want {
		r.Errorf("at %d s: started %v, want %s", at, got, want)
	}
	r.again = again
}

func (r *rounds) done(at int, logs ...uint64) {
	for _, l := range logs {
		r.s.Done(time.Duration(at)*time.Second, l)
	}
}

func (r *rounds) asksAgain(want int) {
	r.Helper()
	if r.again != time.Duration(want)*time.Second {
		r.Errorf("asks to be asked again at %v, want %d s", r.again, want)
	}
}

func newRounds(t *testing.T, concurrent int) *rounds {
	return &rounds{T: t, s: NewScheduler(0, Pace{Concurrent: concurrent, Balance: time.Minute})}
}

func plan(log uint64, k Kind, u Urgency) Step {
	return Step{Log: log, Kind: k, Urgency: u, Replica: 7, Version: 1}
}

func filling(log, applied uint64) Step { return Step{Log: log, Kind: Wait, Catching: applied} }

func at(version uint64, s Step) Step {
	s.Version = version
	return s
}

func TestSchedulerServesByUrgency(t *testing.T) {
	r := newRounds(t, 2)
	plans := []Step{plan(1, Add, Spread), plan(2, Add, Repair), plan(3, Promote, Finish), plan(4, Wait, Finish),
		plan(5, Add, Repair), plan(6, Settled, Finish)}
	r.next(0, "3 2", plans...)
	r.next(0, "", plans...)
	r.done(1, 3)
	plans[2].Kind = Settled
	r.next(1, "5", plans...)
}

func TestSchedulerFinishesWhatItBegan(t *testing.T) {
	r := newRounds(t, 1)
	r.next(0, "2", plan(2, Add, Spread))
	r.done(1, 2)
	// A log keeps its place while its replica is filled, whatever else there is.
	r.next(1, "", filling(2, 10), plan(1, Add, Repair))
	r.next(29, "", filling(2, 20), plan(1, Add, Repair))
	r.next(58, "2", at(2, plan(2, Promote, Spread)), plan(1, Add, Repair))
	r.done(59, 2)
	r.next(59, "2", at(3, plan(2, Remove, Finish)), plan(1, Add, Repair))
	r.done(60, 2)
	r.next(60, "1", plan(2, Settled, Finish), plan(1, Add, Repair))
}

func TestSchedulerGivesUpOnWhatStalls(t *testing.T) {
	r := newRounds(t, 1)
	r.next(0, "2", plan(2, Add, Spread))
	r.done(1, 2)
	r.next(1, "", filling(2, 10), plan(1, Add, Repair))
	r.asksAgain(31)
	r.next(30, "", filling(2, 10), plan(1, Add, Repair))
	r.next(31, "1", filling(2, 10), plan(1, Add, Repair))
	// It comes in again when there is room.
	r.next(32, "", at(2, plan(2, Promote, Finish)), filling(1, 10))
	r.done(33, 1)
	r.next(33, "2", at(2, plan(2, Promote, Finish)), plan(1, Settled, Finish))
}

func TestSchedulerRepeatsMoreAndMoreSlowly(t *testing.T) {
	r := newRounds(t, 1)
	now := 0
	for _, wait := range []int{1, 2, 4, 8, 16, 30, 30} {
		r.next(now, "1", plan(1, Add, Repair))
		r.done(now, 1)
		r.next(now, "", plan(1, Add, Repair))
		r.asksAgain(now + wait)
		r.next(now+wait-1, "", plan(1, Add, Repair))
		now += wait
	}
	// Another step does not wait, and begins anew.
	r.next(now, "1", plan(1, Add, Repair))
	r.done(now, 1)
	r.next(now, "1", at(2, plan(1, Promote, Finish)))
	r.done(now, 1)
	r.next(now, "", at(2, plan(1, Promote, Finish)))
	r.asksAgain(now + 1)
}

func TestSchedulerBalancesInRounds(t *testing.T) {
	r := newRounds(t, 1)
	one, two := plan(1, Transfer, Balance), plan(2, Transfer, Balance)
	r.next(10, "", one)
	r.asksAgain(60)
	r.next(59, "", one)
	r.next(60, "1", one)
	// What comes to be out of place now waits for the next round.
	r.next(61, "", one, two)
	// A transfer that raft dropped is tried again in this one, five times in all.
	r.done(61, 1)
	r.next(61, "", one, two)
	now := 61
	for _, wait := range []int{1, 2, 4, 8} {
		now += wait
		r.next(now, "1", one, two)
		r.done(now, 1)
	}
	r.next(now+16, "", one, two)
	r.asksAgain(120)
	r.next(120, "1", one, two)
	r.done(121, 1)
	r.next(121, "2", two) // the log is led elsewhere now
	r.done(122, 2)
	// A log that comes back waits for the next round too, and so does one that was
	// where it belongs when a round began.
	r.next(122, "", one, two)
	r.next(180, "", plan(1, Settled, Finish), plan(2, Settled, Finish))
	r.next(190, "", one, two)
	r.next(240, "1", one, two)
}

// TestSchedulerTriesDoNotOutliveTheLead says the same of a log with tries left when
// it was lost, and of one whose round is over.
func TestSchedulerTriesDoNotOutliveTheLead(t *testing.T) {
	one := plan(1, Transfer, Balance)
	r := newRounds(t, 1)
	r.next(60, "1", one)
	r.next(61, "") // still under way
	r.next(62, "", one)
	r.done(63, 1)
	r.next(110, "", one)

	r = newRounds(t, 1)
	r.next(60, "1", one)
	r.done(61, 1)
	r.next(61, "", plan(1, Settled, Finish))
	r.next(120, "", plan(1, Settled, Finish))
	r.next(170, "", one)
}

func TestSchedulerIsQuietAtFirst(t *testing.T) {
	r := &rounds{T: t, s: NewScheduler(0, Pace{Concurrent: 2, Balance: 20 * time.Second, Quiet: 45 * time.Second})}
	plans := []Step{plan(1, Add, Repair), plan(2, Transfer, Empty), plan(3, Transfer, Balance)}
	r.next(0, "2", plans...)
	r.next(20, "", plans...)
	r.asksAgain(45)
	r.done(44, 2)
	r.next(45, "1 3", plans[0], plans[2])
}

func TestSchedulerHandsOverWhileReplicasAreFilled(t *testing.T) {
	r := newRounds(t, 1)
	r.next(0, "1", plan(1, Add, Repair))
	r.done(1, 1)
	drained := []Step{filling(1, 10), plan(2, Transfer, Empty), plan(3, Transfer, Empty), plan(4, Add, Repair)}
	r.next(1, "2", drained...)
	if changes, transfers := r.s.Open(); changes != 1 || transfers != 1 {
		t.Errorf("%d changes and %d transfers are open, want 1 and 1", changes, transfers)
	}
	r.done(2, 2)
	r.next(2, "3", filling(1, 20), plan(3, Transfer, Empty), plan(4, Add, Repair))
}

// TestSchedulerForgetsLogsItDoesNotLead says that memory is bounded by the logs led,
// and that a step under way still counts when its log is led by another.
func TestSchedulerForgetsLogsItDoesNotLead(t *testing.T) {
	r := newRounds(t, 1)
	r.next(0, "1", plan(1, Add, Repair))
	r.next(1, "", plan(2, Add, Repair))
	r.done(2, 1)
	r.next(2, "2", plan(2, Add, Repair))
	if len(r.s.logs) != 1 {
		t.Errorf("remembers %d logs, leads 1", len(r.s.logs))
	}
	r.done(3, 2, 9)
	r.next(3, "")
	if len(r.s.logs) != 0 {
		t.Errorf("remembers %d logs, leads none", len(r.s.logs))
	}
}
