package engine

import "testing"

// TestInDomain: a handler and its colon take in all its namespaces, anything else itself alone: also what ends in a
// later colon.
func TestInDomain(t *testing.T) {
	for _, of := range []struct {
		ns, domain string
		in         bool
	}{
		{"h:/a", "h:", true}, {"h", "h:", true}, {"h:", "h:", true}, {"h:/a:", "h:", true}, {"g:/a", "h:", false},
		{"hh", "h:", false},
		{"h:/a", "h:/a", true}, {"h:/a/b", "h:/a", false}, {"h:/a:", "h:/a:", true},
		{"h:/a", "h:/a:", false}, {"h:/a:b", "h:/a:", false}, {"h:/a:/b", "h:/a:", false},
	} {
		if inDomain(of.ns, of.domain) != of.in {
			t.Errorf("%q in %q: %v", of.ns, of.domain, !of.in)
		}
	}
}
