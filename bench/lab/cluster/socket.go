package cluster

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

const dialWithin = 2 * time.Second

// socket is a Conn over TCP.
type socket struct {
	conn net.Conn
	r    *bufio.Reader
}

// dial opens the session's next connection.
func dial(ctx context.Context, addr string, s *Session) (Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialWithin)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	c := &socket{conn, bufio.NewReader(conn)}
	s.epoch++
	res, err := c.Ask(ctx, s.Next(), &wire.Request{Op: wire.OpHello, Hello: &wire.Hello{
		MinVersion: wire.MinProtocol, MaxVersion: wire.MaxProtocol, Session: s.id[:], Epoch: s.epoch, Client: "lab/1",
	}}, nil)
	if err == nil && res.Err() != nil {
		err = res.Err()
	}
	if err != nil {
		c.Close()
		return nil, fmt.Errorf("hello: %w", err)
	}
	return c, nil
}

func (c *socket) Close() { _ = c.conn.Close() } // it is gone in any case

func (c *socket) Ask(ctx context.Context, id uint64, req *wire.Request, placed func()) (*wire.Result, error) {
	stop := context.AfterFunc(ctx, func() { _ = c.conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
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
			if q.ID == id && placed != nil {
				placed()
			}
		}
	}
}

// frame reads what the server says next.
func (c *socket) frame() (id, code uint64, r *wire.Reader, fields int, err error) {
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
