package conformance_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// The short form of requests and answers: words, for a message whose descriptor is
// known. README.md tells the forms.

// positional says which fields the words without a name are, in this order; a list
// takes all that follow.
var positional = map[string][]string{
	"AcquireRequest": {"owner_id", "requests"}, "ReleaseLocksRequest": {"owner_id", "requests"},
	"ReleaseAllRequest": {"owner_id", "domains"}, "RenewRequest": {"owner_id", "domains"},
	"ForceReleaseRequest": {"victim_id"}, "AssertFencingRequest": {"owner_id", "fencing_token", "paths"},
	"DetectCycleRequest":   {"start_owner_id", "max_depth"},
	"IsBlockingRequest":    {"conflict_path", "conflict_owner", "reason"},
	"SetWaitEdgeRequest":   {"owner_id", "conflict_owner", "conflict_path", "reason"},
	"ClearWaitEdgeRequest": {"owner_id"},
	"IsOwnerAliveRequest":  {"owner_id", "domains"}, "RequestRevokeRequest": {"owner_id"},
	"SetNamespacePolicyRequest": {"namespace", "algorithm"}, "GetNamespacePolicyRequest": {"namespace"},
	"DeleteNamespacePolicyRequest": {"namespace"}, "InspectPathRequest": {"path"},
	"ListOwnerLocksRequest": {"owner_id", "domains"}, "SubscribeRequest": {"owner_id"},
	"DescribePathRequest": {"path"}, "ScanLocksRequest": {"prefix"},

	"AcquireResponse": {"status", "reason", "path"}, "RenewResponse": {"status", "reason", "path"},
	"AssertFencingResponse": {"status", "reason", "path"}, "DetectCycleResponse": {"kind", "chain"},
	"GetNamespacePolicyResponse": {"algorithm"}, "ListOwnerLocksResponse": {"locks"},
	"DumpLocksResponse": {"entries"}, "ScanLocksResponse": {"entries"}, "Event": {"type", "path"},
}

// aliases are short names of fields.
var aliases = map[string]string{
	"ttl": "ttl_ms", "queue": "queue_ttl_ms", "token": "fencing_token", "key": "idempotency_key",
	"release": "release_requests", "ns": "namespace", "pos": "position", "current": "current_fencing_token",
	"alg": "algorithm", "noqueue": "no_queue", "del_wait": "del_wait_key", "revoke": "revoke_requested",
	"write": "write_owner", "read": "read_owners", "permit": "semaphore_owners", "page": "owner_page",
	"meta": "metadata", "by": "owner", "expires": "expires_in_ms", "since": "since_unix_ms", "max": "max_waiters",
}

// variable stands for a value that an answer brings, and a later step uses.
type variable string

// anything matches every value but the default.
type anything struct{}

// count matches a list of so many elements.
type count int

// scribe builds messages from words.
type scribe struct {
	names names
	vars  map[string]any // of a request: what variables stand for
	want  bool           // an expectation: variables stay variables
}

