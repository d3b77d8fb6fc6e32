package groups

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestDomainThatEndsInAColon: the path h:/a: is a fine one, whose handler is h, and with one segment a namespace of its
// own, as h:/a is. What is asked of the domain h:/a: is not about h:/a.
func TestDomainThatEndsInAColon(t *testing.T) {
	r := newRig(t, nil)
	c := r.session()
	t.Run("release_all", func(t *testing.T) {
		c.must(write("o", "h:/a/x", time.Hour))
		if res := c.ask(&wire.Request{Op: wire.OpReleaseAll, Owner: "o",
			Domains: []string{"h:/a:"}}); res.Code != wire.OK {
			t.Fatalf("%+v", res)
		}
		if owner := c.inspect("h:/a/x").Owner; owner != "o" {
			t.Errorf("release_all of the domain h:/a: took h:/a/x away: held by %q", owner)
		}
	})
	t.Run("renew", func(t *testing.T) {
		c.must(write("q", "h:/a/y", time.Hour))
		res := c.ask(&wire.Request{Op: wire.OpRenew, Owner: "q", TTLMillis: 60_000, Domains: []string{"h:/a:"}})
		if res.Code != wire.OK || res.Status != wire.RenewLost {
			t.Errorf("renew of the domain h:/a:, where q holds nothing, is answered %v %v", res.Code, res.Status)
		}
	})
	t.Run("renew of two", func(t *testing.T) {
		c.must(write("q", "h:/c/y", time.Hour))
		res := c.ask(&wire.Request{Op: wire.OpRenew, Owner: "q", TTLMillis: 60_000, Domains: []string{"h:/a:", "h:/c"}})
		if res.Code != wire.OK || res.Status != wire.RenewLost {
			t.Errorf("renew of the domains h:/a: (q holds nothing there) and h:/c is answered %v %v",
				res.Code, res.Status)
		}
	})
	t.Run("is_owner_alive", func(t *testing.T) {
		res := c.ask(&wire.Request{Op: wire.OpIsOwnerAlive, Owner: "q", Domains: []string{"h:/a:"}})
		if res.Code != wire.OK || res.Flag {
			t.Errorf("q is alive in h:/a:, where it holds nothing: %v %v", res.Code, res.Flag)
		}
	})
	t.Run("its own namespace", func(t *testing.T) {
		c.must(write("s", "h:/b:/x", time.Hour))
		if res := c.ask(&wire.Request{Op: wire.OpReleaseAll, Owner: "s",
			Domains: []string{"h:/b:"}}); res.Code != wire.OK {
			t.Fatalf("%+v", res)
		}
		if owner := c.inspect("h:/b:/x").Owner; owner != "" {
			t.Errorf("held by %q", owner)
		}
	})
}
