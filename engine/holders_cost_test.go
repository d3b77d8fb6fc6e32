package engine

import (
	"fmt"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestFullSemaphoresWhileOthersDepart: a release of 64 permits, each waited for by somebody who lacks a full semaphore
// as well, one with 1024 holders, while connections of the session that has tied the holders' leases depart.
func TestFullSemaphoresWhileOthersDepart(t *testing.T) {
	const holders, waits = 1024, 64
	measure := func(ends int) time.Duration {
		cfg := DefaultConfig()
		cfg.Algorithm = wire.Semaphore
		s := New(cfg, nil, nil)
		ids := uint64(0)
		do := func(id byte, epoch uint64, bound bool, req *wire.Request) {
			ids++
			res := s.Apply(Clock{Now: 1}, &Command{NS: "h:/a", Caller: Caller{Session: Session{id}, ID: ids},
				Epoch: epoch, Bound: bound, Grace: 10000, Req: req}, new(Output))
			if res.Err() != nil {
				t.Fatal(res.Err())
			}
		}
		path := func(kind string, i int, permits uint32) wire.LockRequest {
			return wire.LockRequest{Path: fmt.Sprintf("h:/a/%s/%04d", kind, i), Permits: permits}
		}
		for i := range holders {
			req := &wire.Request{Op: wire.OpAcquire, Owner: fmt.Sprintf("h%04d", i), TTLMillis: hourMillis}
			for q := range waits {
				req.Locks = append(req.Locks, path("q", q, holders))
			}
			do(1, 1, true, req)
		}
		all := &wire.Request{Op: wire.OpAcquire, Owner: "x", TTLMillis: hourMillis}
		rel := &wire.Request{Op: wire.OpRelease, Owner: "x"}
		for i := range waits {
			all.Locks = append(all.Locks, path("p", i, 1))
			rel.Releases = append(rel.Releases, wire.ReleaseRequest{Path: all.Locks[i].Path})
		}
		do(4, 1, false, all)
		for i := range waits {
			do(5, 1, false, &wire.Request{Op: wire.OpAcquire, Owner: fmt.Sprintf("w%04d", i), TTLMillis: hourMillis,
				Locks: []wire.LockRequest{path("p", i, 1), path("q", i, holders)}})
		}
		for e := range ends {
			do(1, uint64(e+1), false, &wire.Request{Op: wire.OpDetach})
		}
		from := time.Now()
		do(4, 1, false, rel)
		return time.Since(from)
	}
	least := func(ends int) time.Duration { // whatever else the machine does only adds to one
		shortest := measure(ends)
		for range 4 {
			shortest = min(shortest, measure(ends))
		}
		return shortest
	}
	none, one, many := least(0), least(1), least(64)
	t.Logf("one release of 64 permits: nothing departs %v, one connection %v, 64 connections %v", none, one, many)
	if most := 20 * max(none, 100*time.Microsecond); one > most || many > most {
		t.Errorf("one release of 64 permits took %v with one departure, %v with 64, %v when nothing departs",
			one, many, none)
	}
}

// TestManyDeparturesOfHolders: 64 departures of the session that has tied the leases of 1024 holders of a full
// semaphore.
func TestManyDeparturesOfHolders(t *testing.T) {
	const holders = 8000
	cfg := DefaultConfig()
	cfg.Algorithm = wire.Semaphore
	s := New(cfg, nil, nil)
	do := func(id byte, epoch uint64, bound bool, req *wire.Request) wire.Result {
		for i := range req.Locks {
			req.Locks[i].Permits = holders
		}
		return s.Apply(Clock{Now: 1}, &Command{NS: "h:/a", Caller: Caller{Session: Session{id}, ID: s.seq + 1},
			Epoch: epoch, Bound: bound, Grace: 10000, Req: req}, new(Output))
	}
	for i := range holders {
		do(1, 1, true, takes(fmt.Sprintf("h%04d", i), "h:/a/q"))
	}
	ask := func() time.Duration {
		least := time.Hour
		for i := range 5 {
			req := takes(fmt.Sprintf("n%02d", i), "h:/a/q")
			req.Flags = wire.FlagNoQueue
			from := time.Now()
			do(2, 1, false, req)
			least = min(least, time.Since(from))
		}
		return least
	}
	before := ask()
	do(1, 1, false, &wire.Request{Op: wire.OpDetach})
	one := ask()
	for e := range 63 {
		do(1, uint64(e+2), false, &wire.Request{Op: wire.OpDetach})
	}
	many := ask()
	t.Logf("a refused request: nothing departs %v, one departure %v, 64 departures %v", before, one, many)
	if many > 4*max(one, 100*time.Microsecond) {
		t.Errorf("a refused request takes %v with 64 departures, %v with one", many, one)
	}
}
