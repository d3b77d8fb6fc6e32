package mesh

import (
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pathlockd/pathlockd/groups/link"
)

// Conn is an authenticated connection to another node. Its methods may be called from
// any goroutine and from Config's callbacks.
type Conn struct {
	m      *Mesh
	link   *link.Conn
	dialed bool

	wake   chan struct{} // that there is something to write, or that it ends
	unread chan struct{} // closed when reading ended
	ended  atomic.Bool   // mu.err is there

	mu struct {
		sync.Mutex
		queue queue
		err   error // why the connection ends; the first reason stays
	}
}

func (m *Mesh) newConn(l *link.Conn, dialed bool) *Conn {
	return &Conn{m: m, link: l, dialed: dialed, wake: make(chan struct{}, 1), unread: make(chan struct{})}
}

// Peer is who is at the other end.
func (c *Conn) Peer() link.Peer { return c.link.Peer() }

// Dialed says whether this node made the connection.
func (c *Conn) Dialed() bool { return c.dialed }

// Unsent is how many bytes wait to be sent.
func (c *Conn) Unsent() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.queue.unsent
}

// Send sends a frame of up to MaxFrameBytes after those that were sent before. It copies
// the bytes and never blocks. False says that the connection is closed; it is closed when
// the frame is too long, or more than maxBacklogBytes would be unsent. True does not say
// that the frame arrives.
func (c *Conn) Send(frame []byte) bool {
	if len(frame) > MaxFrameBytes {
		c.Close(fmt.Errorf("a frame of %d bytes, at most %d are allowed: %w", len(frame), MaxFrameBytes, errTooLong))
		return false
	}
	var at time.Time
	if f := c.m.c.Faults; f != nil {
		fate := f.Outgoing(link.Passage{From: c.m.c.Node, To: c.Peer().Node, Kind: link.Requests, Bytes: len(frame)})
		if fate.Cut || fate.Drop {
			c.end(errCut, false)
			return false
		}
		if fate.Delay > 0 {
			at = time.Now().Add(fate.Delay)
		}
	}
	c.mu.Lock()
	if c.mu.err != nil {
		c.mu.Unlock()
		return false
	}
	if c.mu.queue.unsent+frameHead+len(frame) > maxBacklogBytes {
		c.mu.Unlock()
		c.Close(fmt.Errorf("more than %d bytes are unsent: %w", maxBacklogBytes, errBacklog))
		return false
	}
	if !at.IsZero() {
		c.mu.queue.hold(frameHead+len(frame), at)
	}
	c.put(uint32(len(frame)), frame)
	c.mu.Unlock()
	c.rouse()
	return true
}

// put queues a frame. The lock is held.
func (c *Conn) put(head uint32, frame []byte) {
	var b [frameHead]byte
	c.mu.queue.add(appendHead(b[:0], head))
	c.mu.queue.add(frame)
}

// rouse wakes the writer.
func (c *Conn) rouse() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// Close ends the connection, for a reason that Closed and the peer are told. What was
// sent before is still written, as far as the peer takes it at once. It does not wait;
// from now on Send answers false, and Frame is called no more, save for a call that is
// going on.
func (c *Conn) Close(reason error) {
	if reason == nil {
		reason = net.ErrClosed
	}
	c.end(reason, true)
}

// end notes why the connection ends, and either has the peer told, or closes at once.
func (c *Conn) end(err error, tell bool) {
	c.mu.Lock()
	if c.mu.err != nil {
		c.mu.Unlock()
		return
	}
	c.mu.err = err
	c.ended.Store(true)
	if tell {
		text := err.Error()
		text = text[:min(len(text), maxTextBytes)]
		c.put(uint32(len(text))|ownFrame, []byte(text))
		_ = c.link.SetWriteDeadline(time.Now().Add(goodbye))
	}
	c.mu.Unlock()
	if !tell {
		_ = c.link.Close()
	}
	c.rouse()
}

// reason answers why the connection ended.
func (c *Conn) reason() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.err
}

// run is the life of a connection. It answers when its writer ended too.
func (c *Conn) run() {
	var writer sync.WaitGroup
	writer.Go(c.write)
	c.read()
	close(c.unread)
	writer.Wait()
}

// read hands on what comes in until the connection ends.
func (c *Conn) read() {
	f := newFrames(timely{c})
	for {
		body, own, err := f.next()
		if c.ended.Load() {
			return
		}
		switch {
		case errors.Is(err, errTooLong):
			c.end(err, true)
			return
		case errors.Is(err, os.ErrDeadlineExceeded):
			c.end(fmt.Errorf("nothing came for %s: %w", c.m.c.timing.silence, errSilent), true)
			return
		case err != nil:
			c.end(fmt.Errorf("read: %w", err), false)
			return
		case own && len(body) > 0:
			c.end(told(string(body)), false)
			return
		case !own:
			c.m.c.Frame(c, body)
		}
	}
}

// told is the error of a connection that the peer closed.
func told(why string) error {
	if why == errClosed.Error() {
		return fmt.Errorf("%w: %w", errByPeer, errClosed)
	}
	return fmt.Errorf("%w: %q", errByPeer, why)
}

// timely reads with a deadline.
type timely struct{ c *Conn }

// Read reads once.
func (t timely) Read(b []byte) (int, error) {
	if err := t.c.link.SetReadDeadline(time.Now().Add(t.c.m.c.timing.silence)); err != nil {
		return 0, err
	}
	return t.c.link.Read(b)
}

// write writes what is queued until the connection ends, and closes it.
func (c *Conn) write() {
	defer c.link.Close()
	beat := time.NewTicker(c.m.c.timing.alive)
	defer beat.Stop()
	quiet := false // since the last beat
	for {
		select {
		case <-c.wake:
			quiet = false
		case <-beat.C:
			if quiet {
				c.mu.Lock()
				c.put(ownFrame, nil)
				c.mu.Unlock()
			}
			quiet = true
		}
		if err := c.flush(); err != nil {
			c.listen()
			c.end(fmt.Errorf("write: %w", err), false)
			return
		}
		if c.ended.Load() && c.idle() {
			return
		}
	}
}

// listen waits a moment for what the peer may have said before it closed.
func (c *Conn) listen() {
	if c.ended.Load() {
		return
	}
	late := time.NewTimer(goodbye)
	defer late.Stop()
	select {
	case <-c.unread:
	case <-late.C:
	}
}

// idle says whether nothing is left to write.
func (c *Conn) idle() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.queue.unsent == 0
}

// flush writes until nothing is queued.
func (c *Conn) flush() error {
	var r record
	for {
		c.mu.Lock()
		next, ok := c.mu.queue.take(r)
		c.mu.Unlock()
		if !ok {
			return nil
		}
		if r = next; !r.at.IsZero() && !c.wait(time.Until(r.at)) {
			return net.ErrClosed
		}
		c.extend()
		if _, err := c.link.Write(r.b); err != nil {
			return err
		}
	}
}

// extend gives the peer time for a record, unless the connection is about to end.
func (c *Conn) extend() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.err == nil {
		_ = c.link.SetWriteDeadline(time.Now().Add(c.m.c.timing.stall))
	}
}

// wait holds back what is to be written, for the fault laboratory; false if the
// connection ends meanwhile.
func (c *Conn) wait(d time.Duration) bool {
	late := time.NewTimer(d)
	defer late.Stop()
	for !c.ended.Load() {
		select {
		case <-late.C:
			return true
		case <-c.wake:
		}
	}
	return false
}
