package wire

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/vmihailenco/msgpack/v5"
	"github.com/vmihailenco/msgpack/v5/msgpcode"
)

// The referee is a second codec, written from PROTOCOL.md's tables with a msgpack
// library and nothing of ours: it knows fields by what the page says of them, and
// messages as the vectors write them. Where it and our codec agree on a vector, the
// page, the vector and the codec say the same.

// encode writes a value of a type of the page.
func (p *document) encode(e *msgpack.Encoder, typ string, v any) error {
	if inner, ok := strings.CutPrefix(typ, "["); ok {
		inner = strings.TrimSuffix(inner, "]")
		list := v.([]any)
		if err := e.EncodeArrayLen(len(list)); err != nil {
			return err
		}
		for _, item := range list {
			if err := p.encode(e, inner, item); err != nil {
				return err
			}
		}
		return nil
	}
	switch typ {
	case "uint":
		n, err := strconv.ParseUint(v.(json.Number).String(), 10, 64)
		if err != nil {
			return err
		}
		return e.EncodeUint(n)
	case "int":
		n, err := strconv.ParseInt(v.(json.Number).String(), 10, 64)
		if err != nil {
			return err
		}
		return e.EncodeInt(n)
	case "uint64":
		n, err := strconv.ParseUint(v.(string), 10, 64)
		if err != nil {
			return err
		}
		return e.EncodeUint(n)
	case "token":
		n, err := strconv.ParseInt(v.(string), 10, 64)
		if err != nil {
			return err
		}
		return e.EncodeInt(n)
	case "bool":
		return e.EncodeBool(v.(bool))
	case "str":
		return e.EncodeString(v.(string))
	case "bin":
		b, err := hex.DecodeString(v.(string))
		if err != nil {
			return err
		}
		return e.EncodeBytes(b)
	case "{str: str}":
		pairs := v.(map[string]any)
		if err := e.EncodeMapLen(len(pairs)); err != nil {
			return err
		}
		for _, name := range slices.Sorted(maps.Keys(pairs)) {
			if err := e.EncodeString(name); err != nil {
				return err
			}
			if err := e.EncodeString(pairs[name].(string)); err != nil {
				return err
			}
		}
		return nil
	}
	element, ok := p.elements[typ]
	if !ok {
		return fmt.Errorf("the page has no type %s", typ)
	}
	if v == nil {
		return e.EncodeNil()
	}
	return p.encodeFields(e, nil, element, v.(map[string]any), typ == "lock_request" || typ == "release_request")
}

// encodeFields writes a positional array: head, and then the fields of v, those at
// the end that are defaults left out if trim says so.
func (p *document) encodeFields(e *msgpack.Encoder, head []any, all []pageField, v map[string]any, trim bool) error {
	for trim && len(all) > 0 && isZero(v[all[len(all)-1].name]) {
		all = all[:len(all)-1]
	}
	if err := e.EncodeArrayLen(len(head) + len(all)); err != nil {
		return err
	}
	for _, n := range head {
		numbers, pair := n.([]uint64)
		if !pair {
			numbers = []uint64{n.(uint64)}
		} else if err := e.EncodeArrayLen(len(numbers)); err != nil {
			return err
		}
		for _, n := range numbers {
			if err := e.EncodeUint(n); err != nil {
				return err
			}
		}
	}
	for _, f := range all {
		value, ok := v[f.name]
		if !ok {
			return fmt.Errorf("the vector has no field %s", f.name)
		}
		if err := p.encode(e, f.typ, value); err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
	}
	return nil
}

