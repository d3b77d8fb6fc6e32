package groups

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestPagesOfNamesThatBeginAlike: the pages of an owner's locks tell each lock also where the name of
// a namespace begins as that of another one does, and goes on with what comes before a slash or colon.
func TestPagesOfNamesThatBeginAlike(t *testing.T) {
	for name, of := range map[string]struct {
		segments int
		paths    []string
	}{
		"segments": {1, []string{"h:/job-2/x", "h:/job/x"}}, // in order: '-' comes before '/'
		"handlers": {0, []string{"db2:/x", "db:/x"}},        // and '2' before ':'
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, func(c *Config) { c.Segments = of.segments })
			c := r.session()
			for _, path := range of.paths {
				c.must(write("a", path, time.Hour))
			}
			if all := c.must(&wire.Request{Op: wire.OpListLocks, Owner: "a"}).List.Infos; len(all) != 2 ||
				all[0].Path != of.paths[0] {
				t.Fatalf("in one answer: %+v", all)
			}
			var got []string
			req := &wire.Request{Op: wire.OpListLocks, Owner: "a", Page: 1}
			for done := false; !done; {
				res := c.must(req)
				for _, l := range res.List.Infos {
					got = append(got, l.Path)
				}
				done, req.Cursor = res.Done, res.List.Cursor
			}
			if len(got) != 2 || got[0] != of.paths[0] || got[1] != of.paths[1] {
				t.Errorf("the owner holds %q, the pages of one lock tell %q", of.paths, got)
			}
		})
	}
}
