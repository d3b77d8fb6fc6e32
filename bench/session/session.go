// Package session is a client of the native protocol for those who watch what a server
// does: one session over one connection after the other, with one request under way at a
// time. It knows nothing of locks, and does nothing by itself: what is asked again when a
// connection broke is its user's choice.
package session

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

// Session is a client's identity across connections. It is for one goroutine.
type Session struct {
	ID    [wire.SessionBytes]byte
	Epoch uint64 // of the last connection
	last  uint64 // request id
}

// New makes a session.
func New() *Session {
	s := new(Session)
	rand.Read(s.ID[:]) // never fails
	return s
}

// Next is the id of the session's next request.
func (s *Session) Next() uint64 {
	s.last++
	return s.last
}

// Conn is one connection of a session.
type Conn struct {
	conn net.Conn
	r    *bufio.Reader
	ear  Ear
}

// Ear is told what subscriptions are told, while something else is asked.
type Ear interface {
	Event(*wire.Event)
	// Moved is told a whole cursor: because events were missed, or just so.
	Moved(p *wire.Progress, gap bool)
}

// Hear has an ear told of what the connection's subscriptions hear from now on.
func (c *Conn) Hear(e Ear) { c.ear = e }

// Dial opens the session's next connection, until ctx ends.
func (s *Session) Dial(ctx context.Context, addr string) (*Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	c := &Conn{conn: conn, r: bufio.NewReader(conn)}
	s.Epoch++
	res, err := c.Ask(ctx, s.Next(), &wire.Request{Op: wire.OpHello, Hello: &wire.Hello{
		MinVersion: wire.MinProtocol, MaxVersion: wire.MaxProtocol, Session: s.ID[:], Epoch: s.Epoch, Client: "bench/1",
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

// Close ends the connection.
func (c *Conn) Close() { _ = c.conn.Close() } // it is gone in any case

// Ask sends a request under an id and waits for the answer, until ctx ends; placed is told
// the token once an acquire that waits has its place. An error says that the connection is
// of no use any more and the outcome not known.
func (c *Conn) Ask(ctx context.Context, id uint64, req *wire.Request, placed func(token int64)) (*wire.Result, error) {
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
				placed(q.Result.Token)
			}
		}
		if got == 0 && c.ear != nil {
			if err := c.hear(wire.PushKind(code), r, fields); err != nil {
				return nil, err
			}
		}
	}
}

// hear tells the ear.
func (c *Conn) hear(kind wire.PushKind, r *wire.Reader, fields int) error {
	switch kind {
	case wire.PushEvent:
		var e wire.Event
		if err := e.Decode(r, fields); err != nil {
			return err
		}
		c.ear.Event(&e)
	case wire.PushProgress, wire.PushGap:
		var p wire.Progress
		if err := p.Decode(r, fields); err != nil {
			return err
		}
		c.ear.Moved(&p, kind == wire.PushGap)
	case wire.PushQueued, wire.PushTopology, wire.PushGoodbye:
	}
	return nil
}

// frame reads what the server says next.
func (c *Conn) frame() (id, code uint64, r *wire.Reader, fields int, err error) {
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