// decode reads a value of a type of the page, nil as its default.
func (p *document) decode(d *msgpack.Decoder, typ string) (any, error) {
	code, err := d.PeekCode()
	if err != nil {
		return nil, err
	}
	if code == msgpcode.Nil {
		return p.zero(typ), d.DecodeNil()
	}
	if inner, ok := strings.CutPrefix(typ, "["); ok {
		inner = strings.TrimSuffix(inner, "]")
		n, err := d.DecodeArrayLen()
		list := make([]any, 0)
		for i := 0; i < n && err == nil; i++ {
			var item any
			item, err = p.decode(d, inner)
			list = append(list, item)
		}
		return list, err
	}
	switch typ {
	case "uint":
		n, err := d.DecodeUint64()
		return json.Number(strconv.FormatUint(n, 10)), err
	case "int":
		n, err := d.DecodeInt64()
		return json.Number(strconv.FormatInt(n, 10)), err
	case "uint64":
		n, err := d.DecodeUint64()
		return strconv.FormatUint(n, 10), err
	case "token":
		n, err := d.DecodeInt64()
		return strconv.FormatInt(n, 10), err
	case "bool":
		return d.DecodeBool()
	case "str":
		return d.DecodeString()
	case "bin":
		b, err := d.DecodeBytes()
		return hex.EncodeToString(b), err
	case "{str: str}":
		n, err := d.DecodeMapLen()
		pairs := map[string]any{}
		for i := 0; i < n && err == nil; i++ {
			var name, value string
			if name, err = d.DecodeString(); err == nil {
				value, err = d.DecodeString()
			}
			pairs[name] = value
		}
		return pairs, err
	}
	n, err := d.DecodeArrayLen()
	if err != nil {
		return nil, err
	}
	return p.decodeFields(d, p.elements[typ], n)
}

// decodeFields reads n values as fields, and passes over those beyond.
func (p *document) decodeFields(d *msgpack.Decoder, all []pageField, n int) (map[string]any, error) {
	v := map[string]any{}
	for i, f := range all {
		if i >= n {
			v[f.name] = p.zero(f.typ)
			continue
		}
		value, err := p.decode(d, f.typ)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.name, err)
		}
		v[f.name] = value
	}
	for i := len(all); i < n; i++ {
		if err := d.Skip(); err != nil {
			return nil, err
		}
	}
	return v, nil
}

// zero is a type's default, as the vectors write it.
func (p *document) zero(typ string) any {
	switch typ {
	case "uint", "int":
		return json.Number("0")
	case "uint64", "token":
		return "0"
	case "bool":
		return false
	case "str", "bin":
		return ""
	case "{str: str}":
		return map[string]any{}
	case "metadata":
		return nil
	}
	if strings.HasPrefix(typ, "[") {
		return []any{}
	}
	v := map[string]any{}
	for _, f := range p.elements[typ] {
		v[f.name] = p.zero(f.typ)
	}
	return v
}

// layout is what the page says of a vector: what comes before its fields, its
// fields, and whether its trailing defaults may be left out.
func (p *document) layout(t *testing.T, v *vector) (head []any, all []pageField, trim bool) {
	if v.Direction == "push" {
		for _, push := range p.pushes {
			if push.name == v.Kind {
				return []any{uint64(0), push.number}, push.fields, false
			}
		}
		t.Fatalf("%s: the page has no push %s", v.Name, v.Kind)
	}
	op := p.op(v.Op)
	if op == nil {
		t.Fatalf("%s: the page has no operation %s", v.Name, v.Op)
	}
	switch {
	case v.Cause != 0:
		return []any{v.ID, uint64(v.Code)}, []pageField{{"message", "str"}, {"cause", "uint"}}, false
	case v.Code != 0:
		return []any{v.ID, uint64(v.Code)}, []pageField{{"message", "str"}}, false
	case v.Direction == "request":
		head, all = []any{v.ID, op.number}, p.typed(op, op.args)
		if v.Settled != 0 {
			head[0] = []uint64{v.ID, v.Settled}
		}
	default:
		head, all = []any{v.ID, uint64(0)}, p.typed(op, op.results)
	}
	return head, all, true
}

func (p *document) typed(op *pageOp, names []string) (out []pageField) {
	for _, name := range names {
		out = append(out, pageField{name, p.typeOf(op.name, name)})
	}
	return out
}

