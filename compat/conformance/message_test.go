package conformance_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	pb "github.com/pathlockd/pathlockd/compat/pathlockdv1"
)

// message is a request or an answer in the one form that scenarios are compared in,
// whatever interface it goes through: fields by their names in the .proto, those
// that have their default left out. Strings, bool and int64 are what they are,
// enums are their values' names without the enum's prefix, bytes are base64,
// messages are message, and lists are []any.
type message map[string]any

// file describes the service: what there is to call, and what fields there are.
var file = pb.File_pathlockd_v1_pathlock_proto

func methods() protoreflect.MethodDescriptors { return file.Services().ByName("PathLock").Methods() }

// method is an RPC by its name, nil when there is none.
func method(rpc string) protoreflect.MethodDescriptor {
	return methods().ByName(protoreflect.Name(rpc))
}

// enumPrefix is what all names of an enum begin with: its own, upper snake.
func enumPrefix(e protoreflect.EnumDescriptor) string {
	return strings.ToUpper(snake(string(e.Name()))) + "_"
}

// enumName is a value's name without the enum's prefix, or its number in words.
func enumName(e protoreflect.EnumDescriptor, n protoreflect.EnumNumber) string {
	if v := e.Values().ByNumber(n); v != nil {
		return strings.TrimPrefix(string(v.Name()), enumPrefix(e))
	}
	return fmt.Sprintf("unknown(%d)", n)
}

// enumNumber is the inverse of enumName; a number stands for itself, known or not.
func enumNumber(e protoreflect.EnumDescriptor, name string) (protoreflect.EnumNumber, error) {
	if n, err := strconv.ParseInt(name, 10, 32); err == nil {
		return protoreflect.EnumNumber(n), nil
	}
	if v := e.Values().ByName(protoreflect.Name(enumPrefix(e) + strings.ToUpper(name))); v != nil {
		return v.Number(), nil
	}
	return 0, fmt.Errorf("%s has no value %q", e.Name(), name)
}

// snake turns lowerCamel and UpperCamel into lower_snake.
func snake(name string) string {
	var b strings.Builder
	for i, c := range name {
		if c >= 'A' && c <= 'Z' {
			if i > 0 && name[i-1] != '_' && (name[i-1] < 'A' || name[i-1] > 'Z') {
				b.WriteByte('_')
			}
			c += 'a' - 'A'
		}
		b.WriteRune(c)
	}
	return b.String()
}

func lowerCamel(name string) string { return strings.ToLower(name[:1]) + name[1:] }

func isInteger(k protoreflect.Kind) bool {
	switch k {
	case protoreflect.Int32Kind, protoreflect.Int64Kind, protoreflect.Uint32Kind, protoreflect.Uint64Kind:
		return true
	}
	return false
}

func is64(k protoreflect.Kind) bool {
	return k == protoreflect.Int64Kind || k == protoreflect.Uint64Kind
}

// fromProto is a protobuf message's form.
func fromProto(m protoreflect.Message) message {
	out := message{}
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.IsMap():
			sub := message{}
			v.Map().Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
				sub[k.String()] = v.String()
				return true
			})
			out[string(f.Name())] = sub
		case f.IsList():
			var list []any
			for i := range v.List().Len() {
				list = append(list, protoValue(f, v.List().Get(i)))
			}
			out[string(f.Name())] = list
		default:
			out[string(f.Name())] = protoValue(f, v)
		}
		return true
	})
	return out
}

func protoValue(f protoreflect.FieldDescriptor, v protoreflect.Value) any {
	switch k := f.Kind(); k {
	case protoreflect.MessageKind:
		return fromProto(v.Message())
	case protoreflect.EnumKind:
		return enumName(f.Enum(), v.Enum())
	case protoreflect.BytesKind:
		return base64.StdEncoding.EncodeToString(v.Bytes())
	case protoreflect.Int32Kind, protoreflect.Int64Kind:
		return v.Int()
	case protoreflect.Uint32Kind, protoreflect.Uint64Kind:
		return int64(v.Uint())
	default:
		return v.Interface()
	}
}

// style is how JSON is written.
type style struct {
	camel       bool // names in lowerCamel
	enumNumbers bool
	longStrings bool // 64-bit integers as strings
}

// toJSON writes a request as proto JSON. Enums that a scenario gave by number, to
// send one that there is not, stay numbers.
func toJSON(d protoreflect.MessageDescriptor, m message, s style) ([]byte, error) {
	v, err := jsonForm(d, m, s)
	if err != nil {
		return nil, err
	}
	return json.Marshal(v)
}

func jsonForm(d protoreflect.MessageDescriptor, m message, s style) (map[string]any, error) {
	out := make(map[string]any, len(m))
	for name, v := range m {
		f := d.Fields().ByName(protoreflect.Name(name))
		if f == nil {
			return nil, fmt.Errorf("%s has no field %q", d.Name(), name)
		}
		if s.camel {
			name = f.JSONName()
		}
		list, isList := v.([]any)
		if !isList {
			var err error
			if out[name], err = jsonValue(f, v, s); err != nil {
				return nil, err
			}
			continue
		}
		values := make([]any, len(list))
		for i := range list {
			var err error
			if values[i], err = jsonValue(f, list[i], s); err != nil {
				return nil, err
			}
		}
		out[name] = values
	}
	return out, nil
}

func jsonValue(f protoreflect.FieldDescriptor, v any, s style) (any, error) {
	switch {
	case f.IsMap():
		return v, nil
	case f.Kind() == protoreflect.MessageKind:
		return jsonForm(f.Message(), v.(message), s)
	case f.Kind() == protoreflect.EnumKind:
		n, err := enumNumber(f.Enum(), v.(string))
		if err != nil || s.enumNumbers || f.Enum().Values().ByNumber(n) == nil {
			return n, err
		}
		return f.Enum().Values().ByNumber(n).Name(), nil
	case is64(f.Kind()) && s.longStrings:
		return strconv.FormatInt(v.(int64), 10), nil
	}
	return v, nil
}
