package rows

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
)

type row struct{ key, val string }

func stream(t testing.TB, all []row) []byte {
	t.Helper()
	var b bytes.Buffer
	w := NewWriter(&b, NewestFormat)
	for _, r := range all {
		w.Row([]byte(r.key), []byte(r.val))
	}
	if err := w.End(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func readAll(from io.Reader) (all []row, rest io.Reader, err error) {
	r := NewReader(from)
	for {
		key, val, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all, r.Rest(), nil
		}
		if err != nil {
			return all, nil, err
		}
		all = append(all, row{string(key), string(val)})
	}
}

func TestStream(t *testing.T) {
	want := []row{{"g\x00\x01H", "v"}, {"", ""}, {"k", ""}, {"", "v"}, {"long", strings.Repeat("x", 3<<20)},
		{"short", "y"}}
	b := append(stream(t, want), "what follows"...)
	for name, from := range map[string]io.Reader{"whole": bytes.NewReader(b),
		"byte by byte": iotest.OneByteReader(bytes.NewReader(b))} {
		got, rest, err := readAll(from)
		if err != nil || len(got) != len(want) {
			t.Fatalf("%s: %d rows, %v", name, len(got), err)
		}
		for i := range want {
			if got[i] != want[i] {
				t.Errorf("%s: row %d is %.20q: %.20q", name, i, got[i].key, got[i].val)
			}
		}
		if text, err := io.ReadAll(rest); string(text) != "what follows" || err != nil {
			t.Errorf("%s: %q follows, %v", name, text, err)
		}
	}
	b = stream(t, want[:3])
	for n := range b {
		if _, _, err := readAll(bytes.NewReader(b[:n])); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%d of %d bytes: %v", n, len(b), err)
		}
	}
	for _, bad := range []string{"\x02\x00", "\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f", "\x01\xff\xff\xff\xff\x7f",
		"\x01\x01\xff\xff\xff\xff\x7f"} {
		if _, _, err := readAll(strings.NewReader(bad)); err == nil || errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestWriterFails(t *testing.T) {
	w := NewWriter(failing{}, NewestFormat)
	for range 3 {
		w.Row(make([]byte, bufferBytes), nil)
	}
	if w.Err() == nil || w.End() == nil {
		t.Error("a write that fails is not told")
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errors.New("the disk is full") }

func TestKeys(t *testing.T) {
	for _, c := range []struct {
		key  []byte
		want Key
	}{
		{Group(nil, 513, []byte("Hx")), Key{Space: SpaceGroup, Group: 513, Row: []byte("Hx")}},
		{System(nil, []byte("m")), Key{Space: SpaceSystem, Row: []byte("m")}},
		{Log(7, LogState, nil), Key{Space: SpaceLog, Log: 7, Kind: LogState, Row: []byte{}}},
		{Log(1<<40, LogSession, []byte("id")), Key{Space: SpaceLog, Log: 1 << 40, Kind: LogSession, Row: []byte("id")}},
	} {
		got, err := Parse(c.key)
		if err != nil || got.Space != c.want.Space || got.Group != c.want.Group || got.Log != c.want.Log ||
			got.Kind != c.want.Kind ||
			!bytes.Equal(got.Row, c.want.Row) {
			t.Errorf("%q is %+v, %v", c.key, got, err)
		}
	}
	for _, bad := range []string{"", "g", "g\x00\x01", "s", "l", "l\x00\x00\x00\x00\x00\x00\x00\x01", "x123"} {
		if _, err := Parse([]byte(bad)); err == nil {
			t.Errorf("%q passes for a key", bad)
		}
	}
}

// TestLayoutIsPinned: databases and backups outlive the version that wrote them.
func TestLayoutIsPinned(t *testing.T) {
	state := State{Applied: 300, Term: 2, Node: 3, Incarnation: 4, Number: 5, Now: -6, Wall: 7}
	for want, got := range map[string][]byte{
		"g\x02\x01row":                         Group(nil, 513, []byte("row")),
		"srow":                                 System(nil, []byte("row")),
		"l\x00\x00\x00\x00\x00\x00\x00\x07a":   Log(7, LogState, nil),
		"l\x00\x00\x00\x00\x00\x00\x01\x00sid": Log(256, LogSession, []byte("id")),
		"\xac\x02\x02\x03\x04\x05\x0b\x0e":     state.Append(nil),
		"\x01\x02k\x03val\x01\x00\x00":         stream(t, []row{{"k", "val"}, {"", ""}}),
	} {
		if string(got) != want {
			t.Errorf("%q is written, want %q", got, want)
		}
	}
	for group, want := range []uint64{2, 3, 4, 2, 3, 4, 2} {
		if home := Home(group, 3); home != want {
			t.Errorf("group %d of three logs lives in log %d, want %d", group, home, want)
		}
	}
}

// TestAnnouncedLengths: a length takes no memory before its bytes are there.
func TestAnnouncedLengths(t *testing.T) {
	promise := binary.AppendUvarint([]byte{byte(NewestFormat)}, maxRow)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, _, err := readAll(bytes.NewReader(append(promise, "three"...))); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Error(err)
	}
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > 8*bufferBytes {
		t.Errorf("%d bytes were allocated for five", took)
	}
}

func TestState(t *testing.T) {
	want := State{Applied: 1 << 40, Term: 2, Node: 3, Incarnation: 1<<63 + 4, Number: 5, Now: -6, Wall: 1 << 41}
	earlier := len(want.Append(nil))
	want.Limits = "limits"
	limits := len(want.Append(nil))
	want.Nodes = "nodes"
	b := want.Append(nil)
	if got, err := ParseState(append(b, "newer fields"...)); got != want || err != nil {
		t.Errorf("%+v, %v", got, err)
	}
	for n := range b {
		if n == earlier || n == limits { // builds that stated no limits, or no nodes, ended there
			continue
		}
		if _, err := ParseState(b[:n]); err == nil {
			t.Errorf("%d of %d bytes pass", n, len(b))
		}
	}
	want.Limits = ""
	if got, err := ParseState(want.Append(nil)); got != want || err != nil {
		t.Errorf("without limits: %+v, %v", got, err)
	}
}

func TestSum(t *testing.T) {
	var a, b Sum
	a.Add(1, 2)
	a.Add(3, 4)
	b.Add(1, 2)
	if bytes.Equal(a.Append(nil), b.Append(nil)) {
		t.Error("a group more makes no difference")
	}
	var c Sum
	c.Add(2, 2)
	if bytes.Equal(b.Append(nil), c.Append(nil)) {
		t.Error("whose digest it is makes no difference")
	}
	whole := a.Append(nil)
	if got, err := ReadSum(bytes.NewReader(whole)); !bytes.Equal(got[:], whole) || err != nil {
		t.Errorf("%x, %v", got, err)
	}
	for _, bad := range [][]byte{nil, whole[:7], append(whole[:8:8], 0)} {
		if _, err := ReadSum(bytes.NewReader(bad)); err == nil {
			t.Errorf("%x passes for a sum", bad)
		}
	}
}

// FuzzReader: whatever comes, a reader answers rows that a writer writes the same way,
// or an error.
func FuzzReader(f *testing.F) {
	f.Add(stream(f, []row{{"g\x00\x01H", "v"}, {"k", ""}}))
	f.Add([]byte{1, 0})
	f.Add([]byte{1, 0xff, 0xff, 0xff, 0x1f, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		all, _, err := readAll(bytes.NewReader(b))
		if err != nil {
			return
		}
		again, _, err := readAll(bytes.NewReader(stream(t, all)))
		if err != nil || len(again) != len(all) {
			t.Fatalf("%d rows become %d, %v", len(all), len(again), err)
		}
		for _, r := range all {
			if k, err := Parse([]byte(r.key)); err == nil && k.Space == 0 {
				t.Fatalf("%q parses as %+v", r.key, k)
			}
		}
	})
}
