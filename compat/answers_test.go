package compat

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/pathlockd/pathlockd/internal/faketime"
)

// TestGrantsAreForgotten: what a connection was granted can be taken back for 10 s and no longer, whatever comes after
// it: of one that idles nothing is kept. Nor is more kept than the limits say, which count what the paths take.
func TestGrantsAreForgotten(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		a, undone := new(answers), 0
		grant := func(stream uint32, bytes int) {
			a.begin(stream).granted(bytes, func() { undone++ })
		}
		kept := func() int {
			a.mu.Lock()
			defer a.mu.Unlock()
			if len(a.byStream) != len(a.given) {
				t.Fatalf("%d streams, %d grants", len(a.byStream), len(a.given))
			}
			return len(a.given)
		}
		for round := range uint32(2) { // the second begins when nothing is kept
			grant(10*round+1, 100)
			time.Sleep(followFor / 2)
			grant(10*round+3, 100)
			if a.cancelled(10*round + 1); undone != int(2*round)+1 {
				t.Fatal("a grant within its time was not taken back")
			}
			time.Sleep(followFor - time.Millisecond)
			a.cancelled(10*round + 3)
			if undone != int(2*round)+2 {
				t.Fatal("a grant within its time was not taken back")
			}
			grant(10*round+5, 100)
			time.Sleep(followFor + time.Millisecond)
			synctest.Wait()
			if kept() != 0 || a.bytes != 0 || a.ticking {
				t.Fatalf("after its time %d grants are kept, of %d bytes", kept(), a.bytes)
			}
			if a.cancelled(10*round + 5); undone != int(2*round)+2 {
				t.Fatal("a grant was taken back after its time")
			}
		}
		for i := range uint32(2 * answersKept) {
			grant(100+i, pathBytesKept/answersKept)
		}
		if kept() > answersKept || a.bytes > pathBytesKept {
			t.Errorf("%d grants of %d bytes are kept", kept(), a.bytes)
		}
		if grant(9999, pathBytesKept+1); kept() != 0 || a.bytes != 0 {
			t.Errorf("with one that is over the limit %d grants of %d bytes are kept", kept(), a.bytes)
		}
		time.Sleep(followFor)
	})
}
