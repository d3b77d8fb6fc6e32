package pathlockd

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestARepeatThatTheLogHasForgotten: a release is carried out, but its answer does not come for 29 s, as the node that
// took it was cut off from the leader meanwhile; pings are answered. Then there is no way to any server for 42 s. A
// session is remembered for 60 s after its last request in a log (PROTOCOL.md section 3), so the log has forgotten it
// by then: a repeat would be carried out anew.
func TestARepeatThatTheLogHasForgotten(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p, way := onLine(f)
		done := make(chan error, 1)
		go func() {
			done <- c.Release(context.Background(), "me", []wire.ReleaseRequest{{Path: "a:/n/p"}}, false, "")
		}()
		first := p.want(wire.OpRelease)
		session := string(p.hello.Session)
		go p.serve(func(a *asked) *wire.Result {
			if a.req.Op == wire.OpPing {
				return granted(a.req)
			}
			return nil
		})
		pass(29 * time.Second)
		way.cut(errUnreachable)
		pass(42 * time.Second)
		way.mend()
		p = f.open()
		go p.serve(func(a *asked) *wire.Result {
			if a.req.Op == wire.OpRelease && a.id == first.id && string(p.hello.Session) == session {
				t.Errorf("asked again after %v under its id: it is carried out twice", a.at.Sub(first.at))
			}
			return granted(a.req)
		})
		pass(5 * time.Second)
		if err := <-done; !errors.Is(err, ErrOutcomeUnknown) {
			t.Errorf("Release: %v", err)
		}
	})
}
