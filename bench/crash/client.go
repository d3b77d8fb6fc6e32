package crash

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// patience bounds every wait for an answer.
const patience = 30 * time.Second

// client is one session of the native protocol, with one request under way at a
// time. It knows nothing of locks: what is sent again after a broken connection is
// its user's choice.
type client struct {
	conn    net.Conn
	r       *bufio.Reader
	session [wire.SessionBytes]byte
	epoch   uint64
	id      uint64
}

func newClient() *client {
	c := new(client)
	rand.Read(c.session[:]) // never fails
	return c
}

// connect opens the session's next connection, which ends with ctx.
func (c *client) connect(ctx context.Context, addr string) error {
	c.close()
	conn, err := net.DialTimeout("tcp", addr, patience)
	if err != nil {
		return err
	}
	context.AfterFunc(ctx, func() { _ = conn.Close() })
	c.conn, c.r = conn, bufio.NewReader(conn)
	c.epoch++
	c.id++
	res, err := c.ask(c.id, &wire.Request{Op: wire.OpHello, Hello: &wire.Hello{
		MinVersion: wire.MinProtocol, MaxVersion: wire.MaxProtocol, Session: c.session[:], Epoch: c.epoch, Client: "crash/1",
	}}, nil)
	if err != nil {
		return err
	}
	if e := res.Err(); e != nil {
		return fmt.Errorf("hello: %w", e)
	}
	return nil
}

func (c *client) close() {
	if c.conn != nil {
		_ = c.conn.Close() // it is gone in any case
	}
}

// ask sends one request under an id and waits for the answer; queued is told of
// the place of an acquire that waits. An error is that of the connection.
func (c *client) ask(id uint64, req *wire.Request, queued func(token int64)) (*wire.Result, error) {
	if err := c.conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return nil, err
	}
	if _, err := c.conn.Write(wire.AppendRequest(nil, id, req)); err != nil {
		return nil, err
	}
	for {
		got, code, r, fields, err := c.frame()
		if err != nil {
			return nil, err
		}
		if got == id {
			res := new(wire.Result)
			return res, res.Decode(req.Op, wire.Code(code), r, fields)
		}
		if got == 0 && wire.PushKind(code) == wire.PushQueued {
			var q wire.Queued
			if err := q.Decode(r, fields); err != nil {
				return nil, err
			}
			if q.ID == id && queued != nil {
				queued(q.Result.Token)
			}
		}
	}
}

// frame reads what the server says next.
func (c *client) frame() (id, code uint64, r *wire.Reader, fields int, err error) {
	var head [4]byte
	if _, err := io.ReadFull(c.r, head[:]); err != nil {
		return 0, 0, nil, 0, err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > wire.MaxFrameBytes {
		return 0, 0, nil, 0, fmt.Errorf("a frame of %d bytes", n)
	}
	payload := make([]byte, n)
	if _, err := io.ReadFull(c.r, payload); err != nil {
		return 0, 0, nil, 0, err
	}
	var rd wire.Reader
	id, code, rd, fields, err = wire.DecodeReply(payload)
	return id, code, &rd, fields, err
}
