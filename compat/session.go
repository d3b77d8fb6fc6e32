package compat

import (
	"crypto/rand"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/pathlockd/pathlockd/wire"
)

// maxIdleSessions is how many sessions are kept to be used again. Every log remembers a
// session for a while, so it is better to use few; more than are under way at once are
// never made.
const maxIdleSessions = 4096

// session is one that has at most one request under way, besides releases that take back
// requests of before (undo.go). Those are few, so that the last four answers are all that
// need be remembered of it (window 4) to tell a repeat from a new request.
type session struct {
	wire.Session
	last atomic.Uint64 // id of its last request
	uses atomic.Int32  // who still has to put it back
}

// spread is how many sessions take turns, however few requests there are at once: one session may
// fill no more than a quarter of the tables that every client uses, and these are of many clients.
const spread = 8

// sessions is those without a request. Of the last eight the first is used next, so that there are hardly
// more than there were requests at once.
type sessions struct {
	mu   sync.Mutex
	idle []*session
	name func() [wire.SessionBytes]byte // of a new one; nil: randomName
}

func (p *sessions) named() [wire.SessionBytes]byte {
	if p.name == nil {
		return randomName()
	}
	return p.name()
}

// randomName names a session of a handler that does not name them itself.
func randomName() (id [wire.SessionBytes]byte) {
	if _, err := rand.Read(id[:]); err != nil {
		panic(err) // crypto/rand never fails on supported systems
	}
	return id
}

// take answers a session for one request, and the request's id. It is put back twice: when
// the request is answered, and by who asked.
func (p *sessions) take() (*session, uint64) {
	p.mu.Lock()
	var s *session
	if n := len(p.idle); n >= spread {
		s = p.idle[n-spread]
		p.idle = slices.Delete(p.idle, n-spread, n-spread+1)
	}
	p.mu.Unlock()
	if s == nil {
		s = &session{Session: wire.Session{ID: p.named(), Epoch: 1, Window: 4}}
	}
	s.uses.Store(2)
	return s, s.last.Add(1)
}

// put gives a session back, which is free when all that have to have done so.
func (p *sessions) put(s *session) {
	if s.uses.Add(-1) > 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.idle) < maxIdleSessions {
		p.idle = append(p.idle, s)
	}
}
