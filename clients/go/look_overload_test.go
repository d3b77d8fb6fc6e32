package pathlockd

import (
	"context"
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestALookAfterAServerHadTooMuchToDo: a server takes nothing but pings, as it would hold too much memory
// (RESOURCE_EXHAUSTED of loop.affords), while the keeper asks what an owner holds, which is after 21 s: not for as
// long as the pauses take that come before pages of one. The answer to that fits into one frame, and the server
// takes everything from then on. So the lock is kept, and the question costs what it cost before.
func TestALookAfterAServerHadTooMuchToDo(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const rtt, ttl, begins, ends = 40 * time.Millisecond, 30 * time.Second, 19 * time.Second,
			22500 * time.Millisecond
		f := newFake(t)
		c, p := f.client(WithGrace(longGrace))
		p.lists = true
		paths := make([]Path, wire.MaxPaths)
		infos := make([]wire.LockInfo, len(paths))
		for i := range paths {
			paths[i].Path = fmt.Sprintf("a:/b/%04d", i)
			infos[i] = wire.LockInfo{Owner: "me", Path: paths[i].Path, Mode: wire.ModeWrite, HasFence: true, Fence: 7,
				SinceUnixMillis: 1}
		}
		began := time.Now()
		pages := make(map[uint32]int) // of the questions after that
		answer := func(a *asked) *wire.Result {
			at := a.at.Sub(began)
			switch {
			case a.req.Op == wire.OpPing:
				return &wire.Result{}
			case at >= begins && at < ends:
				return &wire.Result{Code: wire.ResourceExhausted,
					Message: "the server would hold too many bytes of requests that are not answered yet"}
			case a.req.Op == wire.OpListLocks:
				if at >= ends {
					pages[a.req.Page]++
				}
				from, to := 0, len(infos)
				if len(a.req.Cursor) > 0 {
					from = int(binary.BigEndian.Uint32(a.req.Cursor))
				}
				if a.req.Page > 0 {
					to = min(to, from+int(a.req.Page))
				}
				res := &wire.Result{Flag: true, Done: to == len(infos), List: &wire.List{Infos: infos[from:to]}}
				if !res.Done {
					res.List.Cursor = binary.BigEndian.AppendUint32(nil, uint32(to))
				}
				return res
			}
			return granted(a.req)
		}
		go func() {
			p.SetReadDeadline(time.Time{})
			for {
				a, err := p.read()
				if err != nil {
					return
				}
				res := answer(a)
				time.AfterFunc(rtt, func() { p.reply(a.id, a.req.Op, res) })
			}
		}()
		l, err := c.LockAll(context.Background(), paths, Owner("me"), TTL(ttl))
		must(t, err)
		for time.Since(began) < 4*ttl {
			pass(100 * time.Millisecond)
			if err := l.Err(); err != nil {
				t.Errorf("after %v: %v; the server has taken everything since %v, and a question for what is "+
					"held takes %v. "+
					"So many were asked since, by their page: %v", time.Since(began), err, ends, rtt, pages)
				return
			}
		}
		questions := 0
		for _, n := range pages {
			questions += n
		}
		if pages[1] > 0 || questions > 32 {
			t.Errorf("questions since, by their page: %v", pages)
		}
	})
}
