package groups

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/pathlockd/pathlockd/groups/mesh"
)

// asks is the questions to other nodes that are not answered yet.
type asks struct {
	mu   sync.Mutex
	next uint64
	open map[uint64]ask
}

type ask struct {
	conn *mesh.Conn
	to   chan []byte // closed without an answer when the connection is
}

var errNoPeer = errors.New("the node cannot be reached")

// ask sends a question to a node and waits for its answer.
func (c *cluster) ask(host string, kind byte, body []byte, within time.Duration) ([]byte, error) {
	conn := c.conn(host)
	if conn == nil {
		return nil, errNoPeer
	}
	a := &c.asks
	q := ask{conn, make(chan []byte, 1)}
	a.mu.Lock()
	if a.open == nil {
		a.open = make(map[uint64]ask)
	}
	a.next++
	id := a.next
	a.open[id] = q
	a.mu.Unlock()
	defer func() {
		a.mu.Lock()
		delete(a.open, id)
		a.mu.Unlock()
	}()
	if !conn.Send(append(binary.AppendUvarint([]byte{kind}, id), body...)) {
		return nil, errNoPeer
	}
	late := time.NewTimer(within)
	defer late.Stop()
	select {
	case b, ok := <-q.to:
		if !ok {
			return nil, errNoPeer
		}
		return b, nil
	case <-late.C:
		return nil, fmt.Errorf("no answer within %v", within)
	case <-c.n.stop:
		return nil, errNoPeer
	}
}

// answer hands an answer to who asked for it.
func (a *asks) answer(conn *mesh.Conn, id uint64, body []byte) {
	a.mu.Lock()
	q, ok := a.open[id]
	if ok && q.conn == conn {
		delete(a.open, id)
	}
	a.mu.Unlock()
	if ok && q.conn == conn {
		q.to <- append([]byte{}, body...)
	}
}

// lost ends the questions that were asked on a connection.
func (a *asks) lost(conn *mesh.Conn) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for id, q := range a.open {
		if q.conn == conn {
			delete(a.open, id)
			close(q.to)
		}
	}
}