// message builds one from words.
func (s *scribe) message(d protoreflect.MessageDescriptor, words []string) (message, error) {
	if len(words) == 1 && strings.HasPrefix(words[0], "{") {
		return s.fromJSON(d, words[0])
	}
	m := message{}
	fields := positional[string(d.Name())]
	for i := 0; i < len(words); i++ {
		w := words[i]
		name, text, named := cutName(d, w)
		f := fieldOf(d, w)
		switch {
		case w == "-":
			continue
		case w == "by" && i+1 < len(words):
			name, text, i = "owner", words[i+1], i+1
		case named:
		case f != nil && f.Kind() == protoreflect.BoolKind:
			name, text = w, "true"
		case len(fields) == 0:
			return nil, fmt.Errorf("%s: no field for %q", d.Name(), w)
		default:
			name, text = fields[0], w
			if !fieldOf(d, name).IsList() {
				fields = fields[1:]
			}
		}
		if err := s.set(m, d, name, text); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// cutName splits name=value, where the name is that of a field.
func cutName(d protoreflect.MessageDescriptor, w string) (name, text string, named bool) {
	name, text, named = strings.Cut(w, "=")
	return name, text, named && fieldOf(d, name) != nil
}

func fieldOf(d protoreflect.MessageDescriptor, name string) protoreflect.FieldDescriptor {
	if f := d.Fields().ByName(protoreflect.Name(name)); f != nil {
		return f
	}
	if f := d.Fields().ByJSONName(name); f != nil {
		return f
	}
	return d.Fields().ByName(protoreflect.Name(aliases[name]))
}

// set gives a field what a text says.
func (s *scribe) set(m message, d protoreflect.MessageDescriptor, name, text string) error {
	f := fieldOf(d, name)
	key := string(f.Name())
	if !f.IsList() {
		v, err := s.value(f, text)
		if err != nil {
			return fmt.Errorf("%s.%s: %w", d.Name(), key, err)
		}
		m[key] = v
		if key == "fence" && d.Fields().ByName("has_fence") != nil {
			m["has_fence"] = true // whoever names a fence says that there is one
		}
		return nil
	}
	if s.want && (text == "*" || text[:1] == "#") {
		m[key] = anything{}
		if n, err := strconv.Atoi(text[1:]); err == nil {
			m[key] = count(n)
		}
		return nil
	}
	parts := []string{text}
	if f.Kind() != protoreflect.MessageKind && !strings.HasPrefix(text, "`") {
		parts = strings.Split(text, ",")
	}
	list, _ := m[key].([]any)
	for _, part := range parts {
		v, err := s.value(f, part)
		if err != nil {
			return fmt.Errorf("%s.%s: %w", d.Name(), key, err)
		}
		list = append(list, v)
	}
	m[key] = list
	return nil
}

// value reads one value of a field.
func (s *scribe) value(f protoreflect.FieldDescriptor, text string) (any, error) {
	if s.want && text == "*" {
		return anything{}, nil
	}
	if strings.HasPrefix(text, "$") {
		return s.variable(text)
	}
	switch k := f.Kind(); {
	case k == protoreflect.MessageKind:
		return s.element(f.Message(), text)
	case k == protoreflect.EnumKind:
		if _, err := enumNumber(f.Enum(), text); err != nil {
			return nil, err
		}
		return strings.ToUpper(text), nil
	case k == protoreflect.BoolKind:
		return strconv.ParseBool(text)
	case isInteger(k):
		if d, err := time.ParseDuration(text); err == nil && strings.HasSuffix(string(f.Name()), "_ms") && text != "0" {
			return d.Milliseconds(), nil
		}
		return strconv.ParseInt(text, 10, 64)
	case k == protoreflect.BytesKind:
		return text, nil
	}
	return s.text(string(f.Name()), text)
}

// text reads a string: repeated parts, escapes, prefix, and padding, in this order.
func (s *scribe) text(field, text string) (string, error) {
	if !strings.ContainsAny(text, `{\<`) {
		return s.names.of(field, text), nil
	}
	text = repeated.ReplaceAllStringFunc(text, func(r string) string {
		p := repeated.FindStringSubmatch(r)
		n, _ := strconv.Atoi(p[2])
		return strings.Repeat(p[1], n)
	})
	if strings.Contains(text, `\`) {
		var err error
		if text, err = strconv.Unquote(`"` + text + `"`); err != nil {
			return "", fmt.Errorf("%q: %w", text, err)
		}
	}
	pad := 0
	if p := padded.FindStringSubmatch(text); p != nil {
		pad, _ = strconv.Atoi(p[1])
		text = strings.TrimSuffix(text, p[0])
	}
	text = s.names.of(field, text)
	return text + strings.Repeat("x", max(0, pad-len(text))), nil
}

// variable is what $name stands for; in a request it may be $name+1 or $name-1.
func (s *scribe) variable(text string) (any, error) {
	name := text[1:]
	if s.want {
		return variable(name), nil
	}
	plus := int64(0)
	if i := strings.IndexAny(name, "+-"); i > 0 {
		var err error
		if plus, err = strconv.ParseInt(name[i:], 10, 64); err != nil {
			return nil, err
		}
		name = name[:i]
	}
	v, ok := s.vars[name]
	if !ok {
		return nil, fmt.Errorf("no step has set $%s", name)
	}
	if n, isInt := v.(int64); isInt {
		return n + plus, nil
	}
	return v, nil
}

// element reads the short form of a list's element: a path, then what else there is
// to say, between commas.
func (s *scribe) element(d protoreflect.MessageDescriptor, text string) (message, error) {
	if strings.HasPrefix(text, "{") {
		return s.fromJSON(d, text)
	}
	m := message{}
	if d.Name() == "Metadata" {
		return m, s.set(m, d, "host", text)
	}
	parts := strings.Split(text, ",")
	if err := s.set(m, d, "path", parts[0]); err != nil {
		return nil, err
	}
	for _, p := range parts[1:] {
		name, value, named := cutName(d, p)
		_, notNumber := strconv.Atoi(p)
		switch {
		case named:
		case p == "r":
			name, value = "mode", "READ"
		case p == "held":
			name, value = "state", "HELD"
		case notNumber == nil:
			name, value = "permits", p
		case fieldOf(d, p) != nil:
			name, value = p, "true"
		default:
			return nil, fmt.Errorf("%s: no field for %q", d.Name(), p)
		}
		if err := s.set(m, d, name, value); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// fromJSON reads the long form, proto JSON, in which text is what it is in the short
// form.
func (s *scribe) fromJSON(d protoreflect.MessageDescriptor, text string) (message, error) {
	var raw map[string]any
	dec := json.NewDecoder(bytes.NewReader([]byte(text)))
	dec.UseNumber()
	if err := dec.Decode(&raw); err != nil {
		return nil, fmt.Errorf("%s: %w", text, err)
	}
	return s.fromMap(d, raw)
}

func (s *scribe) fromMap(d protoreflect.MessageDescriptor, raw map[string]any) (message, error) {
	m := message{}
	for name, v := range raw {
		f := fieldOf(d, name)
		if f == nil {
			return nil, fmt.Errorf("%s has no field %q", d.Name(), name)
		}
		if sub, ok := v.(map[string]any); ok && f.IsMap() {
			m[string(f.Name())] = message(sub)
			continue
		}
		list, isList := v.([]any)
		if !isList {
			list = []any{v}
		}
		values := make([]any, len(list))
		for i := range list {
			var err error
			if sub, ok := list[i].(map[string]any); ok {
				values[i], err = s.fromMap(f.Message(), sub)
			} else {
				values[i], err = s.value(f, fmt.Sprint(list[i]))
			}
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
		}
		m[string(f.Name())] = values
		if f.Name() == "fence" && d.Fields().ByName("has_fence") != nil {
			m["has_fence"] = true
		}
		if !isList {
			m[string(f.Name())] = values[0]
		}
	}
	return m, nil
}
