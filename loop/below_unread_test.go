package loop_test

import (
	"net"
	"testing"

	"github.com/pathlockd/pathlockd/loop"
	"github.com/pathlockd/pathlockd/wire"
)

// TestReadOnWhileThereIsRoom: a client leaves unread a little more than its socket holds, far less than
// unread_bytes, and asks for something. It is carried out: the server reads no further request only while
// more than unread_bytes are unread (PROTOCOL.md section 3, flow control), so a renewal that is sent
// before the answers are read is in time.
func TestReadOnWhileThereIsRoom(t *testing.T) {
	s := serve(t, loop.Options{})
	for _, addr := range []net.Addr{s.unix, s.tcp} {
		t.Run(addr.Network(), func(t *testing.T) {
			owner := named("room")
			look, p := join(t, addr), join(t, addr)
			var burst []byte
			for range 500 {
				burst = wire.AppendRequest(burst, 1<<50, ping())
			}
			for s.Lanes() == 0 {
				p.send(burst)
				look.must(ping())
			}
			p.start(write(owner, owner+":/n/x"))
			eventually(t, "the lock is taken", func() bool { by, _ := holder(look, owner+":/n/x"); return by == owner })
			p.hangUp()
			eventually(t, "the connection is gone", func() bool { return s.Lanes() == 0 })
		})
	}
}
