package loop_test

import (
	"strings"
	"testing"

	"github.com/pathlockd/pathlockd/loop"
	"github.com/pathlockd/pathlockd/wire"
)

// TestPushesRead: a client that reads what is pushed to it, and never leaves more than a part of what it may unread,
// is not closed for it, however much it was all together.
func TestPushesRead(t *testing.T) {
	const most = 4 << 20 // as is told to clients: PROTOCOL.md, Flow control
	s := serve(t, loop.Options{})
	p, other := join(t, s.unix), join(t, s.unix)
	owner := named("read") + strings.Repeat("o", 1000)
	p.must(subscribe(owner))
	sent, read := 0, 0
	revoke := func(n int) {
		for range n / 100 {
			var reqs []*wire.Request
			for range 100 {
				reqs = append(reqs, &wire.Request{Op: wire.OpRequestRevoke, Owner: owner})
			}
			for _, id := range other.start(reqs...) {
				other.reply(id)
			}
		}
		sent += n
	}
	revoke(1000) // 1 MiB: more than the socket takes, far less than what may be unread
	eventually(t, "it leaves something unread", func() bool { return s.Lanes() == 1 })
	size := 0
	for round := 0; sent < 8000; round++ {
		revoke(200)
		for range 200 {
			payload, err := p.frame()
			if err != nil {
				t.Fatalf("after %d of %d events, with %d bytes unread (%d may be): %v", read, sent,
					(sent-read)*size, most, err)
			}
			if err := p.file(payload); err != nil {
				t.Fatal(err)
			}
			if bye := p.goodbye(); bye != nil {
				t.Fatalf("after %d of %d events, with %d bytes unread at most (%d may be): %v", read, sent,
					(sent-read)*size, most, bye)
			}
			if p.pushes[len(p.pushes)-1].kind == wire.PushEvent {
				read++
				size = len(payload) + 4
			}
			p.pushes = p.pushes[:0]
		}
	}
	t.Logf("%d events of %d bytes, %d read", sent, size, read)
}
