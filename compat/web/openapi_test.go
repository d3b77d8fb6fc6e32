package web

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

	pb "github.com/pathlockd/pathlockd/compat/pathlockdv1"
)

// TestOpenAPI holds the served document against the descriptors: every route and
// method, every field of every message that they use, the spelling of both profiles,
// and that every reference leads somewhere.
func TestOpenAPI(t *testing.T) {
	f := serve(t, nil)
	got := f.send(t, client(t, true), http.MethodGet, openapiPath, "")
	var doc struct {
		OpenAPI    string
		Paths      map[string]map[string]json.RawMessage
		Components struct {
			Schemas map[string]struct {
				Properties map[string]map[string]any
				Required   []string
				Enum       []any
			}
			Responses map[string]any
		}
	}
	if err := json.Unmarshal([]byte(got.body), &doc); err != nil || got.StatusCode != 200 || doc.OpenAPI != "3.1.0" {
		t.Fatalf("%d, %v, openapi %q", got.StatusCode, err, doc.OpenAPI)
	}
	for path, r := range f.routes {
		for _, method := range r.methods {
			if op := doc.Paths[path][strings.ToLower(method)]; op == nil && method != http.MethodHead {
				t.Errorf("%s %s is not described", method, path)
			}
		}
	}
	if len(doc.Paths) != len(f.routes) {
		t.Errorf("%d paths are described, %d served", len(doc.Paths), len(f.routes))
	}
	for _, part := range strings.Split(got.body, `"$ref": "#/components/`)[1:] {
		kind, name, _ := strings.Cut(part[:strings.IndexByte(part, '"')], "/")
		if _, there := doc.Components.Schemas[name]; kind == "schemas" && !there ||
			kind == "responses" && doc.Components.Responses[name] == nil {
			t.Errorf("a reference to %s %s leads nowhere", kind, name)
		}
	}
	check := func(name string, md protoreflect.MessageDescriptor, required bool) {
		s, there := doc.Components.Schemas[name]
		if !there {
			t.Errorf("no schema %s", name)
		}
		if len(s.Properties) != md.Fields().Len() || required && len(s.Required) != md.Fields().Len() ||
			!required && len(s.Required) != 0 {
			t.Errorf("%s: %d properties, %d of them required; the message has %d fields", name, len(s.Properties),
				len(s.Required), md.Fields().Len())
		}
		for i := range md.Fields().Len() {
			fd := md.Fields().Get(i)
			p := s.Properties[fd.JSONName()]
			if p == nil {
				t.Errorf("%s: no property %s", name, fd.JSONName())
			}
			if want := pb.Comments[string(fd.FullName())]; want != "" && p["description"] != want {
				t.Errorf("%s.%s: described as %q, want %q", name, fd.JSONName(), p["description"], want)
			}
		}
	}
	service := pb.File_pathlockd_v1_pathlock_proto.Services().ByName("PathLock")
	for i := range service.Methods().Len() {
		m := service.Methods().Get(i)
		if m.IsStreamingServer() || m.IsStreamingClient() {
			continue
		}
		check(string(m.Input().Name()), m.Input(), false)
		check(string(m.Output().Name()), m.Output(), true)
		check(string(m.Output().Name())+".plain", m.Output(), true)
	}
	for schema, want := range map[string]string{"AcquireResponse": "string", "AcquireResponse.plain": "integer"} {
		if is := doc.Components.Schemas[schema].Properties["fencingToken"]["type"]; is != want {
			t.Errorf("%s: fencingToken is of type %v, want %s", schema, is, want)
		}
	}
	if a, b := doc.Components.Schemas["AcquireStatus"].Enum,
		doc.Components.Schemas["AcquireStatus.plain"].Enum; len(a) != 4 || a[1] != "ACQUIRE_STATUS_CONFLICT" ||
		len(b) != 4 || b[1] != 1.0 {
		t.Errorf("statuses are %v and %v", a, b)
	}
}
