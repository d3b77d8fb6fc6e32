package pathlockd

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestRenewalOnASilentConnectionThatBreaks: as TestRenewalOnASilentConnection, and the connection ends before the
// renewal is answered. The lease hangs on one that is whole.
func TestRenewalOnASilentConnectionThatBreaks(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p := f.telling()
		l, _ := taking(t, c, p)
		le, now := l.lease, c.now()
		silent := &tie{number: 99, lane: c.newLane("n1"), live: true}
		silent.prove(now - longGrace)
		le.sent.Store(&tieFrom{silent, now})
		must(t, l.Err())
		ren := newCall(le)
		ren.set(&wire.Request{Op: wire.OpRenew, Owner: l.Owner(), TTLMillis: 1000, Domains: []string{"a:/b"},
			Flags: keepFlags})
		s := &silent.lane.session
		ren.timed = true
		cn := &conn{c: c, l: silent.lane, tie: silent, writing: true}
		s.mu.Lock()
		s.mu.conn = cn
		s.mu.limits = windowsOf(&testLimits, 0)
		s.mu.urgent.push(ren)
		s.pump()
		s.mu.Unlock()
		unsure, _ := s.lost(cn, now)
		c.keeper.detached(silent, false, unsure)
		if err := l.Err(); err != nil {
			t.Errorf("a renewal went out just now on a connection that broke then: %v", err)
		}
		time.Sleep(time.Millisecond)
	})
}
