package compat

import (
	"strings"
	"unicode/utf8"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto" // the codec that is wrapped
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// codec is gRPC's own, but for messages that cannot be decoded: the library would
// answer them by itself, as an internal error that names no field. Such a message is
// left empty with a note of what is wrong with it, for whoever is to handle it.
type codec struct{ encoding.CodecV2 }

func newCodec() codec { return codec{encoding.GetCodecV2("proto")} }

// noteField is the number of the unknown field that carries the note: the highest
// there is, which no message has. A client that sends it is told what it sent.
const noteField = protowire.MaxValidNumber

// Unmarshal implements encoding.CodecV2.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	err := c.CodecV2.Unmarshal(data, v)
	m, ok := v.(proto.Message)
	if err == nil || !ok {
		return err
	}
	why := err.Error()
	if field := notUTF8(m.ProtoReflect().Descriptor(), data.Materialize(), maxNesting); field != "" {
		why = field + ": is not valid UTF-8"
	}
	proto.Reset(m)
	note := protowire.AppendTag(nil, noteField, protowire.BytesType)
	m.ProtoReflect().SetUnknown(protowire.AppendString(note, why))
	return nil
}

// undecoded is the refusal of a message that could not be decoded, nil for any other.
func undecoded(v any) error {
	m, ok := v.(proto.Message)
	if !ok {
		return nil
	}
	for b := m.ProtoReflect().GetUnknown(); len(b) > 0; {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return nil
		}
		size := protowire.ConsumeFieldValue(number, kind, b[n:])
		if size < 0 {
			return nil
		}
		if number == noteField && kind == protowire.BytesType {
			why, _ := protowire.ConsumeString(b[n:])
			return invalid("the request is no message of this RPC: %s", strings.ToValidUTF8(why, "?"))
		}
		b = b[n+size:]
	}
	return nil
}

// decoded is a stream whose messages are whole.
type decoded struct{ grpc.ServerStream }

// RecvMsg implements grpc.ServerStream.
func (s decoded) RecvMsg(v any) error {
	if err := s.ServerStream.RecvMsg(v); err != nil {
		return err
	}
	return undecoded(v)
}

// maxNesting bounds how deep a message is looked into; ours are three deep.
const maxNesting = 8

// notUTF8 names the first string of an encoded message that is not valid UTF-8, ""
// when there is none: the library that decodes does not say which one it was.
func notUTF8(d protoreflect.MessageDescriptor, b []byte, room int) string {
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return ""
		}
		b = b[n:]
		if n = protowire.ConsumeFieldValue(number, kind, b); n < 0 {
			return ""
		}
		value := b[:n]
		b = b[n:]
		f := d.Fields().ByNumber(number)
		if f == nil || kind != protowire.BytesType {
			continue
		}
		text, _ := protowire.ConsumeBytes(value)
		switch {
		case f.Kind() == protoreflect.StringKind && !utf8.Valid(text):
			return string(f.Name())
		case f.Kind() == protoreflect.MessageKind && room > 0:
			if inner := notUTF8(f.Message(), text, room-1); inner != "" {
				return string(f.Name()) + ": " + inner
			}
		}
	}
	return ""
}
