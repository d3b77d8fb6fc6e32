package wire

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"flag"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write testdata/vectors.json and the examples of PROTOCOL.md anew")

const vectorsFile = "testdata/vectors.json"

// vector is one entry of testdata/vectors.json: PROTOCOL.md section 10 says what
// the keys mean.
type vector struct {
	Name      string  `json:"name"`
	Direction string  `json:"direction"`
	Hex       string  `json:"hex"`
	Op        string  `json:"op,omitempty"`
	Kind      string  `json:"kind,omitempty"`
	ID        uint64  `json:"id,omitempty"`
	Settled   uint64  `json:"settled,omitempty"`
	Code      Code    `json:"code,omitempty"`
	Message   string  `json:"message,omitempty"`
	Cause     Cause   `json:"cause,omitempty"`
	Fields    any     `json:"fields,omitempty"`
	Canonical bool    `json:"canonical,omitempty"`
	Reject    *reject `json:"reject,omitempty"`
}

type reject struct {
	Answer string `json:"answer"`
	Code   Code   `json:"code,omitempty"`
	Says   string `json:"says,omitempty"`
}

// frame is the vector's bytes.
func (v *vector) frame(t testing.TB) []byte {
	t.Helper()
	b, err := hex.DecodeString(v.Hex)
	if err != nil {
		t.Fatalf("%s: %v", v.Name, err)
	}
	return b
}

// payload is the payload of a vector's one frame.
func (v *vector) payload(t testing.TB) []byte {
	t.Helper()
	frame := v.frame(t)
	payload, size, _, err := NextFrame(frame, MaxFrameBytes)
	if err != nil || size != len(frame) {
		t.Fatalf("%s: is not one frame: %d of %d bytes, %v", v.Name, size, len(frame), err)
	}
	return payload
}

// vectorsText is the whole file: one vector a line, so that a change shows as the
// lines it changes.
func vectorsText(vs []vector) []byte {
	var b bytes.Buffer
	b.WriteString("{\"about\": \"wire/PROTOCOL.md, section 10\", \"version\": 1, \"vectors\": [\n")
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	for i := range vs {
		if err := enc.Encode(&vs[i]); err != nil {
			panic(err)
		}
		if i < len(vs)-1 {
			b.Truncate(b.Len() - 1)
			b.WriteString(",\n")
		}
	}
	b.WriteString("]}\n")
	return b.Bytes()
}

// readVectors reads the file as any client's test would.
func readVectors(t testing.TB) []vector {
	t.Helper()
	b, err := os.ReadFile(vectorsFile)
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Vectors []vector }
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	if err := dec.Decode(&file); err != nil {
		t.Fatalf("%s: %v", vectorsFile, err)
	}
	return file.Vectors
}

func TestVectorsFile(t *testing.T) {
	want := vectorsText(vectors())
	if *update {
		if err := os.WriteFile(vectorsFile, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(vectorsFile)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is not what vectors() makes: run go test ./wire -run Vectors -update and look at the difference",
			vectorsFile)
	}
}

// TestVectors decodes every vector of the file and encodes the canonical ones.
func TestVectors(t *testing.T) {
	for _, v := range readVectors(t) {
		switch {
		case v.Reject != nil && v.Direction == "request":
			v.refused(t)
		case v.Reject != nil:
			v.distrusted(t)
		case v.Direction == "request":
			v.request(t)
		case v.Direction == "reply":
			v.reply(t)
		default:
			v.push(t)
		}
	}
}

func (v *vector) request(t *testing.T) {
	var req Request
	id, body, nargs, err := DecodeRequest(v.payload(t), &req)
	if err != nil {
		t.Errorf("%s: %v", v.Name, err)
		return
	}
	if err := req.Validate(); err != nil {
		t.Errorf("%s: breaks a rule: %v", v.Name, err)
	}
	if id != v.ID || req.Settled != v.Settled || req.Op.String() != v.Op {
		t.Errorf("%s: is request %d of %v, and settles all below %d", v.Name, id, req.Op, req.Settled)
	}
	if got, want := text(requestFields(&req)), text(v.Fields); got != want {
		t.Errorf("%s:\n got  %s\n want %s", v.Name, got, want)
	}
	// An entry carries the arguments alone, and is read the same.
	var again Request
	if err := DecodeArgs(req.Op, body, nargs, &again); err != nil || text(requestFields(&again)) != text(v.Fields) {
		t.Errorf("%s: its arguments alone are %s, %v", v.Name, text(requestFields(&again)), err)
	}
	if v.Canonical {
		v.encodes(t, AppendRequest(nil, id, &req))
	}
}

func (v *vector) reply(t *testing.T) {
	id, code, r, n, err := DecodeReply(v.payload(t))
	if err != nil || id != v.ID || Code(code) != v.Code {
		t.Errorf("%s: is reply %d with code %d, %v", v.Name, id, code, err)
		return
	}
	op := opNamed(v.Op)
	var res Result
	if err := res.Decode(op, Code(code), &r, n); err != nil {
		t.Errorf("%s: %v", v.Name, err)
		return
	}
	switch {
	case code != 0:
		if res.Message != v.Message || res.Cause != v.Cause {
			t.Errorf("%s: message %q and cause %d, want %q and %d", v.Name, res.Message, res.Cause, v.Message, v.Cause)
		}
	case text(resultFields(op, &res)) != text(v.Fields):
		t.Errorf("%s:\n got  %s\n want %s", v.Name, text(resultFields(op, &res)), text(v.Fields))
	}
	if v.Canonical {
		v.encodes(t, AppendReply(nil, id, op, &res))
	}
}

