package cli

import (
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/pathlockd/pathlockd/loop"
	"github.com/pathlockd/pathlockd/wire"
)

// unlisted is a server that does what it is asked, and never comes to an end with telling what an owner
// holds.
type unlisted struct {
	wire.Handler

	mu    sync.Mutex
	did   []wire.Op
	lists []*wire.Call
}

func (u *unlisted) Serve(calls []*wire.Call) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, c := range calls {
		if c.Op == wire.OpListLocks {
			u.lists = append(u.lists, c)
			continue
		}
		u.did = append(u.did, c.Op)
		u.answer(c)
	}
}

func (u *unlisted) answer(c *wire.Call) {
	to := c.To
	c.Res = wire.Result{}
	to.Reply(c)
	to.Flush()
}

func (u *unlisted) Closed(*wire.Session, bool, bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, c := range u.lists {
		u.answer(c)
	}
	u.lists = nil
}

func (u *unlisted) Tell([wire.SessionBytes]byte, func(*wire.LeaseEvent)) func() { return func() {} }

func (u *unlisted) Topology(func(*wire.Topology)) (*wire.Topology, func()) {
	return new(wire.Topology), func() {}
}

// TestWhatCannotBeToldIsDone: who is killed holds nothing any more, however much that was. What it was is for
// people, and no condition; the same goes for what is given back.
func TestWhatCannotBeToldIsDone(t *testing.T) {
	for command, does := range map[string]wire.Op{
		"kill big":                        wire.OpForceRelease,
		"revoke big":                      wire.OpRequestRevoke,
		"release --all --owner big":       wire.OpReleaseAll,
		"release t:/a/x --owner big":      wire.OpRelease,
		"kill big --json":                 wire.OpForceRelease,
		"release t:/a --owner big --json": wire.OpRelease,
	} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			u := new(unlisted)
			srv, err := loop.New(u, loop.Options{Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
			if err != nil {
				t.Fatal(err)
			}
			defer srv.Close()
			addr, err := srv.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			c := &console{t, []string{"PATHLOCK_ADDR=" + addr.String()}}
			r := c.run(ExitOK, append(strings.Fields(command), "--timeout", "3s")...)
			told := notTold
			if strings.Contains(command, "--json") {
				told = `"more":true`
			}
			if !strings.Contains(r.stdout, told) || strings.Contains(r.stdout, "nothing") {
				t.Errorf("says %q", r.stdout)
			}
			u.mu.Lock()
			defer u.mu.Unlock()
			if !slices.Contains(u.did, does) {
				t.Errorf("did %v", u.did)
			}
		})
	}
}
