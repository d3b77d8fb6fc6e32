package web

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// maxNesting bounds the depth of a body, of what is ignored in it too. The deepest
// message has three levels.
const maxNesting = 32

// Bodies are read as the JSON mapping of Protocol Buffers says. Fields that a request does not
// have are refused: a misspelt one would leave unsaid what it was to say, and "moed" take a write
// for a read. Who asks for it (web_unknown_fields) has them ignored; but protojson then ignores unknown
// names of enum values as well: so the first attempt is strict, and what passes only the
// second is searched.
var (
	strict  = protojson.UnmarshalOptions{RecursionLimit: maxNesting}
	lenient = protojson.UnmarshalOptions{RecursionLimit: maxNesting, DiscardUnknown: true}
)

// decode reads a body into a message. Its errors name the field, as the body does. With ignore,
// what the message does not have is no error.
func decode(body []byte, into proto.Message, ignore bool) error {
	if len(body) > largeBody && values(body) > maxValues {
		return &refusal{code: codes.InvalidArgument,
			why: fmt.Sprintf("body: has over %d values, which is more than a request may have", maxValues)}
	}
	if strict.Unmarshal(body, into) == nil {
		return nil
	}
	md := into.ProtoReflect().Descriptor()
	if err := lenient.Unmarshal(body, into); err != nil {
		return &refusal{code: codes.InvalidArgument, why: explain(md, body, err)}
	}
	if bad, found := walk(md, body, unknownName); found {
		return &refusal{code: codes.InvalidArgument, why: bad.rule()}
	}
	if ignore {
		return nil
	}
	if bad, found := walk(md, body, unknownField); found {
		return &refusal{code: codes.InvalidArgument, why: bad.stranger()}
	}
	return nil
}

// values counts the values of a body, or a little less.
func values(body []byte) (n int) {
	text := false
	for i := 0; i < len(body); i++ {
		switch c := body[i]; {
		case c == '"':
			text = !text
		case text:
			if c == '\\' {
				i++
			}
		case c == ',':
			n++
		}
	}
	return n
}

// explain says what is wrong with a body that protojson refused.
func explain(md protoreflect.MessageDescriptor, body []byte, err error) string {
	if at := invalidUTF8(body); at >= 0 {
		if bad, found := walk(md, body, func(v value) bool { return v.end > at }); found && bad.path != "" {
			return bad.path + ": is not UTF-8"
		}
		return "body: is not UTF-8 at " + position(body, at)
	}
	var syntax *json.SyntaxError
	if e := json.Unmarshal(body, new(json.RawMessage)); errors.As(e, &syntax) {
		at := min(max(int(syntax.Offset)-1, 0), len(body))
		if strings.HasPrefix(syntax.Error(), "unexpected end") {
			at = len(body)
		}
		return "body: is no JSON: " + position(body, at) + ": " + syntax.Error()
	}
	at := offset(body, err)
	if at < 0 {
		if bad, found := walk(md, body, func(v value) bool { return v.broken }); found {
			return bad.path + ": has half of a surrogate pair, which is no character"
		}
		return "body: " + cleaned(err)
	}
	if strings.Contains(err.Error(), "duplicate field") {
		return "body: " + cleaned(err) + " at " + position(body, at)
	}
	bad, found := walk(md, body, func(v value) bool { return v.end > at })
	if !found || bad.fd == nil && bad.path != "" {
		return "body: " + cleaned(err) + " at " + position(body, at)
	}
	return bad.rule()
}

var where = regexp.MustCompile(`\(line (\d+):(\d+)\)`)

// offset is where protojson found fault, -1 when it does not say.
func offset(body []byte, err error) int {
	m := where.FindStringSubmatch(err.Error())
	if m == nil {
		return -1
	}
	line, _ := strconv.Atoi(m[1])   // the pattern has digits alone
	column, _ := strconv.Atoi(m[2]) // in characters
	at := 0
	for ; line > 1 && at < len(body); at++ {
		if body[at] == '\n' {
			line--
		}
	}
	for ; column > 1 && at < len(body); column-- {
		_, n := utf8.DecodeRune(body[at:])
		at += n
	}
	return at
}

// position is an offset as people count.
func position(body []byte, at int) string {
	before := string(body[:at])
	line := strings.Count(before, "\n")
	return fmt.Sprintf("line %d, column %d", line+1,
		utf8.RuneCountInString(before[strings.LastIndexByte(before, '\n')+1:])+1)
}

// cleaned is protojson's message without its prefix and with plain spaces: it varies
// them on purpose.
func cleaned(err error) string {
	s := strings.ReplaceAll(err.Error(), "\u00a0", " ")
	s = strings.TrimPrefix(s, "proto: ")
	s = where.ReplaceAllString(s, "")
	return strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(s), ":"))
}

func invalidUTF8(b []byte) int {
	for i := 0; i < len(b); {
		r, n := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return -1
}
