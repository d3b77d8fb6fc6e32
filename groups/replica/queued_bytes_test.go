package replica

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/groups/rows"
	"github.com/pathlockd/pathlockd/wire"
)

// TestQueuedBytes: what waits takes no more state than as many of the longest paths as may be
// waited for, whether it waits for paths, says that it holds them or is to release them.
func TestQueuedBytes(t *testing.T) {
	long := strings.Repeat("y", 4000)
	for name, add := range map[string]func(req *wire.Request, path string){
		"waits": func(req *wire.Request, path string) { req.Locks = append(req.Locks, wire.LockRequest{Path: path}) },
		"holds": func(req *wire.Request, path string) {
			req.Locks = append(req.Locks, wire.LockRequest{Path: path, State: wire.StateHeld})
		},
		"releases": func(req *wire.Request, path string) {
			req.Releases = append(req.Releases, wire.ReleaseRequest{Path: path})
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := DefaultLimits()
			l.MaxQueued = 256
			b := newBare(t, rows.FirstLog, l)
			b.one(bareAsk(bareSession(1), 1, write("holder", "h:/a/x", time.Hour)))
			queued, refused := 0, 0
			for i := range 64 {
				owner, s := fmt.Sprint("w", i%5), bareSession(10+i)
				req := waiting(write(owner, "h:/a/x", time.Hour))
				for j := range 15 {
					path := fmt.Sprintf("h:/a/%s%d", long, j)
					if name == "holds" && i < 5 {
						b.one(bareAsk(s, uint64(1+j), write(owner, path+owner, time.Hour)))
					}
					if name == "holds" {
						path += owner
					}
					add(req, path)
				}
				switch res := b.one(bareAsk(s, 100, req)); {
				case res.Code == wire.OK && res.Status == wire.StatusQueued:
					queued++
				case res.Code == wire.ResourceExhausted && strings.Contains(res.Message, "max_queued_paths_per_group"):
					refused++
				default:
					t.Fatalf("wait %d is answered %+v", i, res)
				}
			}
			size := 0
			err := b.m.View(0).Rows(0, func(key, val []byte) error {
				size += len(key) + len(val)
				return nil
			})
			bound := 2 * l.MaxQueued * wire.MaxPathBytes
			if err != nil || size > bound || queued < 10 || refused < 10 {
				t.Errorf("%d waits, of which %d were refused, take %d bytes, at most %d are to: %v",
					queued+refused, refused, size, bound, err)
			}
		})
	}
}

// TestOrdinaryReleasesCostNothing: what a waiter is to release, or holds, takes no room in the
// queue as long as it is little.
func TestOrdinaryReleasesCostNothing(t *testing.T) {
	l := DefaultLimits()
	l.MaxQueued = 4
	b := newBare(t, rows.FirstLog, l)
	b.one(bareAsk(bareSession(1), 1, write("holder", "h:/a/x", time.Hour)))
	req := waiting(write("o", "h:/a/x", time.Hour))
	for i := range 40 {
		req.Releases = append(req.Releases, wire.ReleaseRequest{Path: fmt.Sprintf("h:/a/projects/%d/settings", i)})
	}
	if res := b.one(bareAsk(bareSession(2), 1, req)); res.Code != wire.OK || res.Status != wire.StatusQueued {
		t.Errorf("it is answered %+v", res)
	}
}
