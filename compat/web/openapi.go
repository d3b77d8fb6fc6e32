package web

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	pb "github.com/pathlockd/pathlockd/compat/pathlockdv1"
)

// object is a JSON object whose members stay in order.
type object []member

type member struct {
	name  string
	value any
}

// MarshalJSON implements json.Marshaler.
func (o object) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, m := range o {
		if i > 0 {
			b.WriteByte(',')
		}
		name, err := json.Marshal(m.name)
		if err != nil {
			return nil, err
		}
		value, err := json.Marshal(m.value)
		if err != nil {
			return nil, err
		}
		b.Write(name)
		b.WriteByte(':')
		b.Write(value)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// schemaUse is how a schema is used: what is taken is wider than what is given.
type schemaUse struct {
	suffix string // of the schema's name
	taken  bool
	as     profile
}

var (
	taken      = schemaUse{taken: true}
	given      = schemaUse{as: proto3}
	givenPlain = schemaUse{suffix: ".plain", as: plain}
)

// document describes the interface as OpenAPI 3.1, made from the descriptors of the
// messages and the comments of the .proto.
func document(plainDefault bool) []byte {
	d := describer{schemas: make(map[string]object), def: given}
	if plainDefault {
		d.def = givenPlain
	}
	service := pb.File_pathlockd_v1_pathlock_proto.Services().ByName("PathLock")
	var paths object
	for i := range service.Methods().Len() {
		m := service.Methods().Get(i)
		if m.IsStreamingClient() || m.IsStreamingServer() {
			continue
		}
		ops := object{{"post", d.operation(m, true)}}
		if traits[string(m.Name())]&gets != 0 {
			ops = append(object{{"get", d.operation(m, false)}}, ops...)
		}
		paths = append(paths, member{pathOf(string(m.Name())), ops})
	}
	paths = append(paths,
		member{eventsPath, object{{"get", eventsOperation()}}},
		member{openapiPath, object{{"get", object{
			{"operationId", "openapi"}, {"summary", "This document."},
			{"responses", object{{"200", object{
				{"description", "The description of the interface."},
				{"content", object{{typeJSON[0], object{{"schema", object{{"type", "object"}}}}}}},
			}}}},
		}}}})
	d.schemas["Error"] = errorSchema()
	names := make([]string, 0, len(d.schemas))
	for name := range d.schemas {
		names = append(names, name)
	}
	slices.Sort(names)
	var schemas object
	for _, name := range names {
		schemas = append(schemas, member{name, d.schemas[name]})
	}
	b, err := json.MarshalIndent(object{
		{"openapi", "3.1.0"},
		{"info", object{
			{"title", "pathlockd"}, {"version", "v1"},
			{"description", pb.Comments[string(service.FullName())] +
				" Answers have two profiles. proto3: enums as names, 64-bit numbers as strings. plain: enums and " +
				"64-bit numbers as numbers. Ask for one with the header `Accept: application/json; profile=plain` " +
				"(or proto3). Requests may use either spelling."},
			{"license", object{{"name", "Apache-2.0"}, {"identifier", "Apache-2.0"}}},
		}},
		{"servers", []object{{{"url", "/"}}}},
		{"paths", paths},
		{"components", object{
			{"schemas", schemas},
			{"responses", object{{"Error", object{
				{"description", "The request was refused, or failed. The status follows from the code: 400 " +
					"INVALID_ARGUMENT, 404 NOT_FOUND, 409 ABORTED, 412 FAILED_PRECONDITION, 429 RESOURCE_EXHAUSTED " +
					"(431 for headers), 499 CANCELLED, 503 UNAVAILABLE, 504 DEADLINE_EXCEEDED, 500 else; 405, 415 " +
					"and 425 where HTTP says more."},
				{"content", object{{typeJSON[0], object{{"schema", ref("Error")}}}}},
			}}}},
		}},
	}, "", " ")
	if err != nil {
		panic(err) // it is made of strings and numbers
	}
	return append(b, '\n')
}

// describer gathers the schemas that a document refers to.
type describer struct {
	schemas map[string]object
	def     schemaUse
}

func ref(name string) object { return object{{"$ref", "#/components/schemas/" + name}} }

// operation describes an RPC.
func (d *describer) operation(m protoreflect.MethodDescriptor, post bool) object {
	name := strings.TrimPrefix(pathOf(string(m.Name())), prefix)
	op := object{{"operationId", name}, {"summary", pb.Comments[string(m.FullName())]}}
	if !post {
		op[0].value = name + "ByGet"
	} else {
		op = append(op, member{"requestBody", object{
			{"required", m.Input().Fields().Len() > 0},
			{"content", object{{typeJSON[0], object{{"schema", d.message(m.Input(), taken)}}}}},
		}})
	}
	answers := object{
		{typeJSON[0], object{{"schema", d.message(m.Output(), d.def)}}},
		{typeJSON[0] + "; profile=proto3", object{{"schema", d.message(m.Output(), given)}}},
		{typeJSON[0] + "; profile=plain", object{{"schema", d.message(m.Output(), givenPlain)}}},
	}
	responses := object{{"200", object{{"description", "The outcome."}, {"content", answers}}}}
	if m.Name() == "Health" {
		responses = append(responses, member{"503", object{{"description", "The node does not serve; detail says why."},
			{"content", answers}}})
	}
	return append(op, member{"responses", append(responses,
		member{"default", object{{"$ref", "#/components/responses/Error"}}})})
}

// message answers a reference to a message's schema, which it makes at the first call.
func (d *describer) message(md protoreflect.MessageDescriptor, dir schemaUse) object {
	name := string(md.Name()) + dir.suffix
	if dir.taken && !strings.HasSuffix(name, "Request") {
		name += "Input"
	}
	if _, there := d.schemas[name]; there {
		return ref(name)
	}
	d.schemas[name] = nil // it is being made
	var properties object
	required := []string{}
	for i := range md.Fields().Len() {
		fd := md.Fields().Get(i)
		properties = append(properties, member{fd.JSONName(), d.field(fd, dir)})
		required = append(required, fd.JSONName())
	}
	schema := object{{"type", "object"}}
	if text := pb.Comments[string(md.FullName())]; text != "" {
		schema = append(schema, member{"description", text})
	}
	schema = append(schema, member{"properties", properties})
	if properties == nil {
		schema[len(schema)-1].value = object{}
	}
	if !dir.taken {
		schema = append(schema, member{"required", required})
	}
	d.schemas[name] = schema
	return ref(name)
}

func (d *describer) field(fd protoreflect.FieldDescriptor, dir schemaUse) object {
	var schema object
	switch {
	case fd.IsMap():
		schema = object{{"type", "object"}, {"additionalProperties", d.single(fd.MapValue(), dir)}}
	case fd.IsList():
		schema = object{{"type", "array"}, {"items", d.single(fd, dir)}}
	case fd.Message() != nil:
		schema = object{{"anyOf", []object{d.single(fd, dir), {{"type", "null"}}}}}
	default:
		schema = d.single(fd, dir)
	}
	if text := pb.Comments[string(fd.FullName())]; text != "" {
		schema = append(schema, member{"description", text})
	}
	return schema
}

// single describes a value of a field, or one of several.
func (d *describer) single(fd protoreflect.FieldDescriptor, dir schemaUse) object {
	switch fd.Kind() {
	case protoreflect.StringKind:
		return object{{"type", "string"}}
	case protoreflect.BoolKind:
		return object{{"type", "boolean"}}
	case protoreflect.BytesKind:
		return object{{"type", "string"}, {"contentEncoding", "base64"}}
	case protoreflect.Uint32Kind:
		return object{{"type", "integer"}, {"minimum", 0}, {"maximum", uint32(1<<32 - 1)}}
	case protoreflect.Int64Kind:
		return wide(dir, `^-?[0-9]+$`, member{"format", "int64"})
	case protoreflect.Uint64Kind:
		return wide(dir, `^[0-9]+$`, member{"minimum", 0})
	case protoreflect.EnumKind:
		return d.enum(fd.Enum(), dir)
	case protoreflect.MessageKind:
		return d.message(fd.Message(), dir)
	}
	panic("the interface has no fields of kind " + fd.Kind().String()) // TestEveryKind
}

// wide describes a 64-bit number.
func wide(dir schemaUse, pattern string, rule member) object {
	number, text := object{{"type", "integer"}, rule}, object{{"type", "string"}, {"pattern", pattern}}
	switch {
	case dir.taken:
		return object{{"anyOf", []object{number, text}}}
	case dir.as.strings:
		return text
	}
	return number
}

// enum answers a reference to an enum's schema.
func (d *describer) enum(ed protoreflect.EnumDescriptor, dir schemaUse) object {
	name := string(ed.Name()) + dir.suffix
	if dir.taken {
		name += "Input"
	}
	if _, there := d.schemas[name]; there {
		return ref(name)
	}
	var names []string
	var numbers []int32
	lines := []string{pb.Comments[string(ed.FullName())]}
	for i := range ed.Values().Len() {
		v := ed.Values().Get(i)
		names, numbers = append(names, string(v.Name())), append(numbers, int32(v.Number()))
		lines = append(lines, strings.TrimSuffix(fmt.Sprintf("%d %s: %s", v.Number(), v.Name(),
			pb.Comments[string(v.FullName())]), ": "))
	}
	byName, byNumber := object{{"type", "string"}, {"enum", names}}, object{{"type", "integer"}, {"enum", numbers}}
	schema := byNumber
	switch {
	case dir.taken:
		schema = object{{"anyOf", []object{byName, byNumber}}}
	case dir.as.names:
		schema = byName
	}
	d.schemas[name] = append(schema, member{"description", strings.TrimSpace(strings.Join(lines, "\n"))})
	return ref(name)
}

func errorSchema() object {
	text := object{{"type", "string"}}
	return object{
		{"type", "object"}, {"required", []string{"error"}},
		{"properties", object{{"error", object{
			{"type", "object"}, {"required", []string{"code", "message"}},
			{"properties", object{{"code", append(slices.Clone(text), member{"enum", codeNames()})},
				{"message", text}}},
		}}}},
	}
}

func eventsOperation() object {
	param := func(name, in, text string, required bool) object {
		return object{{"name", name}, {"in", in}, {"required", required}, {"description", text},
			{"schema", object{{"type", "string"}}}}
	}
	return object{
		{"operationId", "events"},
		{"summary", "Tells an owner what happens to it, as server-sent events: frames `id: N` and `data: " +
			"{\"id\":N,\"type\":\"grant|revoke|killed\",\"ownerId\":\"…\"}`, and a comment every 15 s."},
		{"parameters", []object{
			param("owner_id", "query", "whose events", true),
			param("after", "query", "go on after this id; none: from now on", false),
			param("Last-Event-ID", "header", "the same, and it goes first: browsers send it when they connect again",
				false),
		}},
		{"responses", object{
			{"200", object{{"description", "The stream."},
				{"content", object{{"text/event-stream", object{{"schema", object{{"type", "string"}}}}}}}}},
			{"default", object{{"$ref", "#/components/responses/Error"}}},
		}},
	}
}

// describe serves the description of the interface.
func (s *Server) describe(w http.ResponseWriter, _ *http.Request) {
	answer(w, http.StatusOK, s.openapi())
}
