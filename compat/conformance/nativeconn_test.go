package conformance_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/vmihailenco/msgpack/v5"
)

// nativeConn is one connection: replies go to whoever waits for them by id, pushes
// to the request or subscription they are about.
type nativeConn struct {
	conn   net.Conn
	nodeID string // as hello told
	clusID string

	mu struct {
		sync.Mutex
		last    uint64
		replies map[uint64]chan []any
		queued  map[uint64]chan message
		streams map[uint64]func(event []any)
	}
	done chan struct{} // closed when nothing comes any more
}

func dialNative(t testing.TB, addr string) *nativeConn {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	c := &nativeConn{conn: conn, done: make(chan struct{})}
	c.mu.replies, c.mu.queued = make(map[uint64]chan []any), make(map[uint64]chan message)
	c.mu.streams = make(map[uint64]func([]any))
	t.Cleanup(func() { conn.Close(); <-c.done })
	go c.read()
	_, reply := c.send(opHello, []any{[]any{1, 1}}, nil)
	answer, ok := <-reply
	if !ok || toInt(answer[1]) != 0 {
		t.Fatalf("hello: %v", answer)
	}
	welcome := fieldsOf("welcome", answer[2])
	c.nodeID, c.clusID = welcome["node_id"].(string), welcome["cluster_id"].(string)
	return c
}

// fieldsOf names the fields of an element.
func fieldsOf(element string, v any) map[string]any {
	all := make(map[string]any)
	array, _ := v.([]any)
	for i, name := range elements[element] {
		if i < len(array) {
			all[name] = array[i]
		}
	}
	return all
}

// send asks, and answers the id and where the reply comes. The channel is closed
// when the connection ends first.
func (c *nativeConn) send(op uint64, args []any, queued chan message) (uint64, chan []any) {
	reply := make(chan []any, 1)
	c.mu.Lock()
	defer c.mu.Unlock() // held while it writes: ids must grow on the wire
	c.mu.last++
	id := c.mu.last
	c.mu.replies[id] = reply
	if queued != nil {
		c.mu.queued[id] = queued
	}
	var b bytes.Buffer
	b.Write(make([]byte, 4))
	e := msgpack.NewEncoder(&b)
	e.UseCompactInts(true)
	if err := e.Encode(append([]any{id, op}, args...)); err != nil {
		panic(err) // it encodes what is plain
	}
	binary.BigEndian.PutUint32(b.Bytes(), uint32(b.Len()-4))
	if _, err := c.conn.Write(b.Bytes()); err != nil {
		delete(c.mu.replies, id)
		close(reply)
	}
	return id, reply
}

// read hands out what comes, until the connection ends.
func (c *nativeConn) read() {
	defer close(c.done)
	defer c.end()
	for {
		var head [4]byte
		if _, err := io.ReadFull(c.conn, head[:]); err != nil {
			return
		}
		payload := make([]byte, binary.BigEndian.Uint32(head[:]))
		if _, err := io.ReadFull(c.conn, payload); err != nil {
			return
		}
		var frame []any
		if err := msgpack.Unmarshal(payload, &frame); err != nil || len(frame) < 2 {
			return
		}
		c.hand(frame)
	}
}

func (c *nativeConn) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, reply := range c.mu.replies {
		delete(c.mu.replies, id)
		close(reply)
	}
}

// Operations that no RPC stands for, as PROTOCOL.md numbers them.
const (
	opHello  = 1
	opCancel = 25
)

// Kinds of push, as PROTOCOL.md numbers them.
const (
	pushQueued = 1
	pushEvent  = 2
)

func (c *nativeConn) hand(frame []any) {
	id := uint64(toInt(frame[0]))
	if id > 0 {
		c.mu.Lock()
		reply := c.mu.replies[id]
		delete(c.mu.replies, id)
		c.mu.Unlock()
		if reply != nil {
			reply <- frame
		}
		return
	}
	fields := frame[2:]
	switch toInt(frame[1]) {
	case pushQueued:
		about := uint64(toInt(fields[0]))
		c.mu.Lock()
		to := c.mu.queued[about]
		c.mu.Unlock()
		if to != nil {
			to <- byName(method("Acquire").Output(), pushes["queued"][1:], fields[1:])
		}
	case pushEvent:
		c.mu.Lock()
		to := c.mu.streams[uint64(toInt(fields[0]))]
		c.mu.Unlock()
		if to != nil {
			to(fields)
		}
	}
}

// nativeCodes are the names of the codes, as PROTOCOL.md numbers them.
var nativeCodes = map[int64]string{
	1: "CANCELLED", 3: "INVALID_ARGUMENT", 4: "DEADLINE_EXCEEDED", 8: "RESOURCE_EXHAUSTED",
	9: "FAILED_PRECONDITION", 10: "ABORTED", 12: "UNIMPLEMENTED", 13: "INTERNAL", 14: "UNAVAILABLE",
}

// answerOf names the fields of a reply.
func (c *nativeConn) answerOf(rpc string, reply []any) (message, *refusal) {
	if code := toInt(reply[1]); code != 0 {
		text, _ := reply[2].(string)
		return nil, &refusal{nativeCodes[code], text}
	}
	op := operations[rpc]
	names := make([]string, len(op.spec.Results))
	for i := range op.spec.Results {
		names[i] = op.spec.Results[i].Name
	}
	m := byName(method(rpc).Output(), names, reply[2:])
	if rpc == "Health" { // which hello told
		m["node_id"], m["cluster_id"] = c.nodeID, c.clusID
	}
	return m, nil
}

func (c *nativeConn) call(ctx context.Context, rpc string, req message) (message, *refusal) {
	op := operations[rpc]
	args, err := op.arguments(method(rpc).Input(), req)
	if err != nil {
		return nil, broken(err)
	}
	_, reply := c.send(op.number, args, nil)
	return c.await(ctx, rpc, reply)
}

func (c *nativeConn) await(ctx context.Context, rpc string, reply chan []any) (message, *refusal) {
	select {
	case frame, ok := <-reply:
		if !ok {
			return nil, broken(io.ErrUnexpectedEOF)
		}
		return c.answerOf(rpc, frame)
	case <-ctx.Done():
		return nil, broken(ctx.Err())
	}
}
