package pathlockd

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestPushesAreNoAnswers: a proxy swallows what goes to the server from some time on; what the server pushes comes:
// of a subscription it tells now and then how far its log is, though nothing happened. "WithKeepAlive sets how long
// the server may answer nothing before the client pings it. After as long again without an answer the connection is
// given up and made anew." The client holds nothing.
func TestPushesAreNoAnswers(t *testing.T) {
	whole := func(p *peer, frame []byte) { p.send(frame) }
	parts := func(p *peer, frame []byte) { p.send(frame[:9]); p.send(frame[9:]) }
	for name, push := range map[string]func(*peer, []byte){"nothing comes": nil, "pushes come": whole,
		"in parts": parts} {
		t.Run(name, func(t *testing.T) { pushesAlone(t, push) })
	}
}

func pushesAlone(t *testing.T, push func(p *peer, frame []byte)) {
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
					if push == nil {
						continue
					}
					far := &wire.Progress{Subscription: 1, Cursor: []wire.Position{{Log: 2, Index: 10}}}
					push(p, wire.AppendProgress(nil, wire.PushProgress, far))
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
