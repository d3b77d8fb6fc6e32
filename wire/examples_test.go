package wire

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/vmihailenco/msgpack/v5"
)

const (
	examplesBegin = "<!-- examples: checked by TestProtocolExamples -->\n"
	examplesEnd   = "<!-- /examples -->\n"
)

// example is one frame of PROTOCOL.md section 7.
type example struct {
	says  string
	from  string // ">" the client, "<" the server
	frame []byte
}

// examples is the session the page shows.
func examples() []example {
	const p = "db:/mail/box"
	request := func(id uint64, req *Request) []byte { return AppendRequest(nil, id, req) }
	reply := func(id uint64, op Op, res *Result) []byte { return AppendReply(nil, id, op, res) }
	welcome := &Welcome{Version: 1, NodeID: "n0", ClusterID: "c1", Session: sessionBytes, Epoch: 1,
		ServerVersion: "1.0",
		Limits: Limits{FrameBytes: MaxFrameBytes, InFlight: 256, Waiting: 16_384, Subscriptions: 256, BoundOwners: 1024,
			RepeatMillis: 60_000, Answers: 1024,
			UnreadBytes: 1 << 20, UnreadMillis: 30_000, RequestMillis: 30_000, GroupInFlight: 1024}}
	blocked := Result{Status: StatusQueued, Path: p, Owner: "bob", Reason: ReasonWriteLocked, Token: 8,
		Namespace: "db:/mail", Position: 1}
	return []example{
		{"hello: versions 1 to 1, a new session on its first connection, by doc/1", ">",
			request(1, &Request{Op: OpHello, Hello: &Hello{MinVersion: 1, MaxVersion: 1, Epoch: 1, Client: "doc/1"}})},
		{"welcome: version 1, the node, the cluster, the session's id, epoch 1, the limits, the server's version", "<",
			reply(1, OpHello, &Result{List: &List{Welcome: welcome}})},
		{"acquire: alice, for 30 s, to write one path", ">",
			request(2, &Request{Op: OpAcquire, Owner: "alice", TTLMillis: 30_000,
				Locks: []LockRequest{{Path: "db:/mail/out"}}})},
		{"status 0 OK, and the fencing token 7", "<",
			reply(2, OpAcquire, &Result{Token: 7, Namespace: "db:/mail"})},
		{"acquire, flag 1 wait: to write another path, which bob holds", ">",
			request(3, &Request{Op: OpAcquire, Owner: "alice", TTLMillis: 30_000, Locks: []LockRequest{{Path: p}},
				Flags: FlagWait})},
		{"push queued: request 3 is first in the queue, behind bob's write lock; its token will be 8", "<",
			AppendQueued(nil, &Queued{ID: 3, Result: blocked})},
		{"renew, meanwhile, in one write with a ping: requests need not wait for one another", ">",
			request(4, &Request{Op: OpRenew, Owner: "alice", TTLMillis: 30_000})},
		{"ping", ">", request(5, &Request{Op: OpPing})},
		{"ping is answered first", "<", reply(5, OpPing, &Result{})},
		{"renew: status 0 OK, no revocation asked for: all defaults, and left out", "<", reply(4, OpRenew, &Result{})},
		{"bob let go: request 3 is granted", "<", reply(3, OpAcquire, &Result{Token: 8, Namespace: "db:/mail"})},
		{"release both paths, and the next acquire behind it: shared (mode 1 read), not to be queued (flag 2)", ">",
			request(6, &Request{Op: OpRelease, Owner: "alice", Releases: []ReleaseRequest{{Path: "db:/mail/out"},
				{Path: p}}})},
		{"acquire", ">", request(7, &Request{Op: OpAcquire, Owner: "alice", TTLMillis: 30_000,
			Locks: []LockRequest{{Path: p, Mode: ModeRead}}, Flags: FlagNoQueue})},
		{"release is done", "<", reply(6, OpRelease, &Result{})},
		{"status 1 CONFLICT: carol holds a write lock (reason 1 ANCESTOR_LOCKED) on what lies above", "<",
			reply(7, OpAcquire, &Result{Status: StatusConflict, Path: "db:/mail", Owner: "carol",
				Reason: ReasonAncestorLocked})},
		{"subscribe to what happens to alice", ">", request(8, &Request{Op: OpSubscribe, Owner: "alice"})},
		{"subscription 1, from here on in logs 2 and 3", "<",
			reply(8, OpSubscribe, &Result{Count: 1, List: &List{Positions: []Position{{2, 41, 0}, {3, 9, 1}}}})},
		{"push event: number 1 of subscription 1 is a REVOKE (kind 2), about all namespaces, at entry 42 of log 2", "<",
			AppendEvent(nil, &Event{Subscription: 1, Number: 1, Kind: EventRevoke, Owner: "alice",
				At: Position{2, 42, 1}})},
		{"an acquire with a path that is none", ">",
			request(9, &Request{Op: OpAcquire, Owner: "alice", TTLMillis: 30_000,
				Locks: []LockRequest{{Path: "db:/mail/"}}})},
		{"is refused with code 3", "<", reply(9, OpAcquire, &Result{Code: InvalidArgument,
			Message: CheckPath("requests", "db:/mail/").Message})},
		{"push lease, with feature 2, to who tied alice's lease in db:/mail: it was KILLED (kind 1), with what " +
			"request 2 got", "<", AppendLeaseEvent(nil, &LeaseEvent{Kind: EventKilled, Owner: "alice",
			Namespace: "db:/mail",
			Acquires:  []uint64{AcquireMark([SessionBytes]byte(sessionBytes), 2)}})},
		{"push goodbye: the server is about to stop", "<",
			AppendGoodbye(nil, &Error{Code: Unavailable, Message: "the server stops"})},
	}
}

