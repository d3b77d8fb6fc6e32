package web

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/pathlockd/pathlockd/internal/near"
)

// value is a value in a body, beside what the message has in its place.
type value struct {
	path   string                         // as the body names it: requests[0].mode
	fd     protoreflect.FieldDescriptor   // nil: the body itself, or what is not known
	inside bool                           // it is an element of the field, which is a list or a map
	of     protoreflect.MessageDescriptor // that has no field
	name   string                         // of this name; nil: it has, or there is none
	text   string                         // as it is written; of an object or array, the bracket
	end    int                            // offset behind the text
	str    bool                           // it is a string:
	plain  string                         // this one,
	broken bool                           // with half a surrogate pair
}

// walker goes through a body that is JSON. It is for messages about what is wrong with
// it, and is not in anybody's way.
type walker struct {
	body []byte
	dec  *json.Decoder
	stop func(value) bool
	bad  value
}

// walk answers the first value that stop is true of.
func walk(md protoreflect.MessageDescriptor, body []byte, stop func(value) bool) (value, bool) {
	w := walker{body: body, dec: json.NewDecoder(bytes.NewReader(body)), stop: stop}
	w.dec.UseNumber()
	found := w.value(value{}, md, 0)
	return w.bad, found && w.bad.end > 0
}

// value goes through the next value. It answers true when the walk is over: what was
// searched for is found, or the rest cannot be read. v says where it is.
func (w *walker) value(v value, md protoreflect.MessageDescriptor, depth int) bool {
	from := int(w.dec.InputOffset())
	tok, err := w.dec.Token()
	if err != nil || depth > maxNesting {
		return true
	}
	end := int(w.dec.InputOffset())
	v.text, v.end = strings.TrimLeft(string(w.body[from:end]), " \t\r\n,:"), end
	if s, is := tok.(string); is {
		v.str, v.plain = true, s
		v.broken = strings.ContainsRune(s, utf8.RuneError) && !strings.Contains(v.text, string(utf8.RuneError)) &&
			!strings.Contains(strings.ToLower(v.text), `\ufffd`)
	}
	if w.stop(v) {
		w.bad = v
		return true
	}
	switch tok {
	case json.Delim('{'):
		return w.object(v.path, v.fd, md, depth)
	case json.Delim('['):
		return w.array(v.path, v.fd, md, v.inside, depth)
	}
	return false
}

func (w *walker) object(path string, fd protoreflect.FieldDescriptor, md protoreflect.MessageDescriptor,
	depth int) bool {
	for w.dec.More() {
		tok, err := w.dec.Token()
		name, is := tok.(string)
		if err != nil || !is {
			return true
		}
		at := name
		if path != "" {
			at = path + "." + name
		}
		in := value{path: at, inside: fd != nil && fd.IsMap()}
		var message protoreflect.MessageDescriptor
		if in.inside {
			in.fd = fd
		} else if md != nil {
			if in.fd = md.Fields().ByJSONName(name); in.fd == nil {
				in.fd = md.Fields().ByTextName(name)
			}
			switch {
			case in.fd == nil:
				in.of, in.name = md, name
			case !in.fd.IsMap():
				message = in.fd.Message()
			}
		}
		if w.value(in, message, depth+1) {
			return true
		}
	}
	_, err := w.dec.Token()
	return err != nil
}

func (w *walker) array(path string, fd protoreflect.FieldDescriptor, md protoreflect.MessageDescriptor, inside bool,
	depth int) bool {
	if inside || fd != nil && !fd.IsList() {
		fd, md = nil, nil
	}
	for i := 0; w.dec.More(); i++ {
		if w.value(value{path: path + "[" + strconv.Itoa(i) + "]", fd: fd, inside: true}, md, depth+1) {
			return true
		}
	}
	_, err := w.dec.Token()
	return err != nil
}

// unknownName is true of the name of an enum value that there is not.
func unknownName(v value) bool {
	if !v.str || v.fd == nil || v.fd.Enum() == nil || v.fd.IsList() != v.inside {
		return false
	}
	return v.fd.Enum().Values().ByName(protoreflect.Name(v.plain)) == nil
}

// unknownField is true of what stands under a name that its message does not have.
func unknownField(v value) bool { return v.of != nil }

// stranger says that there is no such field, and which is meant most likely.
func (v value) stranger() string {
	fields := v.of.Fields()
	names := make([]string, fields.Len())
	for i := range names {
		if f := fields.Get(i); strings.Contains(v.name, "_") {
			names[i] = string(f.Name())
		} else {
			names[i] = f.JSONName()
		}
	}
	meant := "it has " + strings.Join(names, ", ")
	if len(names) == 0 {
		meant = "it has none" // health
	}
	if one := near.Name(v.name, names); one != "" {
		meant = "did you mean " + one + "?"
	}
	return fmt.Sprintf("%s: is no field of %s: %s", short(v.path), v.of.Name(), meant)
}

// rule says what a value must be, and is not.
func (v value) rule() string {
	got := short(v.text)
	switch v.text {
	case "{":
		got = "an object"
	case "[":
		got = "an array"
	}
	path := v.path
	if path == "" {
		path = "body"
	}
	return fmt.Sprintf("%s: must be %s, not %s", path, v.must(), got)
}

func (v value) must() string {
	if v.fd == nil {
		return "an object"
	}
	fd := v.fd
	switch {
	case fd.IsMap() && !v.inside:
		return "an object"
	case fd.IsMap():
		fd = fd.MapValue()
	case fd.IsList() && !v.inside:
		return "an array"
	}
	switch fd.Kind() {
	case protoreflect.BoolKind:
		return "true or false"
	case protoreflect.EnumKind:
		values := fd.Enum().Values()
		names := make([]string, values.Len())
		for i := range names {
			names[i] = string(values.Get(i).Name())
		}
		return "one of " + strings.Join(names, ", ") + ", or its number"
	case protoreflect.StringKind:
		return "a string"
	case protoreflect.BytesKind:
		return "a string in base64"
	case protoreflect.Uint32Kind:
		return "a whole number from 0 to 4294967295"
	case protoreflect.Uint64Kind:
		return "a whole number from 0 to 18446744073709551615"
	case protoreflect.Int64Kind:
		return "a whole number from -9223372036854775808 to 9223372036854775807"
	}
	return "an object"
}
