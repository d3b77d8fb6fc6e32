package wire

import (
	"reflect"
	"strings"
	"testing"
)

// pageType is the type of a document's field in the page's words.
func pageType(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "string"
	case reflect.Bool:
		return "bool"
	case reflect.Slice, reflect.Array:
		return "[" + pageType(t.Elem()) + "]"
	case reflect.Struct:
		return map[string]string{
			"ClusterStatus": "document", "ClusterSettings": "settings", "NodeStatus": "node", "LogStatus": "log",
			"ReplicaStatus": "replica",
		}[t.Name()]
	}
	return "number"
}

// TestClusterStatusIsDocumented holds the page's table of the document against the
// types, both ways and in order.
func TestClusterStatusIsDocumented(t *testing.T) {
	var want [][3]string
	for _, part := range []any{ClusterStatus{}, ClusterSettings{}, NodeStatus{}, LogStatus{}, ReplicaStatus{}} {
		typ := reflect.TypeOf(part)
		for i := range typ.NumField() {
			f := typ.Field(i)
			want = append(want, [3]string{pageType(typ), f.Tag.Get("json"), pageType(f.Type)})
		}
	}
	rows := readPage(t).table(t, "| of | key | type | meaning |")
	for i, row := range rows {
		if i >= len(want) {
			t.Errorf("the page has %s.%s, the document has not", row[0], row[1])
			continue
		}
		if got := [3]string(row[:3]); got != want[i] {
			t.Errorf("row %d: page %v, code %v", i, got, want[i])
		}
		if row[0] == "node" && row[1] == "state" {
			for _, state := range []string{NodeMember, NodeJoining, NodeDraining, NodeLeaving, NodeDead, NodeUnknown} {
				if !strings.Contains(row[3], state) {
					t.Errorf("the page does not name the state %s", state)
				}
			}
		}
		if row[0] == "node" && row[1] == "drain" && row[3] != strings.Join(drainNames[:], ", ") {
			t.Errorf("the page has drains %s", row[3])
		}
	}
	if len(rows) < len(want) {
		t.Errorf("the page has %d rows, the document %d fields", len(rows), len(want))
	}
}

// TestClusterStatusRoundTrip: what is encoded is decoded, and a newer server's fields
// are skipped.
func TestClusterStatusRoundTrip(t *testing.T) {
	in := &ClusterStatus{
		ClusterID: "3f0c", Format: 2, Settings: ClusterSettings{256, 16, 3, 1, "recursive_rw"}, Self: "n0",
		Healthy:  true,
		Problems: []string{"p"}, Warnings: []string{},
		Nodes: []NodeStatus{{NodeID: "n0", State: NodeMember, Alive: true, ForMillis: 7, Drain: DrainNone.String(),
			Formats: [2]uint32{1, 2}}},
		Logs: []LogStatus{{Log: SystemLog, Name: "system", Leader: "n0", Term: 1 << 60, Target: []string{"n0"},
			Voters:   []ReplicaStatus{{Node: "n0", Replica: 1, Applied: 1 << 60, CaughtUp: true}},
			Learners: []ReplicaStatus{}}},
	}
	doc, err := in.Encode()
	if err != nil {
		t.Fatal(err)
	}
	out, err := DecodeClusterStatus(strings.Replace(doc, "{", `{"new":[{"x":1}],`, 1))
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(in, out) {
		t.Errorf("in  %+v\nout %+v", in, out)
	}
	if _, err := DecodeClusterStatus("["); err == nil {
		t.Error("half a document is taken")
	}
}