func TestReferee(t *testing.T) {
	p := readPage(t)
	for _, v := range readVectors(t) {
		if v.Reject != nil {
			continue
		}
		want, _ := v.Fields.(map[string]any)
		if v.Code != 0 {
			if want = map[string]any{"message": v.Message}; v.Cause != 0 {
				want["cause"] = json.Number(strconv.Itoa(int(v.Cause)))
			}
		}
		head, all, trim := p.layout(t, &v)
		if v.Canonical {
			var b bytes.Buffer
			b.Write(make([]byte, 4))
			if err := p.encodeFields(msgpack.NewEncoder(&b), head, all, want, trim); err != nil {
				t.Errorf("%s: %v", v.Name, err)
			}
			binary.BigEndian.PutUint32(b.Bytes(), uint32(b.Len()-4))
			if got := hex.EncodeToString(b.Bytes()); got != v.Hex {
				t.Errorf("%s: the referee encodes to\n %s, the codec\n %s", v.Name, got, v.Hex)
			}
		}
		frame := v.frame(t)
		if n := binary.BigEndian.Uint32(frame); int(n) != len(frame)-4 {
			t.Errorf("%s: length %d of a payload of %d bytes", v.Name, n, len(frame)-4)
		}
		rest := bytes.NewReader(frame[4:])
		d := msgpack.NewDecoder(rest)
		n, err := d.DecodeArrayLen()
		if err != nil || n < len(head) {
			t.Errorf("%s: array of %d, %v", v.Name, n, err)
			continue
		}
		for _, word := range head {
			got, err := d.DecodeInterfaceLoose()
			if pair, ok := got.([]any); ok {
				for len(pair) < 2 || pair[1] == nil {
					pair = append(pair[:1:1], uint64(0))
				}
				got = pair[:2]
			}
			if got == nil {
				got = uint64(0)
			}
			if want := fmt.Sprint(word); err != nil || fmt.Sprint(got) != want && fmt.Sprint(got) != "["+want+" 0]" {
				t.Errorf("%s: begins with %v, %v, want %s", v.Name, got, err, want)
			}
		}
		got, err := p.decodeFields(d, all, n-len(head))
		if err != nil {
			t.Errorf("%s: %v", v.Name, err)
			continue
		}
		if text(got) != text(want) {
			t.Errorf("%s: the referee reads\n %s, the vector says\n %s", v.Name, text(got), text(want))
		}
		if _, err := d.PeekCode(); err == nil {
			t.Errorf("%s: bytes follow the message", v.Name)
		}
	}
}

// TestTypeBytes holds our constants against the library's variables.
func TestTypeBytes(t *testing.T) {
	for name, pair := range map[string][2]byte{
		"fixmap": {tFixMap, msgpcode.FixedMapLow}, "fixmap end": {tFixMapEnd, msgpcode.FixedMapHigh},
		"fixarray": {tFixArray, msgpcode.FixedArrayLow}, "fixarray end": {tFixArrayEnd, msgpcode.FixedArrayHigh},
		"fixstr": {tFixStr, msgpcode.FixedStrLow}, "fixstr end": {tFixStrEnd, msgpcode.FixedStrHigh},
		"nil": {tNil, msgpcode.Nil}, "false": {tFalse, msgpcode.False}, "true": {tTrue, msgpcode.True},
		"bin8": {tBin8, msgpcode.Bin8}, "bin16": {tBin16, msgpcode.Bin16}, "bin32": {tBin32, msgpcode.Bin32},
		"ext8": {tExt8, msgpcode.Ext8}, "ext16": {tExt16, msgpcode.Ext16}, "ext32": {tExt32, msgpcode.Ext32},
		"float32": {tFloat32, msgpcode.Float}, "float64": {tFloat64, msgpcode.Double},
		"uint8": {tUint8, msgpcode.Uint8}, "uint16": {tUint16, msgpcode.Uint16},
		"uint32": {tUint32, msgpcode.Uint32}, "uint64": {tUint64, msgpcode.Uint64},
		"int8": {tInt8, msgpcode.Int8}, "int16": {tInt16, msgpcode.Int16},
		"int32": {tInt32, msgpcode.Int32}, "int64": {tInt64, msgpcode.Int64},
		"fixext1": {tFixExt1, msgpcode.FixExt1}, "fixext16": {tFixExt16, msgpcode.FixExt16},
		"str8": {tStr8, msgpcode.Str8}, "str16": {tStr16, msgpcode.Str16}, "str32": {tStr32, msgpcode.Str32},
		"array16": {tArray16, msgpcode.Array16}, "array32": {tArray32, msgpcode.Array32},
		"map16": {tMap16, msgpcode.Map16}, "map32": {tMap32, msgpcode.Map32},
		"positive fixint end": {0x7f, msgpcode.PosFixedNumHigh}, "negative fixint": {0xe0, msgpcode.NegFixedNumLow},
	} {
		if pair[0] != pair[1] {
			t.Errorf("%s is %#x here, %#x in the library", name, pair[0], pair[1])
		}
	}
}
