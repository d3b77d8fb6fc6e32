package loop_test

import (
	"testing"

	"github.com/pathlockd/pathlockd/loop"
	"github.com/pathlockd/pathlockd/wire"
)

// asks is a handler that notes what its sessions want of it, and does it.
type asks struct {
	wire.Handler
	redirect chan bool
	first    chan uint64
}

func (h asks) Serve(calls []*wire.Call) {
	for _, c := range calls {
		h.redirect <- c.Session.Redirect
		h.first <- c.ID - c.Session.First
	}
	h.Handler.Serve(calls)
}

// TestRedirectIsAskedForAtHello: the handler is told who wants redirects, and under which id
// hello was said, and the client which of the features that it named the server has.
func TestRedirectIsAskedForAtHello(t *testing.T) {
	h := asks{shared.get(t), make(chan bool, 1), make(chan uint64, 1)}
	srv, err := loop.New(h, loop.Options{Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	defer srv.Close()
	addr, err := srv.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ asked, has uint64 }{
		{0, 0},
		{wire.FeatureRedirect, wire.FeatureRedirect},
		{1<<40 | 1<<7, 0},
		{1<<40 | wire.FeatureRedirect, wire.FeatureRedirect},
	} {
		p := joinAs(t, addr, &wire.Hello{Features: c.asked})
		if p.welcome.Features != c.has {
			t.Errorf("features %b: the server has %b, want %b", c.asked, p.welcome.Features, c.has)
		}
		p.must(&wire.Request{Op: wire.OpInspectPath, Path: named("redirect") + ":/a"})
		if got := <-h.redirect; got != (c.has&wire.FeatureRedirect != 0) {
			t.Errorf("features %b: redirect is %v", c.asked, got)
		}
		if behind := <-h.first; behind != 1 {
			t.Errorf("the first request has an id that is %d above that of the hello", behind)
		}
	}
}
