package main

import (
	"fmt"
	"time"
)

const (
	progressEvery = 200 * time.Millisecond
	plainEvery    = 5 * time.Second // where nobody sees a line change
)

func (t *tally) add(o tally) {
	t.adds += o.adds
	t.moves += o.moves
	t.stale += o.stale
	t.gone += o.gone
	t.lost += o.lost
}

// progress shows what has happened so far.
func (s *supervisor) progress() {
	if !s.terminal && time.Since(s.shown) < plainEvery {
		return
	}
	s.shown = time.Now()
	sum := s.gone
	for _, c := range s.workers {
		sum.add(c.did())
	}
	line := fmt.Sprintf("%4.0fs  %d increments, %d renames, %d stale tokens refused, %d leases lost; %d stops, %d "+
		"workers killed, %d server crashes",
		time.Since(s.began).Seconds(), sum.adds, sum.moves, sum.stale, sum.lost, s.chaos.stops, s.chaos.kills,
		s.chaos.crashes)
	if s.terminal {
		fmt.Fprintf(s.out, "\r\x1b[K%s", line)
	} else {
		fmt.Fprintln(s.out, line)
	}
}

// progressEnd shows how it ended.
func (s *supervisor) progressEnd() {
	s.shown = time.Time{}
	s.progress()
	if s.terminal {
		fmt.Fprintln(s.out)
	}
}
