package conformance_test

import (
	"encoding/base64"

	"google.golang.org/protobuf/reflect/protoreflect"
)

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
