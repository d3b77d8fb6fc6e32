package mesh

import (
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

// proxy stands between a dialer and an address, and can go silent, or spoil what passes.
type proxy struct {
	net.Listener
	mu    sync.Mutex
	mute  bool
	spoil bool
	wg    sync.WaitGroup
	ends  []net.Conn
}

func newProxy(t *testing.T, to string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{Listener: l}
	p.wg.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", to)
			if err != nil {
				_ = in.Close()
				continue
			}
			p.mu.Lock()
			p.ends = append(p.ends, in, out)
			p.mu.Unlock()
			p.wg.Go(func() { p.pass(in, out) })
			p.wg.Go(func() { p.pass(out, in) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		p.mu.Lock()
		for _, c := range p.ends {
			_ = c.Close()
		}
		p.mu.Unlock()
		p.wg.Wait()
	})
	return p
}

func (p *proxy) pass(from, to net.Conn) {
	b := make([]byte, 64<<10)
	for {
		n, err := from.Read(b)
		p.mu.Lock()
		mute, spoil := p.mute, p.spoil
		p.mu.Unlock()
		if mute {
			n = 0
		}
		if spoil && n > 0 {
			b[n-1] ^= 1
		}
		if _, err := to.Write(b[:n]); err != nil {
			return
		}
		if err != nil {
			if !mute {
				_ = to.Close()
			}
			return
		}
	}
}

func (p *proxy) set(mute, spoil bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mute, p.spoil = mute, spoil
}

// TestVanish: an idle connection lasts; a peer that vanished is noticed by both ends
// without anything being sent, and is reached again when it is back.
func TestVanish(t *testing.T) {
	if silence+goodbye > 5*time.Second || 3*aliveEvery > silence {
		t.Error("the defaults are not what doc.go says")
	}
	a, b := open(t, 1, quick), open(t, 2, quick)
	p := newProxy(t, b.Addr())
	reach := func() *Conn {
		var c *Conn
		eventually(t, "a connection", func() bool { c = a.Conn(b.host, p.Addr().String()); return c != nil })
		return c
	}
	c := reach()
	select {
	case got := <-a.closed:
		t.Fatal("an idle connection ended:", got.err)
	case <-time.After(4 * time.Second): // more than the silence
	}
	if reach() != c {
		t.Fatal("an idle connection was replaced")
	}
	if n := len(a.frames) + len(b.frames); n > 0 {
		t.Errorf("%d signs of life were handed on as frames", n)
	}
	p.set(true, false)
	start := time.Now()
	for _, e := range []*end{a, b} {
		if got := within(t, "the end", e.closed); !errors.Is(got.err, errSilent) {
			t.Error(got.err)
		}
	}
	if took := time.Since(start); took < time.Second || took > patience {
		t.Errorf("noticed after %s", took)
	}
	p.set(false, false)
	if reach() == c {
		t.Error("the dead connection was answered")
	}
}

// TestSpoiled: one bit that changes on the way ends the connection and reaches nobody.
func TestSpoiled(t *testing.T) {
	a, b := open(t, 1), open(t, 2)
	p := newProxy(t, b.Addr())
	var c *Conn
	eventually(t, "a connection", func() bool { c = a.Conn(b.host, p.Addr().String()); return c != nil })
	within(t, "a guest", b.opened)
	p.set(false, true)
	c.Send([]byte("spoiled"))
	if got := within(t, "the end", b.closed); !strings.Contains(got.err.Error(), "bad record MAC") {
		t.Error(got.err)
	}
	within(t, "the end", a.closed)
	if len(b.frames) != 0 {
		t.Error("it arrived")
	}
}
