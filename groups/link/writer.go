package link

import (
	"net"
	"sync"
	"time"
)

// marshaler is what raft's messages have in common.
type marshaler interface{ MarshalTo([]byte) (int, error) }

// frameWriter writes frames, from any goroutine.
type frameWriter struct {
	c     net.Conn
	stall time.Duration
	mu    struct {
		sync.Mutex
		kept []byte
	}
}

// send writes what is at most size bytes long.
func (w *frameWriter) send(frame byte, m marshaler, size int) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	b := w.mu.kept
	if frameHead+size > len(b) {
		b = make([]byte, max(frameHead+size, min(2*len(b), keptBytes)))
		if len(b) <= keptBytes {
			w.mu.kept = b
		}
	}
	n, err := m.MarshalTo(b[frameHead:])
	if err != nil {
		return err
	}
	putHead(b, frame, n)
	return writePieces(w.c, b[:frameHead+n], w.stall)
}

// signal writes a frame without a body.
func (w *frameWriter) signal(frame byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	var head [frameHead]byte
	putHead(head[:], frame, 0)
	return writePieces(w.c, head[:], w.stall)
}

// beat says that this end lives until done is closed. When it cannot, the reader of
// the same connection will find out.
func (w *frameWriter) beat(done <-chan struct{}, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return
		case <-tick.C:
			if w.signal(frameAlive) != nil {
				return
			}
		}
	}
}
