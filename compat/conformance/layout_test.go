package conformance_test

import (
	"fmt"
	"os"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/pathlockd/pathlockd/wire"
)

// What the native client knows of the protocol: the arguments and results of the
// operations by name, from their table, and the fields of elements and pushes, from
// the tables of PROTOCOL.md, as somebody would who writes a client from that page.

// elements are the fields of the protocol's elements, in order, by element.
var elements = mustReadLayouts("## 5. Elements", 0, 1)

// pushes are likewise the fields of the pushes after their kind.
var pushes = mustReadLayouts("## 6. Pushes", 1, 2)

// layoutOf names the elements that stand for a message of the .proto.
var layoutOf = map[protoreflect.Name]string{
	"LockRequest": "lock_request", "ReleaseRequest": "release_request", "Metadata": "metadata",
	"LockEntry": "lock", "OwnedLock": "lock", "Waiter": "waiter",
}

// renamed are elements' fields that the .proto calls something else.
var renamed = map[string]string{"waiter.token": "fencing_token"}

// mustReadLayouts reads the first table of a section: a column of names, and one of
// fields with their types.
func mustReadLayouts(section string, nameColumn, fieldColumn int) map[string][]string {
	page, err := os.ReadFile("../../wire/PROTOCOL.md")
	if err != nil {
		panic(err)
	}
	_, rest, found := strings.Cut(string(page), section+"\n")
	if !found {
		panic("PROTOCOL.md has no section " + section)
	}
	_, table, _ := strings.Cut(rest, "|---")
	all := make(map[string][]string)
	for _, line := range strings.Split(table, "\n")[1:] {
		cells := strings.Split(strings.Trim(line, "|"), "|")
		if len(cells) <= fieldColumn {
			break
		}
		var fields []string
		for _, f := range strings.Split(cells[fieldColumn], ",") {
			fields = append(fields, strings.Fields(f)[0])
		}
		all[strings.TrimSpace(cells[nameColumn])] = fields
	}
	return all
}

// operation is how an RPC is asked natively.
type operation struct {
	number uint64
	spec   *wire.Spec
	flags  int64
}

// Flags of acquire, as PROTOCOL.md numbers them.
const (
	flagWait    = 1
	flagNoQueue = 2
	flagBulk    = 4
)

// operations are the RPCs that there are natively.
var operations = func() map[string]operation {
	byName := make(map[string]operation)
	for _, op := range wire.Ops() {
		spec, _ := op.Spec()
		byName[spec.Name] = operation{number: uint64(op), spec: spec}
	}
	all := make(map[string]operation)
	for i := range methods().Len() {
		rpc := string(methods().Get(i).Name())
		name, flags := snake(rpc), int64(0)
		switch rpc {
		case "AcquireWait", "AcquireWatch":
			name, flags = "acquire", flagWait
		case "AcquireStream":
			name, flags = "acquire", flagBulk
		case "DescribePath":
			name = "describe"
		}
		if o, ok := byName[name]; ok {
			o.flags = flags
			all[rpc] = o
		}
	}
	return all
}()

// nativeAlone is what can be asked natively alone.
var nativeAlone = map[string]bool{
	"release.fencing_token": true, "release.granted_by": true,
	"list_owner_locks.cursor": true, "list_owner_locks.owner_page": true,
}

// arguments are a request's, by position.
func (o *operation) arguments(d protoreflect.MessageDescriptor, req message) ([]any, error) {
	var args []any
	for _, field := range o.spec.Args {
		switch field.Name {
		case "flags":
			flags := o.flags
			if req["no_queue"] == true {
				flags |= flagNoQueue
			}
			args = append(args, flags)
			continue
		case "kinds":
			kinds, err := kindsOf(d, req)
			if err != nil {
				return nil, err
			}
			args = append(args, kinds)
			continue
		}
		if nativeAlone[o.spec.Name+"."+field.Name] {
			args = append(args, nil)
			continue
		}
		f := d.Fields().ByName(protoreflect.Name(field.Name))
		if f == nil && o.spec.Name == "release" && (field.Name == "fencing_token" || field.Name == "granted_by") {
			args = append(args, nil) // natively alone
			continue
		}
		if f == nil {
			return nil, fmt.Errorf("%s: argument %s is no field of %s", o.spec.Name, field.Name, d.Name())
		}
		v, err := toWire(f, req[field.Name])
		if err != nil {
			return nil, err
		}
		args = append(args, v)
	}
	return args, nil
}

// kindsOf is the set of the events that are asked for: the sum of 2^kind.
func kindsOf(d protoreflect.MessageDescriptor, req message) (sum int64, err error) {
	types, _ := req["types"].([]any)
	e := d.Fields().ByName("types").Enum()
	for _, t := range types {
		n, err := enumNumber(e, t.(string))
		if err != nil {
			return 0, err
		}
		if n == 100 { // EXPIRED, natively 4
			n = 4
		}
		sum |= 1 << n
	}
	return sum, nil
}

// toWire is a field's value as msgpack takes it: enums as numbers, elements as arrays.
func toWire(f protoreflect.FieldDescriptor, v any) (any, error) {
	list, isList := v.([]any)
	if !isList {
		return toWireValue(f, v)
	}
	values := make([]any, len(list))
	for i := range list {
		var err error
		if values[i], err = toWireValue(f, list[i]); err != nil {
			return nil, err
		}
	}
	return values, nil
}

func toWireValue(f protoreflect.FieldDescriptor, v any) (any, error) {
	switch {
	case v == nil:
		return nil, nil
	case f.Kind() == protoreflect.EnumKind:
		n, err := enumNumber(f.Enum(), v.(string))
		return int64(n), err
	case f.Kind() == protoreflect.BytesKind:
		return fromBase64(v.(string))
	case f.Kind() != protoreflect.MessageKind:
		return v, nil
	}
	m := v.(message)
	var array []any
	for _, name := range elements[layoutOf[f.Message().Name()]] {
		field := f.Message().Fields().ByName(protoreflect.Name(name))
		if field.IsMap() {
			array = append(array, map[string]any(orEmpty(m[name])))
			continue
		}
		x, err := toWire(field, m[name])
		if err != nil {
			return nil, err
		}
		array = append(array, x)
	}
	return array, nil
}

func orEmpty(v any) message {
	m, _ := v.(message)
	return m
}
