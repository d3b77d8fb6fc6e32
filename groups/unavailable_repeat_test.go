package groups

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestUnavailableRepeat: an acquire was carried out on the first connection, its answer was lost, and the client asks
// it again while the log takes nothing. UNAVAILABLE says nothing of the first time then: asked once more under its id,
// it is answered as it was.
func TestUnavailableRepeat(t *testing.T) {
	t.Parallel()
	for how, meets := range map[string]func(h *halted, c *caller) (over func()){
		"nobody leads": func(h *halted, _ *caller) func() {
			h.l.pauses(true)
			return func() { h.l.pauses(false) }
		},
		"behind a move": func(h *halted, c *caller) func() {
			undo := h.frozen("h:/a/b", "h:/a")
			c.start(h.next.Load()-1, write("o", "h:/a/y", time.Hour)) // lost with the connection
			h.held(1)
			return undo
		},
	} {
		t.Run(how, func(t *testing.T) {
			h := newHalted(t, 5*time.Second)
			h.l.pauses(false)
			c := h.session()
			h.next.Add(1) // the id of what is lost
			id := h.next.Add(1)
			req := write("o", h.in, time.Hour)
			token := c.start(id, req).get(t, "the acquire").Token // and its answer does not come to the client
			first := c.session
			c.session = &wire.Session{ID: first.ID, Epoch: 2, Window: first.Window}
			h.node.Closed(first, false, true)
			over := meets(h, c)
			res := c.start(id, write("o", h.in, time.Hour)).get(t, "the repeat")
			if res.Code != wire.Unavailable {
				t.Fatalf("the repeat is answered %+v", res)
			}
			over()
			res = c.start(id, write("o", h.in, time.Hour)).get(t, "the next repeat")
			if res.Code != wire.OK || res.Status != wire.StatusOK || res.Token != token {
				t.Errorf("the next repeat is answered %+v, and what was asked first took token %d", res, token)
			}
		})
	}
}
