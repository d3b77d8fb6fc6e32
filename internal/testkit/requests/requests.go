// Package requests makes the sessions and requests that tests of several packages ask with.
package requests

import (
	"fmt"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// Session is a session by its number.
func Session(n int) *wire.Session {
	s := &wire.Session{Epoch: 1, Window: 4}
	copy(s.ID[:], fmt.Sprintf("session-%08d", n))
	return s
}

// Later is the session on its next connection.
func Later(s *wire.Session) *wire.Session {
	return &wire.Session{
		ID: s.ID, Epoch: s.Epoch + 1, First: s.First, Window: s.Window, Meta: s.Meta, Redirect: s.Redirect,
	}
}

// Write takes a path for a time.
func Write(owner, path string, ttl time.Duration) *wire.Request {
	return &wire.Request{
		Op: wire.OpAcquire, Owner: owner, TTLMillis: uint64(ttl.Milliseconds()),
		Locks: []wire.LockRequest{{Path: path}},
	}
}

// Waiting is the request of who waits.
func Waiting(req *wire.Request) *wire.Request {
	req.Flags |= wire.FlagWait
	return req
}

// Release gives a path back.
func Release(owner, path string) *wire.Request {
	return &wire.Request{Op: wire.OpRelease, Owner: owner, Releases: []wire.ReleaseRequest{{Path: path}}}
}
