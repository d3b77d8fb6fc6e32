package mesh

import (
	"errors"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/groups/link"
)

func pair(t *testing.T, w *link.NetworkFaults) (a, b *end) {
	faults := func(c *Config) { c.Faults = w }
	return open(t, 1, faults), open(t, 2, faults)
}

// TestDelay: a delayed frame holds what is behind it, and not the other way; the end of
// the connection does not wait for it.
func TestDelay(t *testing.T) {
	w := link.NewNetworkFaults(1)
	a, b := pair(t, w)
	c := a.to(t, b)
	guest := within(t, "a guest", b.opened)
	c.Send([]byte("0"))
	within(t, "a frame", b.frames)
	const late = 300 * time.Millisecond
	w.Set("node-1", "node-2", link.Rule{Delay: 1, DelayMin: late, DelayMax: late, Duplicate: 1})
	start := time.Now()
	c.Send([]byte("1"))
	w.Clear()
	c.Send([]byte("2"))
	guest.Send([]byte("back"))
	within(t, "a frame of the other way", a.frames)
	back := time.Since(start)
	if x, y := within(t, "a frame", b.frames), within(t, "a frame", b.frames); x != "1" || y != "2" {
		t.Errorf("%s, %s", x, y)
	}
	if took := time.Since(start); took < late || back >= took {
		t.Errorf("the delayed came after %s, the other way after %s", took, back)
	}
	if n := w.Sent(link.Requests); n != 4 {
		t.Errorf("%d passages for 4 frames", n)
	}
	w.Set("node-1", "node-2", link.Rule{Delay: 1, DelayMin: time.Hour})
	for range 1000 {
		c.Send([]byte("3"))
	}
	c.Close(nil)
	within(t, "the end here", a.closed)
	within(t, "the end there", b.closed)
	if len(b.frames) != 0 {
		t.Errorf("%d frames arrived an hour early", len(b.frames))
	}
}

// TestDropAndCut: both cut, and the connection is made anew; a blocked way lets no
// connection be made.
func TestDropAndCut(t *testing.T) {
	w := link.NewNetworkFaults(1)
	a, b := pair(t, w)
	for _, r := range []link.Rule{{Drop: 1}, {Cut: 1}, {Block: true}} {
		c := a.to(t, b)
		guest := within(t, "a guest", b.opened)
		w.Set("node-1", "node-2", r)
		guest.Send([]byte("the other way"))
		within(t, "a frame", a.frames)
		if c.Send([]byte("lost")) || c.Send([]byte("later")) {
			t.Fatalf("%+v: sent", r)
		}
		if got := within(t, "the end here", a.closed); !errors.Is(got.err, errCut) {
			t.Error(got.err)
		}
		if got := within(t, "the end there", b.closed); errors.Is(got.err, errByPeer) {
			t.Error("it was told:", got.err)
		}
		if r.Block {
			tries := w.Sent(link.Connect)
			eventually(t, "two attempts", func() bool {
				if a.Conn(b.host, b.Addr()) != nil {
					t.Fatal("connected through a blocked way")
				}
				return w.Sent(link.Connect) >= tries+2
			})
		}
		w.Clear()
		for len(b.opened) > 0 {
			<-b.opened
		}
	}
	a.to(t, b).Send([]byte("fair"))
	if got := within(t, "a frame", b.frames); got != "fair" {
		t.Error(got)
	}
}

// TestCutWhileWriting: a cut does not wait for a peer that reads nothing.
func TestCutWhileWriting(t *testing.T) {
	w := link.NewNetworkFaults(1)
	b := open(t, 2, func(c *Config) { c.Faults = w })
	stranger(t, b, 0)
	c := within(t, "a guest", b.opened)
	for range 320 {
		c.Send(pattern(1, 100_000))
	}
	w.Set(link.Any, link.Any, link.Rule{Cut: 1})
	start := time.Now()
	c.Send(nil)
	// then the kernel gives up
	if got := within(t, "the end", b.closed); !errors.Is(got.err, errCut) || time.Since(start) >= 5*time.Second {
		t.Error(got.err, time.Since(start))
	}
}
