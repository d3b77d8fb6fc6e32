package pathlockd

import (
	"context"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestReleasesItself: a program gives back by a request of its own what a lock of the client holds for it. From then on
// anybody may take the path.
func TestReleasesItself(t *testing.T) {
	ctx := context.Background()
	const path = "a:/b/c"
	paths := []wire.ReleaseRequest{{Path: path}}
	later := func(c *Client, req *wire.Request) error {
		done := make(chan error, 1)
		c.Go(req, func(_ *wire.Result, err error) { done <- err })
		return <-done
	}
	for name, tc := range map[string]struct {
		give  func(c *Client) error
		stays bool
	}{
		"the path": {give: func(c *Client) error { return c.Release(ctx, "me", paths, false, "") }},
		"the path, by Go": {give: func(c *Client) error {
			return later(c, &wire.Request{Op: wire.OpRelease, Owner: "me", Releases: paths})
		}},
		"all":                  {give: func(c *Client) error { return c.ReleaseAll(ctx, "me", false, "") }},
		"all of the namespace": {give: func(c *Client) error { return c.ReleaseAll(ctx, "me", false, "", "a:/b") }},
		"by force":             {give: func(c *Client) error { return c.ForceRelease(ctx, "me", "") }},
		"with an acquire": {give: func(c *Client) error {
			_, err := c.Acquire(ctx, &wire.Request{
				Owner: "me", TTLMillis: 1000, Locks: []wire.LockRequest{{Path: "a:/b/d"}}, Releases: paths,
			})
			return err
		}},
		"another path": {stays: true, give: func(c *Client) error {
			return c.Release(ctx, "me", []wire.ReleaseRequest{{Path: "a:/b/d"}}, false, "")
		}},
		"the read of it": {stays: true, give: func(c *Client) error {
			return c.Release(ctx, "me", []wire.ReleaseRequest{{Path: path, Mode: Read}}, false, "")
		}},
		"all of another namespace": {stays: true, give: func(c *Client) error {
			return c.ReleaseAll(ctx, "me", false, "", "a:/d")
		}},
		"another owner's": {stays: true, give: func(c *Client) error { return c.ReleaseAll(ctx, "you", false, "") }},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFake(t)
				c, p := f.telling()
				l, _ := taking(t, c, p, Owner("me"))
				go p.serve(func(a *asked) *wire.Result {
					if a.req.Op == wire.OpRenew {
						return nil
					}
					return granted(a.req)
				})
				pass(time.Minute)
				must(t, l.Err())
				must(t, tc.give(c))
				pass(askedWithin)
				switch err := l.Err(); {
				case tc.stays:
					must(t, err)
				case err == nil:
					t.Errorf("the program gave it back, and it counts as held for %v", time.Until(l.Deadline()))
				}
			})
		})
	}
}
