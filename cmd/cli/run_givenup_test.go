package cli

import (
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// mutedProxy leads to a server; while it is held, nothing that the server says arrives.
type mutedProxy struct {
	addr string
	held sync.RWMutex
}

func newMutedProxy(t *testing.T, to string) *mutedProxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	p := &mutedProxy{addr: l.Addr().String()}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s, err := net.Dial("tcp", to)
			if err != nil {
				c.Close()
				continue
			}
			go func() { io.Copy(s, c); s.Close() }()
			go func() {
				defer c.Close()
				b := make([]byte, 4096)
				for {
					n, err := s.Read(b)
					p.held.RLock()
					if n > 0 {
						c.Write(b[:n])
					}
					p.held.RUnlock()
					if err != nil {
						return
					}
				}
			}()
		}
	}()
	return p
}

// TestGivenUpRunLeavesOtherLocks: run waits for a lock in the name of an owner that holds another one for an hour. The
// grant crosses the end of the wait, and is taken back. The other lock does not end with run's connection, to which
// the grant had tied the owner's lease.
func TestGivenUpRunLeavesOtherLocks(t *testing.T) {
	t.Parallel()
	c := newConsole(t)
	p := newMutedProxy(t, sharedDaemon(t).Addr())
	far := &console{t, []string{"PATHLOCK_ADDR=" + p.addr}}
	const kept, x = "givenup:/me/kept", "givenup:/me/x"
	c.run(ExitOK, "acquire", kept, "--owner", "me", "--ttl", "1h")
	c.run(ExitOK, "acquire", x, "--owner", "blocker", "--ttl", "1h")

	ended := make(chan result, 1)
	const wait = 4 * time.Second
	began := time.Now()
	go func() {
		ended <- far.do(t.Context(), "run", x, "--owner", "me", "--wait", wait.String(), "--ttl", "1h", "--", "true")
	}()
	c.waiters(x, 1)
	p.held.Lock() // what the server says is on its way for a while
	c.run(ExitOK, "release", x, "--owner", "blocker")
	until(t, "the grant", func() bool { return c.holder(x) == "me" })
	time.Sleep(time.Until(began.Add(wait + time.Second))) // the wait was given up meanwhile
	p.held.Unlock()
	r := <-ended
	if r.code != ExitTimeout {
		t.Skipf("run was not too late: exit code %d %s%s", r.code, r.stdout, r.stderr)
	}
	until(t, "that the grant was taken back", func() bool { return c.holder(x) == "" })
	if h := c.holder(kept); h != "me" {
		t.Fatalf("right after run %s is held by %q", kept, h)
	}
	time.Sleep(18 * time.Second) // the grace
	if h := c.holder(kept); h != "me" {
		t.Errorf("18 s after a run that took nothing (%s) its owner's lock of an hour is held by %q", r.stderr, h)
	}
}