func (v *vector) push(t *testing.T) {
	id, kind, r, n, err := DecodeReply(v.payload(t))
	if err != nil || id != 0 {
		t.Errorf("%s: is no push but %d, %v", v.Name, id, err)
		return
	}
	p, known, err := decodePush(PushKind(kind), &r, n)
	if err != nil || !known || pushNames[p.kind] != v.Kind {
		t.Errorf("%s: is push %d, known %v, %v", v.Name, kind, known, err)
		return
	}
	if got, want := text(p.fields()), text(v.Fields); got != want {
		t.Errorf("%s:\n got  %s\n want %s", v.Name, got, want)
	}
	if v.Canonical {
		v.encodes(t, p.frame())
	}
}

func (v *vector) encodes(t *testing.T, frame []byte) {
	t.Helper()
	if got := hex.EncodeToString(frame); got != v.Hex {
		t.Errorf("%s: encodes to\n %s, want\n %s", v.Name, got, v.Hex)
	}
}

// refused does with a request what the server does.
func (v *vector) refused(t *testing.T) {
	got := serverAnswer(v.frame(t))
	if got.Answer != v.Reject.Answer || got.Code != v.Reject.Code || !strings.Contains(got.Says, v.Reject.Says) {
		t.Errorf("%s: is answered %+v, want %+v", v.Name, got, *v.Reject)
	}
	if len(got.Says) > mostMessage {
		t.Errorf("%s: message of %d bytes", v.Name, len(got.Says))
	}
}

// serverAnswer is what a server says to bytes that a client sent.
func serverAnswer(frame []byte) reject {
	payload, size, _, err := NextFrame(frame, MaxFrameBytes)
	switch {
	case err != nil:
		return reject{"goodbye", InvalidArgument, err.Error()}
	case size == 0:
		return reject{Answer: "wait"}
	}
	var req Request
	id, _, _, refusal := DecodeRequest(payload, &req)
	if refusal == nil {
		refusal = req.Validate()
	}
	switch {
	case refusal == nil:
		return reject{Answer: "done"}
	case id == 0:
		return reject{"goodbye", refusal.Code, refusal.Message}
	}
	return reject{"reply", refusal.Code, refusal.Message}
}

// distrusted does with a reply or push what a client does.
func (v *vector) distrusted(t *testing.T) {
	answer := "done"
	payload, _, _, err := NextFrame(v.frame(t), MaxFrameBytes)
	if err == nil {
		id, code, r, n, headErr := DecodeReply(payload)
		switch err = headErr; {
		case err != nil:
		case id == 0:
			_, known, pushErr := decodePush(PushKind(code), &r, n)
			if err = pushErr; !known {
				answer = "ignore"
			}
		default:
			var res Result
			err = res.Decode(opNamed(v.Op), Code(code), &r, n)
		}
	}
	if err != nil {
		answer = "close"
	}
	if answer != v.Reject.Answer {
		t.Errorf("%s: a client would %s (%v), want %s", v.Name, answer, err, v.Reject.Answer)
	}
}

// opNamed is the operation of a name, 0 if there is none.
func opNamed(name string) Op {
	for _, op := range Ops() {
		if op.String() == name {
			return op
		}
	}
	return 0
}

// TestVectorsCoverage: every field of every operation and push stands somewhere
// with another value than its default, and everything has been left out once.
func TestVectorsCoverage(t *testing.T) {
	said, left := map[string]bool{}, map[string]bool{}
	note := func(what string, v any) {
		for name, value := range v.(map[string]any) {
			key := what + "." + name
			if isZero(value) {
				left[key] = true
			} else {
				said[key] = true
			}
		}
	}
	seen := map[string]bool{}
	for _, v := range readVectors(t) {
		if v.Fields == nil {
			continue
		}
		what := v.Direction + " " + v.Op + v.Kind
		seen[what] = true
		note(what, v.Fields)
	}
	want := func(what string, names []string) {
		if !seen[what] {
			t.Errorf("no vector is a %s", what)
		}
		for _, name := range names {
			if !said[what+"."+name] || !left[what+"."+name] {
				t.Errorf("%s.%s: told %v, left out %v; want both", what, name, said[what+"."+name], left[what+"."+name])
			}
		}
	}
	p := readPage(t)
	for _, op := range p.ops {
		var optional []string
		for i, arg := range op.args {
			if op.left[i] {
				optional = append(optional, arg)
			}
		}
		want("request "+op.name, optional)
		if op.name == "hello" {
			op.results = nil // a welcome leaves nothing out
		}
		want("reply "+op.name, op.results)
	}
	for _, push := range p.pushes {
		want("push "+push.name, nil)
	}
}

// isZero says that a value of the file is its type's default.
func isZero(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case bool:
		return !v
	case string:
		return v == "" || v == "0"
	case json.Number:
		return v == "0"
	case []any:
		return len(v) == 0
	case map[string]any:
		for _, field := range v {
			if !isZero(field) {
				return false
			}
		}
		return true
	}
	return false
}
