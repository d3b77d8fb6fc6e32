package near

import (
	"strings"
	"testing"
)

func TestName(t *testing.T) {
	known := []string{"ownerId", "domains", "queue_ttl", "requests"}
	for name, want := range map[string]string{
		"domain": "domains", "owner": "ownerId", "OwnerId": "ownerId", "ttl": "", "zzzzzz": "", "": "",
		"requ":     "requests",
		"reqeusts": "requests", strings.Repeat("requests", 1<<17): "",
	} {
		if got := Name(name, known); got != want {
			t.Errorf("%.20q: %q, want %q", name, got, want)
		}
	}
}
