package web

import (
	"encoding/base64"
	"strconv"
	"sync"
	"unicode/utf8"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// profile is how an answer spells what JSON has no own way for (contract.md
// section 13). Every field is present in both: an empty list as [], a message that is
// not there as null.
type profile struct {
	names   bool // enums as the names of their values; else as numbers
	strings bool // 64-bit numbers as strings; else as numbers
}

var (
	// proto3 is the JSON mapping of Protocol Buffers.
	proto3 = profile{names: true, strings: true}
	// plain is for readers without one.
	plain = profile{}
)

// layout is what does not change about the messages of a type: their fields in the
// order of the .proto, each with what stands before its value.
type layout []layoutField

type layoutField struct {
	fd   protoreflect.FieldDescriptor
	kind protoreflect.Kind
	key  string // {"name": for the first, ,"name": for those that follow
}

var layouts sync.Map // protoreflect.FullName → layout

func layoutOf(md protoreflect.MessageDescriptor) layout {
	if l, ok := layouts.Load(md.FullName()); ok {
		return l.(layout) //nolint:forcetypeassert // see layouts
	}
	fields := md.Fields()
	l := make(layout, fields.Len())
	for i := range l {
		fd := fields.Get(i)
		before := ","
		if i == 0 {
			before = "{"
		}
		l[i] = layoutField{fd, fd.Kind(), before + `"` + fd.JSONName() + `":`}
	}
	layouts.Store(md.FullName(), l)
	return l
}

// append appends a message. Answers have no maps but those of metadata's labels, and
// no numbers with a fraction.
func (p profile) append(b []byte, m protoreflect.Message) []byte {
	l := layoutOf(m.Descriptor())
	if len(l) == 0 {
		return append(b, "{}"...)
	}
	for i := range l {
		f := &l[i]
		b = append(b, f.key...)
		switch {
		case f.fd.IsList():
			b = p.appendList(b, f, m.Get(f.fd).List())
		case f.fd.IsMap():
			b = p.appendMap(b, f, m.Get(f.fd).Map())
		case f.fd.Message() != nil && !m.Has(f.fd):
			b = append(b, "null"...)
		default:
			b = p.appendValue(b, f.fd, f.kind, m.Get(f.fd))
		}
	}
	return append(b, '}')
}

func (p profile) appendList(b []byte, f *layoutField, list protoreflect.List) []byte {
	b = append(b, '[')
	for i := range list.Len() {
		if i > 0 {
			b = append(b, ',')
		}
		b = p.appendValue(b, f.fd, f.kind, list.Get(i))
	}
	return append(b, ']')
}

func (p profile) appendMap(b []byte, f *layoutField, m protoreflect.Map) []byte {
	b = append(b, '{')
	value, first := f.fd.MapValue(), true
	m.Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
		if !first {
			b = append(b, ',')
		}
		first = false
		b = append(appendString(b, k.String()), ':')
		b = p.appendValue(b, value, value.Kind(), v)
		return true
	})
	return append(b, '}')
}

func (p profile) appendValue(b []byte, fd protoreflect.FieldDescriptor, kind protoreflect.Kind,
	v protoreflect.Value) []byte {
	switch kind {
	case protoreflect.StringKind:
		return appendString(b, v.String())
	case protoreflect.BoolKind:
		return strconv.AppendBool(b, v.Bool())
	case protoreflect.EnumKind:
		if p.names {
			if value := fd.Enum().Values().ByNumber(v.Enum()); value != nil {
				return append(append(append(b, '"'), value.Name()...), '"')
			}
		}
		return strconv.AppendInt(b, int64(v.Enum()), 10)
	case protoreflect.Int64Kind:
		if p.strings {
			return append(strconv.AppendInt(append(b, '"'), v.Int(), 10), '"')
		}
		return strconv.AppendInt(b, v.Int(), 10)
	case protoreflect.Uint64Kind:
		if p.strings {
			return append(strconv.AppendUint(append(b, '"'), v.Uint(), 10), '"')
		}
		return strconv.AppendUint(b, v.Uint(), 10)
	case protoreflect.Uint32Kind:
		return strconv.AppendUint(b, v.Uint(), 10)
	case protoreflect.Int32Kind:
		return strconv.AppendInt(b, v.Int(), 10)
	case protoreflect.BytesKind:
		return append(base64.StdEncoding.AppendEncode(append(b, '"'), v.Bytes()), '"')
	case protoreflect.MessageKind:
		return p.append(b, v.Message())
	}
	panic("the interface has no fields of kind " + kind.String()) // TestEveryKind
}

const hexDigits = "0123456789abcdef"

// appendString appends a JSON string. What is no UTF-8 becomes U+FFFD.
func appendString(b []byte, s string) []byte {
	b = append(b, '"')
	from := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && n == 1 {
				b = append(append(b, s[from:i]...), "\uFFFD"...)
				from = i + 1
			}
			i += n
			continue
		}
		i++
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		b = append(b, s[from:i-1]...)
		from = i
		switch c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\n':
			b = append(b, `\n`...)
		case '\r':
			b = append(b, `\r`...)
		case '\t':
			b = append(b, `\t`...)
		default:
			b = append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
	}
	return append(append(b, s[from:]...), '"')
}
