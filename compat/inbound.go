package compat

import (
	"encoding/binary"
	"errors"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
)

// What clients may make the server hold of messages they never finish.
//
// A message is gathered in memory until it is whole, and HTTP/2 lets a client have
// many under way: without a bound over all connections, a few of them could ask for
// any amount of memory by sending all but the last byte of a thousand messages each.
// gRPC's library has no such bound. So the connections are read through a filter that
// follows the frames (RFC 9113) and the messages in them, and counts what is
// unfinished; it looks at headers and lengths alone.

const (
	// maxUnfinished bounds the bytes of unfinished messages of all connections, unless
	// the options say otherwise.
	maxUnfinished = 256 << 20
	// fairShare is what one connection may have of them when the server as a whole is
	// at the bound: who is not the cause of it goes on.
	fairShare = 64 << 10
	// streamCost is counted for each stream with an unfinished message, for what
	// following it takes.
	streamCost = 128
)

// budget is the unfinished bytes of all connections of a server.
type budget struct {
	most int64
	used atomic.Int64
}

// errUnfinished ends a connection that sends messages and does not finish them.
var errUnfinished = errors.New("the server holds too many bytes of unfinished messages")

// filtered is a connection whose unfinished messages are counted.
type filtered struct {
	net.Conn
	budget *budget
	tell   func(http.ConnState) bool // told when the state changes; false: the connection is given up
	given  *answers

	mu struct {
		sync.Mutex
		in, out frames
		state   http.ConnState         // idle: every call was answered
		streams map[uint32]*unfinished // calls that are not answered; nil: nothing unfinished
		held    int64                  // bytes of all of them
	}
}

func newFiltered(c net.Conn, b *budget, tell func(http.ConnState) bool, given *answers) *filtered {
	f := &filtered{Conn: c, budget: b, tell: tell, given: given}
	f.mu.in.preface = len(clientPreface)
	f.mu.streams = make(map[uint32]*unfinished)
	return f
}

// Read implements net.Conn.
func (f *filtered) Read(b []byte) (int, error) {
	n, err := f.Conn.Read(b)
	if n > 0 {
		if err := f.follow(b[:n]); err != nil {
			return 0, err
		}
	}
	return n, err
}

// Write implements net.Conn.
func (f *filtered) Write(b []byte) (int, error) {
	f.mu.Lock()
	f.mu.out.take(b, func(h *frameHead, _ []byte) {
		if h.ends() {
			f.forget(h.stream)
		}
	})
	f.mu.Unlock()
	n, err := f.Conn.Write(b)
	f.mu.Lock()
	f.settle() // only now: who is idle may be closed
	f.mu.Unlock()
	return n, err
}

// Close implements net.Conn.
func (f *filtered) Close() error {
	f.tell(http.StateClosed)
	f.mu.Lock()
	for id := range f.mu.streams {
		f.forget(id)
	}
	f.mu.Unlock()
	return f.Conn.Close()
}

// follow counts what was read, and says why nobody is to see it.
func (f *filtered) follow(b []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.in.take(b, func(h *frameHead, data []byte) {
		if _, open := f.mu.streams[h.stream]; h.kind == frameHeaders && !open {
			f.mu.streams[h.stream] = nil
		}
		if len(data) > 0 && h.kind == frameData {
			f.data(h.stream, data)
		}
		if h.kind == frameReset && h.left == 0 && h.code == codeCancel {
			f.given.cancelled(h.stream)
		}
		if h.ends() && (h.kind != frameData || h.left == 0) {
			f.ended(h)
		}
	})
	if f.budget.used.Load() > f.budget.most && f.mu.held > fairShare {
		return errUnfinished
	}
	if !f.settle() {
		return net.ErrClosed
	}
	return nil
}

// settle tells of a change of state, and answers what it is told then.
func (f *filtered) settle() bool {
	now := http.StateIdle
	if f.mu.in.preface > 0 {
		now = http.StateNew
	} else if len(f.mu.streams) > 0 {
		now = http.StateActive
	}
	if now == f.mu.state {
		return true
	}
	f.mu.state = now
	return f.tell(now)
}

// unfinished is a message under way: a byte, its length in four, and so many bytes
// (the gRPC protocol over HTTP/2, "Length-Prefixed-Message").
type unfinished struct {
	prefix [5]byte
	got    int   // of the prefix
	left   int64 // of the message
	held   int64 // counted for it
}

