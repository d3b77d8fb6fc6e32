package conformance_test

import (
	"encoding/json"
	"fmt"
	"strconv"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// profile is how answers in JSON spell what JSON has no own way for (contract.md
// section 13).
type profile struct {
	accept string
	plain  bool // enums and 64-bit integers are numbers; else names and strings
}

// fromJSONAnswer is an answer's form. Every field must be there, and nothing else,
// each in the type that the profile says.
func (p profile) fromJSONAnswer(d protoreflect.MessageDescriptor, raw map[string]any) (message, error) {
	m := message{}
	fields := d.Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		v, there := raw[f.JSONName()]
		if !there {
			return nil, fmt.Errorf("%s: field %s is missing", d.Name(), f.JSONName())
		}
		got, err := p.field(f, v)
		if err != nil {
			return nil, fmt.Errorf("%s.%s: %w", d.Name(), f.JSONName(), err)
		}
		if got != nil {
			m[string(f.Name())] = got
		}
	}
	if len(raw) > fields.Len() {
		return nil, fmt.Errorf("%s: has fields that it should not: %v", d.Name(), raw)
	}
	return m, nil
}

func (p profile) field(f protoreflect.FieldDescriptor, v any) (any, error) {
	if f.IsMap() {
		pairs, ok := v.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("is %T, want an object", v)
		}
		if len(pairs) == 0 {
			return nil, nil
		}
		return message(pairs), nil
	}
	if !f.IsList() {
		return p.value(f, v)
	}
	array, ok := v.([]any)
	if !ok {
		return nil, fmt.Errorf("is %T, want an array", v)
	}
	var list []any
	for _, x := range array {
		got, err := p.value(f, x)
		if err != nil {
			return nil, err
		}
		if got == nil {
			got = message{} // an element of defaults alone
		}
		list = append(list, got)
	}
	if list == nil {
		return nil, nil
	}
	return list, nil
}

// value is nil for the default.
func (p profile) value(f protoreflect.FieldDescriptor, v any) (any, error) {
	k := f.Kind()
	switch v := v.(type) {
	case nil:
		if k == protoreflect.MessageKind {
			return nil, nil
		}
	case map[string]any:
		if k == protoreflect.MessageKind {
			return p.fromJSONAnswer(f.Message(), v)
		}
	case bool:
		if k == protoreflect.BoolKind {
			return nonZero(v), nil
		}
	case json.Number:
		n, err := strconv.ParseInt(v.String(), 10, 64)
		switch {
		case err != nil:
			return nil, err
		case k == protoreflect.EnumKind && p.plain:
			if n == 0 {
				return nil, nil
			}
			return enumName(f.Enum(), protoreflect.EnumNumber(n)), nil
		case isInteger(k) && (p.plain || !is64(k)):
			return nonZero(n), nil
		}
	case string:
		switch {
		case k == protoreflect.StringKind, k == protoreflect.BytesKind:
			return nonZero(v), nil
		case k == protoreflect.EnumKind && !p.plain:
			e := f.Enum().Values().ByName(protoreflect.Name(v))
			if e == nil {
				return nil, fmt.Errorf("%q is no value of %s", v, f.Enum().Name())
			}
			if e.Number() == 0 {
				return nil, nil
			}
			return enumName(f.Enum(), e.Number()), nil
		case is64(k) && !p.plain:
			n, err := strconv.ParseInt(v, 10, 64)
			return nonZero(n), err
		}
	}
	return nil, fmt.Errorf("%v (%T) is not how a %s is written", v, v, k)
}

func nonZero[T comparable](v T) any {
	var zero T
	if v == zero {
		return nil
	}
	return v
}
