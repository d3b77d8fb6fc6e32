package pathlockd

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestPushesInPartsAreNoAnswers: a proxy swallows what goes to the server from some time on; what the server pushes
// comes: of a subscription it tells now and then how far its log is, though nothing happened. "WithKeepAlive sets how
// long the server may answer nothing before the client pings it. After as long again without an answer the connection
// is given up and made anew." The client holds nothing.
func TestPushesInPartsAreNoAnswers(t *testing.T) {
	for name, pushes := range map[string]bool{"nothing comes": false, "pushes come": true} {
		t.Run(name, func(t *testing.T) { pushesInParts(t, pushes) })
	}
}

func pushesInParts(t *testing.T, pushes bool) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p := f.client()
		p.serveAll()
		sub, err := c.Subscribe(t.Context(), "me")
		must(t, err)
		defer sub.Close()
		p.SetReadDeadline(time.Unix(1, 0)) // nothing is read from here on but by who swallows it
		pass(time.Millisecond)
		p.SetReadDeadline(time.Time{})
		over := t.Context().Done()
		go func() {
			b := make([]byte, 4096)
			for {
				if _, err := p.Read(b); err != nil {
					return
				}
			}
		}()
		go func() {
			for {
				select {
				case <-over:
					return
				case <-time.After(4 * time.Second):
					if !pushes {
						continue
					}
					b := wire.AppendProgress(nil, wire.PushProgress, &wire.Progress{Subscription: 1, Cursor: []wire.Position{{Log: 2, Index: 10}}})
					p.send(b[:9])
					p.send(b[9:])
				}
			}
		}()
		came := make(chan error, 1)
		go func() { came <- c.Ping(t.Context()) }()
		f.serveNext(func(a *asked) *wire.Result { return granted(a.req) })
		select {
		case err := <-came:
			must(t, err)
		case <-time.After(10 * time.Minute):
			t.Error("after ten minutes without an answer the connection is still the client's, and what it asks waits")
		}
	})
}