// whole stands for what a stream has unfinished once its client ended it.
var whole = new(unfinished)

// data takes bytes of messages on a stream. What comes after either side ended it is
// not kept by anybody.
func (f *filtered) data(stream uint32, b []byte) {
	m, open := f.mu.streams[stream]
	if !open || m == whole {
		return
	}
	for len(b) > 0 {
		if m == nil {
			m = &unfinished{held: streamCost}
			f.mu.streams[stream] = m
			f.count(streamCost)
		}
		if m.got < len(m.prefix) {
			n := copy(m.prefix[m.got:], b)
			m.got, b = m.got+n, b[n:]
			if m.got == len(m.prefix) {
				m.left = int64(binary.BigEndian.Uint32(m.prefix[1:]))
			}
		} else {
			n := min(int64(len(b)), m.left)
			m.left, m.held, b = m.left-n, m.held+n, b[n:]
			f.count(n)
		}
		if m.got == len(m.prefix) && m.left == 0 {
			f.count(-m.held)
			f.mu.streams[stream], m = nil, nil
		}
	}
}

func (f *filtered) count(n int64) {
	f.mu.held += n
	f.budget.used.Add(n)
}

// ended is for a stream on which the client sends nothing more: it waits for its
// answer, unless it does not want that.
func (f *filtered) ended(h *frameHead) {
	_, open := f.mu.streams[h.stream]
	f.forget(h.stream)
	if open && h.kind != frameReset {
		f.mu.streams[h.stream] = whole
	}
}

// forget is for a stream that ended.
func (f *filtered) forget(stream uint32) {
	if m := f.mu.streams[stream]; m != nil {
		f.count(-m.held)
	}
	delete(f.mu.streams, stream)
}

// clientPreface is what a client sends before its first frame.
const clientPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

// Types and flags of frames.
const (
	frameData    = 0
	frameHeaders = 1
	frameReset   = 3
	flagEnd      = 0x1
	flagPadded   = 0x8
	codeCancel   = 0x8 // of frameReset: the stream is not wanted any more
)

// frameHead is the head of a frame, and how far it is read.
type frameHead struct {
	kind, flags byte
	stream      uint32
	left        int // bytes of its payload still to come
	pad         int // of these, padding at the end
	padded      bool
	code        uint32 // of a reset
}

// ends says that nothing of the stream's messages follows.
func (h *frameHead) ends() bool {
	return h.kind == frameReset || (h.kind == frameData || h.kind == frameHeaders) && h.flags&flagEnd != 0
}

// frames follows the frames of one direction.
type frames struct {
	preface int // bytes to skip
	head    [9]byte
	got     int // of the head
	frameHead
}

// take reads bytes. each is called with the head of each frame, and again with each
// piece of a data frame's payload.
func (f *frames) take(b []byte, each func(h *frameHead, data []byte)) {
	if n := min(f.preface, len(b)); n > 0 {
		f.preface, b = f.preface-n, b[n:]
	}
	for len(b) > 0 {
		if f.got < len(f.head) {
			n := copy(f.head[f.got:], b)
			f.got, b = f.got+n, b[n:]
			if f.got == len(f.head) {
				f.begin()
				each(&f.frameHead, nil)
				f.done()
			}
			continue
		}
		if f.padded {
			f.padded, f.pad, f.left, b = false, int(b[0]), f.left-1, b[1:]
			f.done()
			continue
		}
		piece := b[:min(len(b), f.left)]
		b = b[len(piece):]
		data := piece[:min(len(piece), max(f.left-f.pad, 0))]
		f.left -= len(piece)
		switch f.kind {
		case frameData:
			each(&f.frameHead, data)
		case frameReset:
			for _, c := range data {
				f.code = f.code<<8 | uint32(c)
			}
			each(&f.frameHead, data)
		}
		f.done()
	}
}

// begin reads a whole head.
func (f *frames) begin() {
	f.frameHead = frameHead{
		kind: f.head[3], flags: f.head[4], stream: binary.BigEndian.Uint32(f.head[5:]) &^ (1 << 31),
		left: int(f.head[0])<<16 | int(f.head[1])<<8 | int(f.head[2]),
	}
	f.padded = f.kind == frameData && f.flags&flagPadded != 0
}

// done goes on to the next head once the payload is read.
func (f *frames) done() {
	if f.left == 0 {
		f.got = 0
	}
}
