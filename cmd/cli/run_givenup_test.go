package cli

import (
	"bytes"
	"net"
	"sync"
	"testing"
	"time"
)

// mutedProxy leads to a server; while it is held, nothing that the server says arrives. It is from when
// a client first names a path.
type mutedProxy struct {
	addr string
	once sync.Once
	held sync.RWMutex
}

func newMutedProxy(t *testing.T, to, path string) *mutedProxy {
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
			go func() {
				defer s.Close()
				b := make([]byte, 4096)
				for {
					n, err := c.Read(b)
					if bytes.Contains(b[:n], []byte(path)) {
						p.once.Do(p.held.Lock)
					}
					if n > 0 {
						s.Write(b[:n])
					}
					if err != nil {
						return
					}
				}
			}()
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

// TestGivenUpRunLeavesOtherLocks: run asks for a lock in the name of an owner that holds another one for an hour. The
// grant crosses the end of the wait, or comes after run had waited for an answer, and is taken back. The other lock
// does not end with run's connection, to which the grant had tied the owner's lease.
func TestGivenUpRunLeavesOtherLocks(t *testing.T) {
	t.Parallel()
	const patience = 4 * time.Second
	for name, args := range map[string][]string{
		"wait":    {"--wait", patience.String()},
		"no-wait": {"--no-wait", "--timeout", patience.String()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newConsole(t)
			kept, x := "givenup:/"+name+"/kept", "givenup:/"+name+"/x"
			p := newMutedProxy(t, sharedDaemon(t).Addr(), x)
			far := &console{t, []string{"PATHLOCK_ADDR=" + p.addr}}
			c.run(ExitOK, "acquire", kept, "--owner", name, "--ttl", "1h")
			if name == "wait" {
				c.run(ExitOK, "acquire", x, "--owner", "blocker", "--ttl", "1h")
			}
			ended := make(chan result, 1)
			go func() {
				ended <- far.do(t.Context(), append([]string{"run", x, "--owner", name, "--ttl", "1h"},
					append(args, "--", "true")...)...)
			}()
			if name == "wait" {
				c.waiters(x, 1)
				c.run(ExitOK, "release", x, "--owner", "blocker")
			}
			until(t, "the grant", func() bool { return c.holder(x) == name })
			time.Sleep(patience + time.Second) // run has given up meanwhile
			p.held.Unlock()
			if r := <-ended; r.code != ExitTimeout && r.code != ExitUnavailable {
				t.Fatalf("run was not too late: exit code %d %s%s", r.code, r.stdout, r.stderr)
			}
			until(t, "that the grant was taken back", func() bool { return c.holder(x) == "" })
			time.Sleep(18 * time.Second) // the grace
			if h := c.holder(kept); h != name {
				t.Errorf("18 s after a run that took nothing its owner's lock of an hour is held by %q", h)
			}
		})
	}
}
