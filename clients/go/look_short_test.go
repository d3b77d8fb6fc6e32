package pathlockd

import (
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestShortReadBesideALongLock: "me" holds 600 paths for an hour at a time, and has waited for one more with a TTL of
// 3 s, which comes behind them in the listing. Another client of "me" gives that one back, and another owner has it: it
// is lost within about its own TTL, not that of the others (decision 0022).
func TestShortReadBesideALongLock(t *testing.T) {
	for _, waited := range []bool{false, true} {
		for _, many := range []int{600, 5} {
			t.Run(fmt.Sprintf("waited %v, beside %d paths", waited, many), func(t *testing.T) {
				bubble(t, func(t *testing.T) { shortBesideLong(t, waited, many) })
			})
		}
	}
}

func shortBesideLong(t *testing.T, waited bool, many int) {
	const ttl = 3 * time.Second
	var mu sync.Mutex
	var held []wire.LockInfo
	token := int64(0)
	f := newFake(t)
	c, p := f.telling()
	p.lists = true
	go p.serve(func(a *asked) *wire.Result {
		mu.Lock()
		defer mu.Unlock()
		res, late := granted(a.req), time.Millisecond
		switch a.req.Op {
		case wire.OpAcquire:
			if waited && len(held) > 0 {
				late = 1500 * time.Millisecond // the grant of a wait
			}
			token++
			for _, l := range a.req.Locks {
				held = append(held, wire.LockInfo{
					Owner: "me", Path: l.Path, Mode: l.Mode, HasFence: l.Mode == Write, Fence: token,
					SinceUnixMillis: 1 + time.Now().UnixMilli(),
				})
			}
			res = &wire.Result{Token: token, Namespace: "a:/b"}
		case wire.OpListLocks:
			at, _ := strconv.Atoi(string(a.req.Cursor))
			end := min(at+int(a.req.Page), len(held))
			res = &wire.Result{Flag: true, Done: end == len(held), List: &wire.List{Infos: slices.Clone(held[at:end])}}
			if !res.Done {
				res.List.Cursor = []byte(strconv.Itoa(end))
			}
		}
		time.AfterFunc(late, func() { p.reply(a.id, a.req.Op, res) })
		return nil
	})
	paths := make([]Path, many)
	for i := range paths {
		paths[i].Path = fmt.Sprintf("a:/b/c%03d", i)
	}
	long, err := c.LockAll(t.Context(), paths, Owner("me"), TTL(time.Hour))
	mustLock(t, long, err)
	pass(5 * time.Second)
	short, err := c.RLock(t.Context(), "a:/b/z", Owner("me"), TTL(ttl))
	mustLock(t, short, err)
	pass(5 * time.Second)
	must(t, short.Err())
	mu.Lock()
	held = held[:many] // another client of "me" gives it back
	mu.Unlock()
	gone := time.Now()
	for short.Err() == nil && time.Since(gone) < 2*time.Hour {
		pass(50 * time.Millisecond)
	}
	must(t, long.Err())
	if d := time.Since(gone); d > ttl+time.Second {
		t.Errorf("a lock with a TTL of %v is believed in for %v after it was given back", ttl, d)
	} else {
		t.Logf("lost after %v", d)
	}
}
