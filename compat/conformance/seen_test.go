package conformance_test

import (
	"sync"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// seen notes which fields the scenarios sent and got over one interface, with a value
// other than the default. A conversion that loses a field can hide only where no
// scenario has one.
type seen struct {
	mu struct {
		sync.Mutex
		fields map[protoreflect.FullName]bool
		runs   int // scenarios that came to their end
	}
}

// never are fields that nobody sets: claim_owner is always empty.
var never = map[protoreflect.FullName]bool{"pathlockd.v1.InspectPathResponse.claim_owner": true}

func (s *seen) message(d protoreflect.MessageDescriptor, m message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.fields == nil {
		s.mu.fields = make(map[protoreflect.FullName]bool)
	}
	s.add(d, m)
}

func (s *seen) add(d protoreflect.MessageDescriptor, m message) {
	for name, v := range m {
		f := d.Fields().ByName(protoreflect.Name(name))
		if f == nil || isDefault(v) {
			continue
		}
		s.mu.fields[f.FullName()] = true
		if f.Kind() != protoreflect.MessageKind || f.IsMap() {
			continue
		}
		list, isList := v.([]any)
		if !isList {
			list = []any{v}
		}
		for _, e := range list {
			s.add(f.Message(), orEmpty(e))
		}
	}
}

func (s *seen) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.runs++
}

// missing fails for every field of an RPC's messages that was not seen, unless not all
// of the scenarios ran.
func (s *seen) missing(t *testing.T, name string, f face, want int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.runs < want {
		return
	}
	told := make(map[protoreflect.FullName]bool)
	var look func(d protoreflect.MessageDescriptor)
	look = func(d protoreflect.MessageDescriptor) {
		for i := range d.Fields().Len() {
			field := d.Fields().Get(i)
			if name := field.FullName(); told[name] || never[name] {
				continue
			}
			told[field.FullName()] = true
			if !s.mu.fields[field.FullName()] {
				t.Errorf("%s: no scenario sees %s", name, field.FullName())
			}
			if field.Kind() == protoreflect.MessageKind && !field.IsMap() {
				look(field.Message())
			}
		}
	}
	for i := range methods().Len() {
		if m := methods().Get(i); f.has(string(m.Name())) {
			look(m.Input())
			look(m.Output())
		}
	}
}
