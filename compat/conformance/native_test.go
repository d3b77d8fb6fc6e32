package conformance_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/vmihailenco/msgpack/v5"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// nativeFace is a client of the native protocol, written from wire/PROTOCOL.md.
type nativeFace struct {
	addr string
	conn *nativeConn
}

func newNative(t testing.TB, addr string) *nativeFace {
	t.Helper()
	return &nativeFace{addr: addr, conn: dialNative(t, addr)}
}

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
	_, reply := c.send(1, []any{[]any{1, 1}}, nil)
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

func toInt(v any) int64 {
	switch v := v.(type) {
	case int8:
		return int64(v)
	case int16:
		return int64(v)
	case int32:
		return int64(v)
	case int64:
		return v
	case uint8:
		return int64(v)
	case uint16:
		return int64(v)
	case uint32:
		return int64(v)
	case uint64:
		return int64(v)
	}
	return 0
}

func fromBase64(s string) ([]byte, error) { return base64.StdEncoding.DecodeString(s) }

// byName makes a message of values by position. What the message has no field for is
// left out.
func byName(d protoreflect.MessageDescriptor, names []string, values []any) message {
	m := message{}
	for i, name := range names {
		f := d.Fields().ByName(protoreflect.Name(name))
		if f == nil || i >= len(values) || values[i] == nil {
			continue
		}
		if v := fromWire(f, values[i]); v != nil {
			m[name] = v
		}
	}
	return m
}

// fromWire is a value that msgpack brought, nil when it is the default.
func fromWire(f protoreflect.FieldDescriptor, v any) any {
	if f.IsList() {
		array, _ := v.([]any)
		var list []any
		for _, x := range array {
			if f.Kind() == protoreflect.StringKind {
				list = append(list, x)
			} else {
				list = append(list, orEmpty(fromWireValue(f, x)))
			}
		}
		if list == nil {
			return nil
		}
		return list
	}
	return fromWireValue(f, v)
}

func fromWireValue(f protoreflect.FieldDescriptor, v any) any {
	switch k := f.Kind(); {
	case f.IsMap():
		m := message{}
		pairs, _ := v.(map[string]any)
		for k, v := range pairs {
			m[k] = v
		}
		return m
	case k == protoreflect.MessageKind:
		array, _ := v.([]any)
		layout := layoutOf[f.Message().Name()]
		fields := make([]string, len(elements[layout]))
		for i, name := range elements[layout] {
			if to, ok := renamed[layout+"."+name]; ok {
				name = to
			}
			fields[i] = name
		}
		return byName(f.Message(), fields, array)
	case k == protoreflect.EnumKind:
		if n := toInt(v); n != 0 {
			return enumName(f.Enum(), protoreflect.EnumNumber(n))
		}
	case k == protoreflect.BytesKind:
		if b, _ := v.([]byte); len(b) > 0 {
			return base64.StdEncoding.EncodeToString(b)
		}
	case k == protoreflect.StringKind:
		if s := v.(string); s != "" {
			return s
		}
	case k == protoreflect.BoolKind:
		if v.(bool) {
			return true
		}
	default:
		if n := toInt(v); n != 0 {
			return n
		}
	}
	return nil
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

func (n *nativeFace) has(rpc string) bool { _, ok := operations[rpc]; return ok }
func (n *nativeFace) full() bool          { return true }

func (n *nativeFace) call(ctx context.Context, rpc string, req message) (message, *refusal) {
	return n.conn.call(ctx, rpc, req)
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

func (n *nativeFace) start(t testing.TB, rpc string, req message) *open {
	t.Helper()
	c := dialNative(t, n.addr)
	op := operations[rpc]
	args, err := op.arguments(method(rpc).Input(), req)
	if err != nil {
		t.Fatal(err)
	}
	o := &open{told: make(chan message, 1), ended: make(chan outcome, 1)}
	id, reply := c.send(op.number, args, o.told)
	o.cancel = func() { c.send(25, []any{id}, nil) }
	o.drop = func() { c.conn.Close() }
	go func() {
		answer, refused := c.await(context.Background(), rpc, reply)
		o.ended <- outcome{answer, refused}
	}()
	return o
}

// acquireStream asks for all the chunks' paths in one request with the bulk flag.
func (n *nativeFace) acquireStream(ctx context.Context, chunks []message) (message, *refusal) {
	all := message{}
	for _, c := range chunks {
		for name, v := range c {
			if list, ok := v.([]any); ok {
				old, _ := all[name].([]any)
				v = append(old, list...)
			}
			all[name] = v
		}
	}
	return n.conn.call(ctx, "AcquireStream", all)
}

func (n *nativeFace) subscribe(t testing.TB, req message) (*stream, *refusal) {
	t.Helper()
	c := dialNative(t, n.addr)
	op := operations["Subscribe"]
	from, err := positionsOf(req)
	if err != nil {
		return nil, broken(err)
	}
	ask := message{"owner_id": req["owner_id"], "types": req["types"]}
	args, err := op.arguments(method("Subscribe").Input(), ask)
	if err != nil {
		return nil, broken(err)
	}
	args[2] = from
	// The events of a connection with one subscription are its own.
	s := &stream{events: make(chan message, 64), close: func() { c.conn.Close() }}
	cursor := from
	c.mu.Lock()
	c.mu.streams[1] = func(event []any) {
		m, at := eventOf(event)
		cursor = advance(cursor, at)
		m["cursor"] = cursorOf(cursor)
		s.events <- m
	}
	c.mu.Unlock()
	_, reply := c.send(op.number, args, nil)
	answer, ok := <-reply
	if !ok {
		return nil, broken(io.ErrUnexpectedEOF)
	}
	if code := toInt(answer[1]); code != 0 {
		return nil, &refusal{nativeCodes[code], fmt.Sprint(answer[2])}
	}
	if toInt(answer[2]) != 1 {
		return nil, broken(fmt.Errorf("the first subscription of a connection has number %v", answer[2]))
	}
	return s, nil
}

// eventOf names the fields of an event, and tells its position.
func eventOf(fields []any) (message, []any) {
	named := make(map[string]any)
	for i, name := range pushes["event"] {
		if i < len(fields) {
			named[name] = fields[i]
		}
	}
	d := method("Subscribe").Output()
	m := byName(d, []string{"owner_id", "path", "namespace", "fencing_token"},
		[]any{named["owner"], named["path"], named["namespace"], named["token"]})
	kind := protoreflect.EnumNumber(toInt(named["kind"]))
	if kind == 4 { // EXPIRED, which the .proto has from 100 on
		kind = 100
	}
	m["type"] = enumName(d.Fields().ByName("type").Enum(), kind)
	at, _ := named["position"].([]any)
	return m, at
}

// advance replaces the position of the same log.
func advance(cursor []any, at []any) []any {
	out := []any{at}
	for _, p := range cursor {
		if old, _ := p.([]any); len(old) > 0 && toInt(old[0]) != toInt(at[0]) {
			out = append(out, p)
		}
	}
	return out
}

// A cursor is kept as gRPC's clients do, as bytes that nobody looks into.
func cursorOf(positions []any) string {
	b, err := msgpack.Marshal(positions)
	if err != nil {
		panic(err) // it was decoded from msgpack
	}
	return base64.StdEncoding.EncodeToString(b)
}

func positionsOf(req message) (positions []any, err error) {
	text, _ := req["cursor"].(string)
	if text == "" {
		return nil, nil
	}
	b, err := fromBase64(text)
	if err != nil {
		return nil, err
	}
	return positions, msgpack.Unmarshal(b, &positions)
}
