// Package load asks a server of the native protocol for as much as it can give, at
// the least cost to itself: it may share its processors with what it measures. It
// speaks the protocol over plain connections, one goroutine each, with frames that
// are encoded once and patched, and allocates nothing for a request.
package load

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

const (
	// readBytes is how much is read at once. It holds the answers to all that a
	// connection may have in flight.
	readBytes = 128 << 10
	// answerWithin is how long a server may stay silent while requests are in flight,
	// before the run is given up.
	answerWithin = 60 * time.Second
)

// errRefused is an answer that a workload has no use for.
var errRefused = errors.New("the server refused a request")

// conn is a connection as a workload drives it, from one goroutine.
type conn struct {
	nc   net.Conn
	in   []byte
	have int    // bytes of in that are read and not yet taken
	out  []byte // to be written
	id   uint32 // of the last request
}

// dial connects. A server that only echoes is not greeted.
func dial(addr string, greet bool) (*conn, error) {
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	c := &conn{nc: nc, in: make([]byte, readBytes)}
	if greet {
		if err := c.hello(); err != nil {
			return nil, errors.Join(fmt.Errorf("hello: %w", err), nc.Close())
		}
	}
	return c, nil
}

func (c *conn) hello() error {
	c.id++
	c.out = wire.AppendRequest(c.out, uint64(c.id), &wire.Request{Op: wire.OpHello, Hello: &wire.Hello{
		MinVersion: wire.MinProtocol, MaxVersion: wire.MaxProtocol, Client: "pathlockd bench",
	}})
	if err := c.flush(); err != nil {
		return err
	}
	greeted := false
	for !greeted {
		err := c.read(func(payload []byte) error {
			id, code, r, fields, err := wire.DecodeReply(payload)
			if err == nil && id == uint64(c.id) {
				greeted = true
				err = refusal(code, &r, fields)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// flush writes what is in out.
func (c *conn) flush() error {
	if len(c.out) == 0 {
		return nil
	}
	_, err := c.nc.Write(c.out)
	c.out = c.out[:0]
	return err
}

// read takes what the server has sent, at least something, and hands over each
// whole frame. The payload is good until it returns.
func (c *conn) read(take func(payload []byte) error) error {
	if err := c.nc.SetReadDeadline(time.Now().Add(answerWithin)); err != nil {
		return err
	}
	n, err := c.nc.Read(c.in[c.have:])
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("the server answered nothing for %v", answerWithin)
	}
	if err != nil {
		return fmt.Errorf("read: %w", err)
	}
	c.have += n
	used := 0
	for {
		payload, size, need, err := wire.NextFrame(c.in[used:c.have], wire.MaxFrameBytes)
		if err != nil {
			return err
		}
		if size == 0 {
			if need > len(c.in) {
				return fmt.Errorf("an answer of %d bytes: no workload asks for one", need)
			}
			break
		}
		if err := take(payload); err != nil {
			return err
		}
		used += size
	}
	c.have = copy(c.in, c.in[used:c.have])
	return nil
}

// ask sends a frame and waits for its answer: any but OK is errRefused.
func (c *conn) ask(f frame) error {
	c.id++
	c.out = f.append(c.out, c.id)
	if err := c.flush(); err != nil {
		return err
	}
	for answered := false; !answered; {
		err := c.read(func(payload []byte) error {
			id, code, r, fields, err := wire.DecodeReply(payload)
			if err != nil || id != uint64(c.id) {
				return err
			}
			answered = true
			if err := refusal(code, &r, fields); err != nil {
				return err
			}
			if status := wire.Status(r.Uint()); status != wire.StatusOK {
				return fmt.Errorf("%w: %v", errRefused, status)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// refusal is the error that an answer with a code other than OK is.
func refusal(code uint64, r *wire.Reader, fields int) error {
	if code == uint64(wire.OK) {
		return nil
	}
	message := ""
	if fields > 0 {
		message = r.Str()
	}
	return fmt.Errorf("%w: %v %s", errRefused, wire.Code(code), message)
}

// frame is a request that was encoded once and is sent many times, under new ids
// and, where it ends with a path of Path, for other paths.
type frame []byte

// idAt is where a frame's request id begins: after the length and the head of the
// array. It is written as a 32-bit integer whatever its value.
const idAt = 5

// newFrame encodes a request. Its id is one that takes 32 bits.
func newFrame(req *wire.Request) frame { return wire.AppendRequest(nil, 1<<31, req) }

// append appends the frame under an id.
func (f frame) append(dst []byte, id uint32) []byte {
	from := len(dst)
	dst = append(dst, f...)
	binary.BigEndian.PutUint32(dst[from+idAt+1:], id)
	return dst
}

// appendPath appends the frame under an id and for another path, which stands at
// its end.
func (f frame) appendPath(dst []byte, id uint32, path int) []byte {
	dst = f.append(dst, id)
	putPath(dst[len(dst)-pathBytes:], path)
	return dst
}
