package compat

import (
	"crypto/rand"
	"sync"

	"github.com/pathlockd/pathlockd/wire"
)

// maxIdleSessions is how many sessions are kept to be used again. Every log remembers a
// session for a while, so it is better to use few; more than are under way at once are
// never made.
const maxIdleSessions = 4096

// session is one that has at most one request under way: so the last answer is all that
// need be remembered of it (window 1) to tell a repeat from a new request.
type session struct {
	wire.Session
	last uint64 // id of its last request
}

// sessions is those without a request. The one used last is used next, so that there are
// no more than there were requests at once.
type sessions struct {
	mu   sync.Mutex
	idle []*session
}

// take answers a session for one request, whose id is its last.
func (p *sessions) take() *session {
	p.mu.Lock()
	var s *session
	if n := len(p.idle); n > 0 {
		s = p.idle[n-1]
		p.idle[n-1] = nil
		p.idle = p.idle[:n-1]
	}
	p.mu.Unlock()
	if s == nil {
		s = &session{Session: wire.Session{Epoch: 1, Window: 1}}
		if _, err := rand.Read(s.ID[:]); err != nil {
			panic(err) // crypto/rand never fails on supported systems
		}
	}
	s.last++
	return s
}

// put gives a session back whose request is answered.
func (p *sessions) put(s *session) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.idle) < maxIdleSessions {
		p.idle = append(p.idle, s)
	}
}
