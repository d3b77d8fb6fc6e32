package groups

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestAdv8UnavailableRepeat: an acquire was carried out on the first connection, its answer was lost, and the client asks it again
// under its id on the next one while the log takes nothing: it is answered UNAVAILABLE, "nothing was done", and the lock is held.
// PROTOCOL codes: "14 UNAVAILABLE: surely not done", 4 is for "the outcome is not known: repeat with the same id"; contract.md
// section 2: "UNAVAILABLE is answered only when the request surely was not applied: clients repeat it without a key".
func TestAdv8UnavailableRepeat(t *testing.T) {
	for how, meets := range map[string]func(h *halted, c *caller) (over func()){
		"nobody leads": func(h *halted, _ *caller) func() {
			h.proposes(false)
			return func() { h.proposes(true) }
		},
		"behind a move": func(h *halted, c *caller) func() {
			undo := h.frozen("h:/a/b", "h:/a")
			c.start(h.next.Load()-1, write("o", "h:/a/y", time.Hour)) // lost with the connection
			h.held(1)
			return undo
		},
	} {
		t.Run(how, func(t *testing.T) {
			h := newHalted(t, 2*time.Second)
			h.proposes(true)
			c := h.session()
			h.next.Add(1) // the id of what is lost
			id := h.next.Add(1)
			req := write("o", h.in, time.Hour)
			h.took(c.start(id, req)) // and its answer does not come to the client
			first := c.session
			c.session = &wire.Session{ID: first.ID, Epoch: 2, Window: first.Window}
			h.node.Closed(first, false, true)
			over := meets(h, c)
			res := c.start(id, write("o", h.in, time.Hour)).get(t, "the repeat")
			over()
			owner := h.session().inspect(h.in).Owner
			if res.Code == wire.Unavailable && owner == "o" {
				t.Errorf("the repeat is answered %v %q, and what was asked first holds the lock", res.Code, res.Message)
			}
		})
	}
}
