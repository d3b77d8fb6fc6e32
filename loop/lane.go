package loop

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/panjf2000/gnet/v2"

	"github.com/pathlockd/pathlockd/wire"
)

// lane serves a connection that is off its event loop, as its peer does not take what it is
// sent as fast as it asks. An event loop reads whatever comes; on a lane the connection is read
// only while there is room for the answers, so that it is the client who waits. Two goroutines
// move the bytes. What they mean is the loop's business, as ever. Once everything is written the
// connection goes back to its loop.
type lane struct {
	s    *session
	conn net.Conn

	// The loop's.
	reading bool // the reader was let go, and has not come back
	home    bool // it is on its way back to the loop
	pushes  int  // bytes of pushes, since everything was written

	more   chan struct{} // lets the reader read once
	unsent atomic.Int64  // bytes that wait to be written

	mu    sync.Mutex
	ready sync.Cond
	queue [][]byte
	over  bool  // nothing follows; the writer ends when the queue is empty
	last  bool  // and closes the connection
	owes  int64 // bytes that it counts out of the server's unread then
	ended bool  // the writer has
}

const (
	// laneRead is how much a lane reads at once, bytes.
	laneRead = 64 << 10
	// lanePiece is how much of the output is written at once: whether a peer takes
	// anything is seen of each piece.
	lanePiece = 64 << 10
	// closeWithin is how long a peer has to take what is written already when its
	// connection is closed.
	closeWithin = 5 * time.Second
)

// depart takes the connection off its loop. rest is what could not be written.
func (s *session) depart(rest []byte) {
	conn, err := s.detached()
	if err != nil {
		s.srv.opt.Log.Warn("cannot serve a client that reads slowly", "error", err)
		s.closing, s.broken = true, true
		return
	}
	l := &lane{s: s, conn: conn, more: make(chan struct{}, 1)}
	l.ready.L = &l.mu
	s.lane = l
	s.unreads()
	_ = s.r.loop.Close(s.conn) // OnClose lets it be, as there is a lane
	s.conn = nil
	s.srv.lanes.Add(2)
	go l.write()
	go l.read()
	l.put(rest)
}

// detached answers the connection as one of the net package.
func (s *session) detached() (net.Conn, error) {
	if s.srv.ending.Load() {
		return nil, net.ErrClosed
	}
	fd, err := s.conn.Dup()
	if err != nil {
		return nil, fmt.Errorf("duplicate its file descriptor: %w", err)
	}
	f := os.NewFile(uintptr(fd), "client")
	defer f.Close()
	return net.FileConn(f)
}

// put has bytes written, which are the lane's from now on.
func (l *lane) put(b []byte) {
	if len(b) == 0 {
		return
	}
	l.unsent.Add(int64(len(b)))
	l.mu.Lock()
	l.queue = append(l.queue, b)
	l.mu.Unlock()
	l.ready.Signal()
}

// next answers what is to be written next, nil at the end.
func (l *lane) next() (b []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.queue) == 0 {
		if l.over {
			return nil
		}
		l.ready.Wait()
	}
	b, l.queue[0] = l.queue[0], nil
	l.queue = l.queue[1:]
	return b
}

// write writes, until the lane is over or its peer takes nothing for too long.
func (l *lane) write() {
	defer l.s.srv.lanes.Done()
	defer l.wrote()
	o := &l.s.srv.opt
	for b := l.next(); b != nil; b = l.next() {
		for len(b) > 0 {
			l.patience(o.Stall)
			n, err := l.conn.Write(b[:min(len(b), lanePiece)])
			b = b[n:]
			left := l.unsent.Add(int64(-n))
			if errors.Is(err, os.ErrDeadlineExceeded) && n == 0 {
				o.Log.Info("cut a client off that does not read", "peer", l.conn.RemoteAddr(), "unread_bytes", left,
					"for", o.Stall)
			}
			if err != nil && (n == 0 || !errors.Is(err, os.ErrDeadlineExceeded)) {
				_ = l.conn.Close()
				l.tell(l.lost)
				return
			}
			if most := int64(o.Outbound); left == 0 || left <= most && left+int64(n) > most {
				l.tell(l.written)
			}
		}
	}
}

// wrote is the writer's end.
func (l *lane) wrote() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	l.s.srv.unread.Add(-l.owes)
	if l.last {
		_ = l.conn.Close()
	}
}

// patience gives the peer time to take something; no more of it once the connection is to be
// closed.
func (l *lane) patience(t time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.last {
		_ = l.conn.SetWriteDeadline(time.Now().Add(t))
	}
}

