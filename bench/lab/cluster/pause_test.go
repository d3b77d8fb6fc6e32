package cluster

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

const (
	// often is how many namespaces are asked for, so that every log is.
	often = 16
	// patience is a request's timeout, and what a busy machine may add.
	patience = requestTimeout + 10*time.Second
)

func three(t *testing.T) (*Nodes, context.Context) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	c, err := NewNodes(ctx, t.TempDir(), 3, 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c, ctx
}

// take asks for the lock of a namespace.
func take(owner string, i int) *wire.Request {
	return &wire.Request{
		Op: wire.OpAcquire, Owner: owner, TTLMillis: 120_000, QueueTTLMillis: 60_000, Flags: wire.FlagNoQueue,
		Locks: []wire.LockRequest{{Path: fmt.Sprintf("c:/%d/x", i)}},
	}
}

// rest is the time between two looks at something.
func rest(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(askEvery):
	}
}

// until asks a node again and again until it is answered so.
func until(ctx context.Context, t *testing.T, c *Nodes, node int, req *wire.Request, want wire.Code) {
	t.Helper()
	for late := time.Now().Add(time.Minute); ; {
		_, err := Ask(ctx, c, node, patience, req)
		var e *wire.Error
		switch {
		case err == nil && want == wire.OK, errors.As(err, &e) && e.Code == want:
			return
		case time.Now().After(late):
			t.Fatalf("node %d: %v, want %v", node, err, want)
		}
		rest(ctx)
	}
}

// lead has a node lead every log.
func lead(ctx context.Context, t *testing.T, c *Nodes, node int) {
	t.Helper()
	for late := time.Now().Add(time.Minute); ; {
		all := true
		for log, at := range c.Leaders(ctx) {
			if at != node {
				all = false
				_ = Transfer(ctx, c, uint64(log+2), node) // seen by the leaders
			}
		}
		if all {
			return
		}
		if time.Now().After(late) {
			t.Fatalf("node %d does not lead everything: %v", node, c.Leaders(ctx))
		}
		rest(ctx)
	}
}

// TestPause: who is paused hears and says nothing, the others go on, and what was said to it
// meanwhile it hears afterwards.
func TestPause(t *testing.T) {
	c, ctx := three(t)
	lead(ctx, t, c, 0)
	for i := range often {
		until(ctx, t, c, 0, take("before", i), wire.OK)
	}
	began := time.Now()
	if err := c.Pause(0, 3*time.Second); err != nil {
		t.Fatal(err)
	}
	for _, m := range c.members()[1:] { // what it led, others lead
		for i := range often {
			until(ctx, t, c, m.number, take(fmt.Sprintf("after%d", m.number), i+often*m.number), wire.OK)
		}
	}
	said := make(chan error, 1)
	unheard, hang := context.WithCancel(ctx)
	go func() {
		_, err := Ask(unheard, c, 0, time.Hour, take("unheard", 3*often))
		said <- err
	}()
	heard := make(chan error, 1)
	go func() {
		res, err := Ask(ctx, c, 0, time.Hour, take("patient", 3*often+1))
		// not yet
		for unavailable := new(wire.Error); errors.As(err, &unavailable) && unavailable.Code == wire.Unavailable; {
			rest(ctx)
			res, err = Ask(ctx, c, 0, time.Hour, take("patient", 3*often+1))
		}
		if err == nil && res.Status != wire.StatusOK {
			err = fmt.Errorf("answered %v", res.Status)
		}
		heard <- err
	}()
	for asked := 0; asked < 2 && ctx.Err() == nil; { // both have asked
		c.members()[0].frost.mu.Lock()
		asked = len(c.members()[0].frost.calls)
		c.members()[0].frost.mu.Unlock()
		rest(ctx)
	}
	hang()
	if err := <-said; !errors.Is(err, context.Canceled) {
		t.Errorf("a node that is paused answers: %v", err)
	}
	select {
	case err := <-heard:
		t.Errorf("a node that is paused answers: %v", err)
	default:
	}
	// The others are asked what it did.
	for i, owner := range []string{"unheard", "patient"} {
		res, err := Ask(ctx, c, 1, patience, take("other", 3*often+i))
		if err != nil || res.Status != wire.StatusOK {
			t.Errorf("what %s asked of a node that is paused is carried out: %+v, %v", owner, res, err)
		}
		if _, err := Ask(ctx, c, 1, patience, &wire.Request{Op: wire.OpReleaseAll, Owner: "other"}); err != nil {
			t.Error(err)
		}
	}
	if err := c.Resume(0); err != nil {
		t.Fatal(err)
	}
	t.Logf("paused for %v", time.Since(began).Round(time.Millisecond))
	ready, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := c.Ready(ready); err != nil {
		t.Fatal(err)
	}
	// It heard them all, and whoever waited that long is answered.
	if err := <-heard; err != nil {
		t.Fatalf("what was asked of a node while it was paused is not answered afterwards: %v", err)
	}
	res, err := Ask(ctx, c, 1, patience, take("late", 3*often+1))
	if err != nil || res.Status != wire.StatusConflict || res.Owner != "patient" {
		t.Errorf("what was asked of a node while it was paused is not carried out afterwards: %+v, %v", res, err)
	}
}

// TestFullDisk: one node's disk is full, and only that node refuses.
func TestFullDisk(t *testing.T) {
	c, ctx := three(t)
	for range 2 {
		if err := c.Fill(2); err != nil {
			t.Fatal(err)
		}
		for late := time.Now().Add(time.Minute); ; {
			if up, _ := c.members()[2].up(); up != nil {
				if ok, _ := up.Health(); !ok {
					break
				}
			}
			if time.Now().After(late) {
				t.Fatal("it does not notice that its disk is full")
			}
			rest(ctx)
		}
		// The full node gives its leaderships away, and for that moment a log has none.
		for _, node := range []int{0, 1} {
			up, _ := c.members()[node].up()
			ok, why := up.Health()
			for late := time.Now().Add(time.Minute); !ok && time.Now().Before(late); ok, why = up.Health() {
				rest(ctx)
			}
			if !ok {
				t.Errorf("node %d: %s", node, why)
			}
		}
		if err := c.Empty(2); err != nil {
			t.Fatal(err)
		}
		ready, cancel := context.WithTimeout(ctx, time.Minute)
		if err := c.Ready(ready); err != nil {
			t.Error(err)
		}
		cancel()
	}
}
