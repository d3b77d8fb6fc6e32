package conformance_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"testing"

	"github.com/vmihailenco/msgpack/v5"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// nativeFace is a client of the native protocol, written from wire/PROTOCOL.md.
type nativeFace struct {
	addr  string
	conn  *nativeConn
	turns []*nativeConn // what is polled for takes turns: a session may have but a share of the queue
	next  int
}

func newNative(t testing.TB, addr string) *nativeFace {
	t.Helper()
	n := &nativeFace{addr: addr, conn: dialNative(t, addr)}
	for range 8 {
		n.turns = append(n.turns, dialNative(t, addr))
	}
	return n
}

func (n *nativeFace) has(rpc string) bool {
	_, ok := operations[rpc]
	return ok
}

func (n *nativeFace) full() bool { return true }

func (n *nativeFace) call(ctx context.Context, rpc string, req message) (message, *refusal) {
	if rpc == "Acquire" {
		n.next++
		return n.turns[n.next%len(n.turns)].call(ctx, rpc, req)
	}
	return n.conn.call(ctx, rpc, req)
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
	o.cancel = func() { c.send(opCancel, []any{id}, nil) }
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
	var cursor cursor
	c.mu.Lock()
	c.mu.streams[1] = func(event []any) {
		m, at := eventOf(event)
		m["cursor"] = cursor.advance(at)
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
	cursor.start(answer[3])
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

// cursor is where a subscription stands: one position for each log.
type cursor struct {
	mu struct {
		sync.Mutex
		at map[int64]any
	}
}

// start takes over what subscribe answered.
func (c *cursor) start(v any) {
	positions, _ := v.([]any)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range positions {
		c.put(p, false)
	}
}

func (c *cursor) put(p any, replace bool) {
	if c.mu.at == nil {
		c.mu.at = make(map[int64]any)
	}
	log := toInt(p.([]any)[0])
	if _, there := c.mu.at[log]; replace || !there {
		c.mu.at[log] = p
	}
}

// advance takes an event's position, and answers the whole cursor as gRPC's clients
// keep it, bytes that nobody looks into.
func (c *cursor) advance(at []any) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.put(at, true)
	b, err := msgpack.Marshal(slices.Collect(maps.Values(c.mu.at)))
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
