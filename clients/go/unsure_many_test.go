package pathlockd

import (
	"strconv"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestUnsureOfMany: an owner waits for very many paths when the connection breaks. What is noted of that, under the
// session's lock, costs no more for each of them than for one.
func TestUnsureOfMany(t *testing.T) {
	const many = 1 << 16
	var u unsure
	req := &wire.Request{Op: wire.OpAcquire, Owner: "me", Locks: make([]wire.LockRequest, 1)}
	began := time.Now()
	for i := range many {
		req.Locks[0].Path = "some:/namespace/" + strconv.Itoa(i)
		u.add(req, time.Duration(many-i))
	}
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("that took %v", took)
	}
	u.add(req, many) // again, and later
	le := &lease{name: leaseName{"me", "some:/namespace"}}
	if from, holds := (&tie{unsure: u}).holds(le); !holds || from != 1 {
		t.Errorf("it may hang on it from %v on, %v", from, holds)
	}
	le.name.namespace = "some:/other"
	if _, holds := (&tie{unsure: u}).holds(le); holds {
		t.Error("a lease of another namespace may hang on it")
	}
}