// examplesText is the examples as the page shows them: what a frame is for, what
// it says, and its bytes.
func examplesText(t *testing.T) string {
	var b strings.Builder
	b.WriteString("```\n")
	for i, e := range examples() {
		if i > 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(&b, "# %s\n", e.says)
		d := msgpack.NewDecoder(bytes.NewReader(e.frame[frameHead:]))
		v, err := d.DecodeInterfaceLoose()
		if err != nil {
			t.Fatalf("%s: %v", e.says, err)
		}
		fmt.Fprintf(&b, "# %s\n", notation(v))
		fmt.Fprintf(&b, "%s %08x %x\n", e.from, e.frame[:frameHead], e.frame[frameHead:])
	}
	b.WriteString("```\n")
	return b.String()
}

// notation writes a msgpack value for people.
func notation(v any) string {
	switch v := v.(type) {
	case nil:
		return "nil"
	case string:
		return fmt.Sprintf("%q", v)
	case []byte:
		return fmt.Sprintf(`b"%x"`, v)
	case []any:
		items := make([]string, 0, len(v))
		for _, item := range v {
			items = append(items, notation(item))
		}
		return "[" + strings.Join(items, ", ") + "]"
	}
	return fmt.Sprint(v)
}

// TestProtocolExamples holds the examples of the page against the codec: they are
// what it encodes, and it decodes them.
func TestProtocolExamples(t *testing.T) {
	p := readPage(t)
	before, rest, ok := strings.Cut(p.text, examplesBegin)
	shown, after, ok2 := strings.Cut(rest, examplesEnd)
	if !ok || !ok2 {
		t.Fatal("PROTOCOL.md has no markers around its examples")
	}
	want := examplesText(t)
	if *update {
		if err := os.WriteFile("PROTOCOL.md", []byte(before+examplesBegin+want+examplesEnd+after), 0o644); err != nil {
			t.Fatal(err)
		}
		shown = want
	}
	if shown != want {
		t.Error("the examples of PROTOCOL.md are not what the codec writes: run go test ./wire -run Examples -update")
	}
	frames := 0
	for _, line := range strings.Split(shown, "\n") {
		from, hex, ok := strings.Cut(line, " ")
		if !ok || from != ">" && from != "<" {
			continue
		}
		frames++
		frame := mustHex(t, hex)
		payload, size, _, err := NextFrame(frame, MaxFrameBytes)
		if err != nil || size != len(frame) {
			t.Errorf("%s: a frame of %d of %d bytes, %v", line, size, len(frame), err)
			continue
		}
		if from == "<" {
			if _, _, _, _, err := DecodeReply(payload); err != nil {
				t.Errorf("%s: %v", line, err)
			}
			continue
		}
		var req Request
		id, _, _, refusal := DecodeRequest(payload, &req)
		if refusal != nil || id == 0 {
			t.Errorf("%s: %v", line, refusal)
		} else if again := AppendRequest(nil, id, &req); !bytes.Equal(again, frame) {
			t.Errorf("%s: encodes again to %x", line, again)
		}
	}
	if frames != len(examples()) {
		t.Errorf("the page shows %d frames, want %d", frames, len(examples()))
	}
}
