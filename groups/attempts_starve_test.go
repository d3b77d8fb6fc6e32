package groups

import (
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// slowWay has each call come so late behind its claim, as where the way to a log takes that long.
type slowWay struct {
	goroutines
	d time.Duration
}

func (h *slowWay) wait(d time.Duration, on ...<-chan struct{}) int {
	i := h.goroutines.wait(d, on...)
	var pcs [16]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(1, pcs[:])])
	for f, more := frames.Next(); more; f, more = frames.Next() {
		if strings.HasSuffix(f.Function, "(*steps).claim") {
			time.Sleep(h.d)
			break
		}
	}
	return i
}

// TestAskersLetEachOtherThrough: a request takes long on its way. Several sessions ask it with one key, and again with
// it when they are told that the outcome is not known. Each overtakes others, but not for ever: one is answered OK.
func TestAskersLetEachOtherThrough(t *testing.T) {
	for name, of := range map[string]struct {
		takes time.Duration
		many  int
	}{"two": {700 * time.Millisecond, 2}, "eight": {200 * time.Millisecond, 8}} {
		t.Run(name, func(t *testing.T) {
			const length = 30 * time.Second
			k := newKeyedOver(t, wire.OpReleaseAll, func(c *Config) {
				briefKeys(c)
				c.seams.limits = nil // keys are kept for 300 s
				c.RequestTimeout = 3 * time.Second
				c.seams.tasks = &slowWay{d: of.takes}
			})
			began := time.Now()
			answered := make(chan bool, of.many)
			for i := range of.many {
				go func() {
					time.Sleep(time.Duration(i) * of.takes / time.Duration(of.many))
					ok := false
					for !ok && time.Since(began) < length {
						ok = k.ask().get(t, "one of them").Code == wire.OK
					}
					answered <- ok
				}()
			}
			for range of.many {
				if !<-answered {
					t.Errorf("one is not answered OK in %v, of a request that takes %v", length, of.takes)
				}
			}
		})
	}
}
