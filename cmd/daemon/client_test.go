package daemon

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// patience bounds every wait of these tests.
const patience = 90 * time.Second

// client is a bare connection of the native protocol.
type client struct {
	t    *testing.T
	conn net.Conn
	r    *bufio.Reader
	id   uint64
}

// dial connects and says hello.
func dial(t *testing.T, network, addr string, hello wire.Hello) *client {
	t.Helper()
	conn, err := net.DialTimeout(network, addr, patience)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(patience))
	c := &client{t: t, conn: conn, r: bufio.NewReader(conn)}
	hello.MinVersion, hello.MaxVersion = wire.MinProtocol, wire.MaxProtocol
	c.ask(&wire.Request{Op: wire.OpHello, Hello: &hello})
	return c
}

// send writes requests at once and answers the id of the first.
func (c *client) send(reqs ...*wire.Request) (first uint64) {
	c.t.Helper()
	var b []byte
	first = c.id + 1
	for _, r := range reqs {
		c.id++
		b = wire.AppendRequest(b, c.id, r)
	}
	if _, err := c.conn.Write(b); err != nil {
		c.t.Fatal(err)
	}
	return first
}

// frame is one thing the server said.
type frame struct {
	id   uint64 // 0: a push
	code uint64 // or the kind of push
	r    wire.Reader
	n    int
}

// read reads the next frame; the error is that of the connection.
func (c *client) read() (f frame, err error) {
	var head [4]byte
	if _, err := io.ReadFull(c.r, head[:]); err != nil {
		return f, err
	}
	payload := make([]byte, binary.BigEndian.Uint32(head[:]))
	if _, err := io.ReadFull(c.r, payload); err != nil {
		return f, err
	}
	f.id, f.code, f.r, f.n, err = wire.DecodeReply(payload)
	return f, err
}

// ask sends one request and waits for its reply.
func (c *client) ask(req *wire.Request) wire.Result {
	c.t.Helper()
	id := c.send(req)
	for {
		f, err := c.read()
		if err != nil {
			c.t.Fatalf("%v: %v", req.Op, err)
		}
		if f.id == id {
			var res wire.Result
			if err := res.Decode(req.Op, wire.Code(f.code), &f.r, f.n); err != nil {
				c.t.Fatal(err)
			}
			return res
		}
	}
}

// lock asks for a write lock of one path.
func lock(owner, path string, flags wire.Flags) *wire.Request {
	return &wire.Request{
		Op: wire.OpAcquire, Owner: owner, TTLMillis: 600_000, QueueTTLMillis: 600_000, Flags: flags,
		Locks: []wire.LockRequest{{Path: path}},
	}
}

// mustHold checks who holds a path, "" for nobody.
func (c *client) mustHold(path, owner string) {
	c.t.Helper()
	res := c.ask(&wire.Request{Op: wire.OpInspectPath, Path: path})
	if res.Err() != nil || res.Owner != owner {
		c.t.Fatalf("%s is held by %q (%v), want %q", path, res.Owner, res.Err(), owner)
	}
}

// mustLock takes a lock.
func (c *client) mustLock(owner, path string, flags wire.Flags) int64 {
	c.t.Helper()
	res := c.ask(lock(owner, path, flags))
	if res.Err() != nil || res.Status != wire.StatusOK {
		c.t.Fatalf("lock %s for %s: %v %v", path, owner, res.Status, res.Err())
	}
	return res.Token
}

// paths makes n paths of as many namespaces.
func paths(n int) (list []string) {
	for i := range n {
		list = append(list, fmt.Sprintf("t:/n%d/x", i))
	}
	return list
}
