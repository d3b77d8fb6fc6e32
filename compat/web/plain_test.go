package web

import (
	"bytes"
	"encoding/json"
	"regexp"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	pb "github.com/pathlockd/pathlockd/compat/pathlockdv1"
)

// responses lists what the unary RPCs answer.
func responses(t testing.TB) (list []protoreflect.MessageType) {
	t.Helper()
	service := pb.File_pathlockd_v1_pathlock_proto.Services().ByName("PathLock")
	for i := range service.Methods().Len() {
		m := service.Methods().Get(i)
		if m.IsStreamingServer() || m.IsStreamingClient() {
			continue
		}
		mt, err := protoregistry.GlobalTypes.FindMessageByName(m.Output().FullName())
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, mt)
	}
	return list
}

// fill gives every field of a message a value that shows how it is spelled.
func fill(m protoreflect.Message) {
	for i := range m.Descriptor().Fields().Len() {
		fd := m.Descriptor().Fields().Get(i)
		switch {
		case fd.IsMap():
			m.Mutable(fd).Map().Set(protoreflect.ValueOfString("k\"").MapKey(), protoreflect.ValueOfString("v"))
		case fd.IsList():
			for range 2 {
				m.Mutable(fd).List().Append(filled(fd, m.Mutable(fd).List().NewElement()))
			}
		default:
			m.Set(fd, filled(fd, m.NewField(fd)))
		}
	}
}

func filled(fd protoreflect.FieldDescriptor, zero protoreflect.Value) protoreflect.Value {
	switch fd.Kind() {
	case protoreflect.StringKind:
		return protoreflect.ValueOfString("a \"\\\n\r\t\x01 \u2028 ü 世 🔒 </x>")
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(true)
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(1)
	case protoreflect.Int64Kind:
		return protoreflect.ValueOfInt64(-9007199254740993)
	case protoreflect.Uint64Kind:
		return protoreflect.ValueOfUint64(18446744073709551615)
	case protoreflect.Uint32Kind:
		return protoreflect.ValueOfUint32(4294967295)
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes([]byte{0xFB, 0xFF, 0})
	case protoreflect.MessageKind:
		fill(zero.Message())
	}
	return zero
}

var quoted = regexp.MustCompile(`"(-?[0-9]+)"`)

// hollow puts an empty message into every list of messages.
func hollow(m protoreflect.Message) {
	for i := range m.Descriptor().Fields().Len() {
		if fd := m.Descriptor().Fields().Get(i); fd.IsList() && fd.Message() != nil {
			list := m.Mutable(fd).List()
			list.Append(list.NewElement())
		}
	}
}

// TestProfiles holds both profiles against protojson, for every answer there is, with all fields set, with none, and
// with lists of messages that have none: it is the referee of what a field is called and of how it is spelled, its
// white space aside.
func TestProfiles(t *testing.T) {
	for _, mt := range responses(t) {
		for _, how := range []func(protoreflect.Message){func(protoreflect.Message) {}, fill, hollow} {
			m := mt.New()
			how(m)
			for name, as := range map[string]profile{"proto3": proto3, "plain": plain} {
				want, err := protojson.MarshalOptions{EmitUnpopulated: true,
					UseEnumNumbers: !as.names}.Marshal(m.Interface())
				if err != nil {
					t.Fatal(err)
				}
				var compact bytes.Buffer
				if err := json.Compact(&compact, want); err != nil {
					t.Fatal(err)
				}
				text := compact.String()
				if !as.strings {
					text = quoted.ReplaceAllString(text, "$1")
				}
				got := string(as.append(nil, m))
				if got != text {
					t.Errorf("%s of %s:\n got %s\nwant %s", name, m.Descriptor().Name(), got, text)
				}
				back := mt.New().Interface()
				if err := protojson.Unmarshal([]byte(got), back); err != nil || !proto.Equal(back, m.Interface()) {
					t.Errorf("%s of %s: read again it is %v, %v", name, m.Descriptor().Name(), back, err)
				}
			}
		}
	}
}

// TestEveryKind says that the interface has only fields of kinds that the marshaller
// and the description know: both panic at others.
func TestEveryKind(t *testing.T) {
	messages := pb.File_pathlockd_v1_pathlock_proto.Messages()
	for i := range messages.Len() {
		mt, err := protoregistry.GlobalTypes.FindMessageByName(messages.Get(i).FullName())
		if err != nil {
			t.Fatal(err)
		}
		m := mt.New()
		fill(m)
		plain.append(nil, m)
		d := describer{schemas: make(map[string]object)}
		d.message(m.Descriptor(), given)
	}
}

// FuzzString says that any string is read again as it was, but for bytes that are no
// UTF-8.
func FuzzString(f *testing.F) {
	for _, s := range []string{"", "a", "\"\\\b\f\n\r\t\x00\x1f\x7f", "ü世🔒", "a\xffb", "\xed\xa0\x80", "\u2028"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var back string
		if err := json.Unmarshal(appendString(nil, s), &back); err != nil || back != string([]rune(s)) {
			t.Fatalf("%q became %q, %v", s, back, err)
		}
	})
}

func BenchmarkAppend(b *testing.B) {
	m := (&pb.AcquireResponse{FencingToken: 123456, Namespace: "tenant:/acme"}).ProtoReflect()
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		buf = proto3.append(buf[:0], m)
	}
}

func BenchmarkDecode(b *testing.B) {
	body := []byte(`{"ownerId":"worker-17","ttlMs":30000,"requests":[{"path":"tenant:/acme/projects/42"}]}`)
	b.ReportAllocs()
	for b.Loop() {
		var m pb.AcquireRequest
		if err := decode(body, &m, false); err != nil {
			b.Fatal(err)
		}
	}
}
