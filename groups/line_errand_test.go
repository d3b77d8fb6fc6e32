package groups

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestErrandsOfShortPaths: an acquire of a path with fewer segments than namespaces are made of says so on its way to
// the log, by the routes that it was resolved with. The log may have a policy for exactly that path by now; what was
// resolved before that is refused all the same.
func TestErrandsOfShortPaths(t *testing.T) {
	r := wire.NewRoutes(1, 2, []string{"h:/chosen", "h:/deep/chosen/below"})
	for path, want := range map[string]errand{
		"h:/short":               {"h:/short", len("h:/short") + 1},
		"h:/chosen":              {"h:/chosen", len("h:/chosen")},
		"h:/chosen/x":            {"h:/chosen", len("h:/chosen")},
		"h:/long/enough":         {"h:/long/enough", len("h:/long/enough")},
		"h:/long/enough/x":       {"h:/long/enough", len("h:/long/enough")},
		"h:/deep/chosen/below/x": {"h:/deep/chosen/below", len("h:/deep/chosen/below")},
	} {
		got, one, err := errandOf(r, write("o", path, time.Hour))
		if got != want || !one || err != nil {
			t.Errorf("%s: %+v %v %v, want %+v", path, got, one, err, want)
		}
	}
}
