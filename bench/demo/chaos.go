package main

import (
	"context"
	"math/rand/v2"
	"slices"
	"syscall"
	"time"
)

// deed is one thing that chaos does.
type deed uint8

const (
	pause  deed = iota // a worker stops itself between read and write, for longer than its lease
	freeze             // a worker is stopped wherever it is, for longer than its lease
	slay               // a worker is killed, and another takes its place
	crash              // the server is killed and started again
)

// deck is what is done once before it is shuffled and done again.
var deck = []deed{pause, pause, slay, pause, freeze, crash, pause, slay}

const (
	minCalm = 150 * time.Millisecond // between two deeds
	maxCalm = 600 * time.Millisecond
	// A worker is stopped until its lease is over, and between these longer.
	minSleep = 300 * time.Millisecond
	maxSleep = 900 * time.Millisecond
	// minServed is how long the server is left alone after a start.
	minServed = 4 * time.Second
	// asksFor is how long a worker may take to stop itself, and another one to get
	// the lock that the first one lost.
	asksFor = 20 * time.Second
)

// chaos counts what was done.
type chaos struct{ stops, kills, crashes int }

// rage does deeds until ctx ends. It runs on the supervisor's goroutine.
func (s *supervisor) rage(ctx context.Context) error {
	var hand []deed
	for {
		if len(hand) == 0 {
			hand = append(hand, deck...)
			if s.chaos.stops > 0 { // the first time in order, so that short runs see each
				s.rng.Shuffle(len(hand), func(i, j int) { hand[i], hand[j] = hand[j], hand[i] })
			}
		}
		if err := s.wait(ctx, between(s.rng, minCalm, maxCalm)); err != nil || ctx.Err() != nil {
			return err
		}
		done, err := s.do(ctx, hand[0])
		if err != nil {
			return err
		}
		if !done {
			hand = append(hand, hand[0]) // later, then
		}
		hand = hand[1:]
	}
}

func between(rng *rand.Rand, from, to time.Duration) time.Duration {
	return from + time.Duration(rng.Int64N(int64(to-from)))
}

// do does a deed, unless it is not the time for it.
func (s *supervisor) do(ctx context.Context, d deed) (done bool, err error) {
	if d == crash {
		if time.Since(s.served) < minServed && s.chaos.crashes > 0 {
			return false, nil
		}
		return true, s.restart(ctx)
	}
	awake := slices.DeleteFunc(s.awake(), func(slot int) bool { return s.workers[slot].rival.Load() })
	if len(awake)*2 <= len(s.workers) {
		return false, nil // somebody has to work
	}
	slot := awake[s.rng.IntN(len(awake))]
	c := s.workers[slot]
	var rival *child
	switch d {
	case slay:
		s.chaos.kills++
		s.retire(c)
		c.kill()
		return true, s.employ(slot)
	case freeze:
		c.signal(syscall.SIGSTOP)
	case pause:
		if rival = s.engage(awake, c); rival == nil {
			return false, nil
		}
		c.tell(stopWord)
	case crash: // above
	}
	s.chaos.stops++
	c.asleep = true
	go s.wakeLater(c, rival, between(s.rng, minSleep, maxSleep))
	return true, nil
}

// engage finds a worker that will get between another one's read and write.
func (s *supervisor) engage(awake []int, victim *child) *child {
	for _, slot := range awake {
		if c := s.workers[slot]; c != victim && c.rival.CompareAndSwap(false, true) {
			return c
		}
	}
	return nil
}

// wakeLater lets a worker go on after it was stopped for a time. If it stops itself,
// there is a rival: that is made to want the file that the worker has read, and gets
// the lock when the lease is over. Then what the worker is about to write is of the
// past.
func (s *supervisor) wakeLater(c, rival *child, after time.Duration) {
	ttl := leaseTTL
	if rival != nil {
		defer rival.rival.Store(false)
		late := time.NewTimer(asksFor)
		defer late.Stop()
		select {
		case file := <-c.stopped:
			if rival.want(file, c.ended, late.C) {
				ttl = 0 // it is over
			}
		case <-late.C: // it waits for a lock all the time
		case <-c.ended:
		}
	}
	t := time.NewTimer(ttl + after)
	defer t.Stop()
	select {
	case <-t.C:
	case <-c.ended:
	}
	c.signal(syscall.SIGCONT)
	s.woken <- c
}

// want has a worker increment a file, and waits until it did or somebody gives up.
func (c *child) want(file string, over <-chan struct{}, late <-chan time.Time) bool {
	for {
		c.tell(wantWord + file)
		select {
		case did := <-c.wanted:
			if did == file {
				return true
			}
		case <-c.ended:
			return false
		case <-over:
			return false
		case <-late:
			return false
		}
	}
}
