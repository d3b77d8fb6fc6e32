package groups

import (
	"fmt"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestAdv2ZeroSession: a client may name its session with sixteen zero bytes. It and seventeen
// other sessions tie the lease of one owner; no replica may panic.
func TestAdv2ZeroSession(t *testing.T) {
	hello := &wire.Request{Op: wire.OpHello, Hello: &wire.Hello{MinVersion: 1, MaxVersion: 1, Session: make([]byte, wire.SessionBytes)}}
	if hello.Validate() != nil {
		t.Skip("no session may be named so")
	}
	b := newBare(t, firstLogShard, defaultLimits())
	defer func() {
		if p := recover(); p != nil {
			t.Errorf("applying an entry panics, on every replica and at each start: %v", p)
		}
	}()
	for i := range 18 {
		s := bareSession(i)
		if i == 2 {
			s.ID = [wire.SessionBytes]byte{}
		}
		a := bareAsk(s, 1, write("svc", fmt.Sprint("h:/a/x", i), time.Hour))
		a.Bound, a.Grace = true, 1000
		if res := b.one(a); res.Code != wire.OK || res.Status != wire.StatusOK {
			t.Fatalf("session %d: %+v", i, res)
		}
	}
	zero := &wire.Session{Epoch: 1, Window: 4}
	for _, s := range []*wire.Session{zero, bareSession(0), bareSession(17)} {
		b.do(1, bareAsk(s, 0, &wire.Request{Op: wire.OpDetach}))
	}
	b.one(bareAsk(bareSession(5), 2, &wire.Request{Op: wire.OpReleaseAll, Owner: "svc"}))
	b.reload()
}
