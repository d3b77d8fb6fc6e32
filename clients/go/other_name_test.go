package pathlockd

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestRenewsItselfUnderALikeName: as TestRenewsItselfElsewhere, and the name of that namespace begins as the lock's
// does, which says nothing: "by whole segments (h:/a holds h:/a/b, not h:/ab)" (contract, section 3).
func TestRenewsItselfUnderALikeName(t *testing.T) {
	for _, elsewhere := range []string{"a:/bc", "a:/b-2/d"} {
		t.Run(elsewhere, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFake(t)
				c, p := f.telling()
				go p.serve(func(a *asked) *wire.Result {
					time.AfterFunc(200*time.Millisecond, func() { p.ok(a) })
					return nil
				})
				l, err := c.Lock(t.Context(), "a:/b/c", TTL(30*time.Second), Owner("me"))
				mustLock(t, l, err)
				_, err = c.Renew(t.Context(), "me", 100*time.Millisecond, "", 0, elsewhere)
				must(t, err)
				must(t, l.Err())
			})
		})
	}
}

// TestReaches: what a request names, and the namespaces that it may be about.
func TestReaches(t *testing.T) {
	for _, tc := range []struct {
		of, namespace string
		want          bool
	}{
		{"", "a:/b", true},
		{"a:/b", "a:/b", true},
		{"a:/b/c/d", "a:/b", true},
		{"a:/bc", "a:/b", false},
		{"a:/b", "a:/bc", false},
		{"a:/b", "a:/b/c", false},
		{"a", "a:/b", true},
		{"a", "a:/", true},
		{"a", "a", true},
		{"a:/", "a:/", true},
		{"a:/", "a", true},
		{"a:/", "a:/b", false},
		{"a:/b", "a:/", true},
		{"a:/b/c", "a", true},
		{"ab:/c", "a", false},
		{"ab", "a", false},
		{"ab", "a:/b", false},
		{"a", "ab:/c", false},
	} {
		if got := reaches(tc.of, tc.namespace); got != tc.want {
			t.Errorf("what is about %q reaches %q: %v", tc.of, tc.namespace, got)
		}
	}
}