// read reads, each time that it is let.
func (l *lane) read() {
	defer l.s.srv.lanes.Done()
	buf := make([]byte, laneRead)
	for range l.more {
		n, err := l.conn.Read(buf)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded) && n == 0:
			l.tell(l.came)
		case err != nil:
			l.tell(l.lost)
			return
		default:
			l.tell(func() { l.take(buf[:n]) })
		}
	}
}

func (l *lane) tell(do func()) { l.s.r.post(item{do: do}) }

// allow lets the reader read, if there is room for what it may read.
func (l *lane) allow() {
	switch s := l.s; {
	case l.reading || l.home || s.closing || s.closed:
	case len(s.later) > 0 || !s.room():
		s.unreads()
	default:
		s.reads()
		l.reading = true
		l.more <- struct{}{}
	}
}

// flushed is called when the writer has all output there is. If that leaves room, the writer may have
// nothing more to tell: it tells when there comes to be room, and when everything is written.
func (l *lane) flushed() {
	switch s := l.s; {
	case !s.room():
	case len(s.later) > 0:
		l.tell(l.written)
	default:
		l.allow()
	}
}

// take takes what was read. The reader has its buffer back after that.
func (l *lane) take(buf []byte) {
	if !l.s.closed {
		l.s.taken(buf)
	}
	l.came()
}

// came is called when the reader has come back.
func (l *lane) came() {
	l.reading = false
	l.move()
}

// written is called when there is room again.
func (l *lane) written() {
	s := l.s
	if s.closed || s.lane != l {
		return
	}
	if l.unsent.Load() == 0 {
		l.pushes = 0
	}
	s.count()
	s.resume()
	l.move()
}

// move lets the reader go on, or takes the connection back to its loop when all is written.
func (l *lane) move() {
	s := l.s
	if s.lane != l || s.closed {
		return
	}
	s.tellLeftOut() // here, as written may not be called any more: the connection is on its way back then
	s.passTurns()   // likewise
	idle := l.unsent.Load() == 0 && len(s.out) == 0 && len(s.later) == 0 && !s.closing
	switch {
	case !idle:
		if l.home && !l.reading { // there is more to write than there was
			l.home = false
			_ = l.conn.SetReadDeadline(time.Time{})
		}
		l.allow()
	case l.reading: // it has to be called back
		l.home = true
		_ = l.conn.SetReadDeadline(time.Now())
	default:
		l.goHome()
	}
}

// goHome gives the connection back to its loop. What is to be written until it has arrived
// waits.
func (l *lane) goHome() {
	s := l.s
	l.finish(false, 0)
	s.lane, s.moving = nil, true
	_ = l.conn.SetDeadline(time.Time{})
	plainZones(l.conn)
	arrived, err := s.r.loop.Enroll(gnet.NewContext(context.Background(), s), l.conn)
	if err != nil {
		_ = l.conn.Close()
		s.stranded(err)
		return
	}
	s.srv.lanes.Go(func() {
		err := (<-arrived).Err
		l.tell(func() { s.stranded(err) })
	})
}

// stranded ends a connection that its loop did not take back.
func (s *session) stranded(err error) {
	if s.moving {
		s.srv.opt.Log.Warn("cannot serve a connection any more", "error", errors.Join(errNotOpened, err))
		s.moving = false
		s.gone()
	}
}

// arrive is called when the connection is back on its loop.
func (s *session) arrive(c gnet.Conn) gnet.Action {
	if s.moving = false; s.closed {
		return gnet.Close
	}
	s.conn = c
	s.reads()
	s.r.post(item{do: s.flush})
	return gnet.None
}

// finish ends both goroutines. With last the connection is closed as soon as all is written,
// or its peer had time to take it; of the unread bytes, which stay counted until then, it
// answers how many it took over.
func (l *lane) finish(last bool, unread int64) (owes int64) {
	close(l.more)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over, l.last = true, last; last && !l.ended {
		l.owes = unread
		_ = l.conn.SetDeadline(time.Now().Add(closeWithin))
	}
	l.ready.Signal()
	return l.owes
}

// lost is called when the connection broke, or its peer does not read.
func (l *lane) lost() {
	s := l.s
	if s.lane == l && !s.closed {
		l.finish(false, 0)
		_ = l.conn.Close()
		s.gone()
	}
}

// notPushed says that the peer left too much of what was pushed to it unread.
func (s *session) notPushed() *wire.Error {
	return wire.Errorf(wire.ResourceExhausted,
		"more than %d bytes of events at once: connect again and go on from the last cursor", s.srv.opt.Pushes)
}
