package gossip

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/pathlockd/pathlockd/wire"
)

func sample() Record {
	return Record{
		NodeID: "node-7", ClusterID: clusterA, HostID: hostID(7), Incarnation: 300,
		RaftAddr: "10.0.0.7:50052", LinkAddr: "10.0.0.7:50053", NativeAddr: "10.0.0.7:50050",
		FormatMin: 1, FormatMax: 2, State: Draining,
	}
}

// TestRecordBytes pins the encoding: nodes of neighbouring versions read it.
func TestRecordBytes(t *testing.T) {
	r := sample()
	const want = "99" + "03" +
		"c410" + "11111111111141118111111111111111" +
		"c410" + "33333333333343338333000000000007" +
		"cd012c" + "01" + "02" +
		"ae31302e302e302e373a3530303532" + "ae31302e302e302e373a3530303533" + "ae31302e302e302e373a3530303530"
	b := r.encode()
	if got := hex.EncodeToString(b); got != want {
		t.Errorf("record is\n%s, want\n%s", got, want)
	}
	if got, want := r.name(), "node-7#"; !strings.HasPrefix(got, want) || len(got) != len(want)+12 {
		t.Errorf("name is %q, want %q and a tag of 12 digits", got, want)
	}
	got, err := decodeRecord(r.name(), b)
	if err != nil || got != r {
		t.Errorf("decoded %+v (%v), want %+v", got, err, r)
	}
	// A later version says more.
	longer := wire.AppendStr(append([]byte{0x9a}, b[1:]...), "more")
	if got, err := decodeRecord(r.name(), longer); err != nil || got != r {
		t.Errorf("decoded %+v (%v) from a longer record", got, err)
	}
	// One that is short of disk space says so behind what all versions know.
	short := r
	short.Shortage = Shortage{Free: 7, Reserve: 300}
	b2 := short.encode()
	if got, want := hex.EncodeToString(b2), "9b"+want[2:]+"07cd012c"; got != want {
		t.Errorf("record of a node that is short is\n%s, want\n%s", got, want)
	}
	if got, err := decodeRecord(r.name(), b2); err != nil || got != short {
		t.Errorf("decoded %+v (%v), want %+v", got, err, short)
	}
	if got, err := decodeRecord(r.name(), wire.AppendStr(append([]byte{0x9c}, b2[1:]...), "more")); err != nil ||
		got != short {
		t.Errorf("decoded %+v (%v) from a longer record of a node that is short", got, err)
	}
	// What does not fit beside the addresses is left out.
	short.LinkAddr = strings.Repeat("a", maxRecordBytes-len(b2)+len(r.LinkAddr)-2) // of 3 bytes, its length
	if got := len(short.encode()); got != maxRecordBytes {
		t.Errorf("the longest record of a node that is short has %d bytes, want %d", got, maxRecordBytes)
	}
	short.LinkAddr += "a"
	want9 := short
	want9.Shortage = Shortage{}
	if got, err := decodeRecord(r.name(), short.encode()); err != nil || got != want9 {
		t.Errorf("decoded %+v (%v) where a shortage does not fit, want %+v", got, err, want9)
	}
}

// TestRecordMustReject lists what is no record of a node of a name.
func TestRecordMustReject(t *testing.T) {
	r := sample()
	b := r.encode()
	other := r
	other.Incarnation++
	formats := r
	formats.FormatMin = 3
	for name, c := range map[string]struct {
		name string
		meta []byte
	}{
		"nothing":           {r.name(), nil},
		"noise":             {r.name(), []byte("noise")},
		"too long":          {r.name(), append(bytes.Clone(b), make([]byte, maxRecordBytes)...)},
		"too few fields":    {r.name(), append([]byte{0x98}, b[1:]...)},
		"cut off":           {r.name(), b[:len(b)-1]},
		"another start":     {other.name(), b},
		"another node":      {"node-8#" + strings.Split(r.name(), "#")[1], b},
		"no tag":            {"node-7", b},
		"formats backwards": {formats.name(), formats.encode()},
		"state too large":   {r.name(), append([]byte{0x99, 0xcd, 0x01, 0x00}, b[2:]...)},
		"id too short":      {r.name(), bytes.Replace(b, []byte{0xc4, 0x10, 0x11}, []byte{0xc4, 0x0f}, 1)},
	} {
		if got, err := decodeRecord(c.name, c.meta); !errors.Is(err, errRecord) {
			t.Errorf("%s: decoded %+v (%v)", name, got, err)
		}
	}
}

// TestStartRefuses lists what a node does not start with, and what the message must
// say.
func TestStartRefuses(t *testing.T) {
	t.Parallel()
	good := Config{Self: sample(), Token: token, Bind: "127.0.0.1:0"}
	for name, c := range map[string]struct {
		change func(*Config)
		words  []string
	}{
		"no token": {func(c *Config) { c.Token = "" }, []string{"internal_auth_token", "32 bytes"}},
		"short token": {func(c *Config) { c.Token = token[:MinTokenBytes-1] },
			[]string{"internal_auth_token", "32 bytes"}},
		"no node id":  {func(c *Config) { c.Self.NodeID = "" }, []string{"node_id"}},
		"odd node id": {func(c *Config) { c.Self.NodeID = "a#1" }, []string{"node_id", "#"}},
		"no cluster":  {func(c *Config) { c.Self.ClusterID = "" }, []string{"cluster id", "UUID"}},
		"no host":     {func(c *Config) { c.Self.HostID = "host" }, []string{"host id", "UUID"}},
		"no start":    {func(c *Config) { c.Self.Incarnation = 0 }, []string{"incarnation"}},
		"no format":   {func(c *Config) { c.Self.FormatMin = 3 }, []string{"formats 3 to 2"}},
		"no state":    {func(c *Config) { c.Self.State = asking }, []string{"asking"}},
		"long address": {func(c *Config) { c.Self.LinkAddr = strings.Repeat("a", 480) },
			[]string{"link_addr (480)", "limit is 512", "raft_addr (14 bytes)"}},
		"bad seed":      {func(c *Config) { c.Seeds = []string{"host"} }, []string{"seed_nodes", "host:port"}},
		"seed port 0":   {func(c *Config) { c.Seeds = []string{"host:0"} }, []string{"seed_nodes", "1 to 65535"}},
		"many seeds":    {func(c *Config) { c.Seeds = make([]string, maxSeeds+1) }, []string{"seed_nodes", "64"}},
		"bad bind":      {func(c *Config) { c.Bind = "nowhere" }, []string{"gossip_addr", "nowhere"}},
		"foreign bind":  {func(c *Config) { c.Bind = "192.0.2.1:0" }, []string{"listen for gossip", "192.0.2.1"}},
		"bad advertise": {func(c *Config) { c.Advertise = "0.0.0.0:1" }, []string{"gossip_advertise_addr"}},
		"many settings": {func(c *Config) {
			c.Settings = make(map[string]string)
			for i := range maxSettings + 1 {
				c.Settings[fmt.Sprint(i)] = ""
			}
		}, []string{"settings", "16"}},
		"long setting": {func(c *Config) {
			c.Settings = map[string]string{"a": strings.Repeat("a",
				maxSettingBytes+1)}
		}, []string{"setting", "128"}},
	} {
		cfg := good
		c.change(&cfg)
		m, err := Start(cfg)
		if err == nil {
			_ = m.Close()
			t.Errorf("%s: started", name)
			continue
		}
		for _, w := range c.words {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s: %q, want %q in it", name, err, w)
			}
		}
		if strings.Contains(err.Error(), string(token[:MinTokenBytes-1])) {
			t.Errorf("%s: %q shows the token", name, err)
		}
	}
}

// TestLongestRecordIsGossiped sends a record of exactly the limit, under the longest
// node id, and one byte more at run time.
func TestLongestRecordIsGossiped(t *testing.T) {
	t.Parallel()
	a := start(t, 1)
	b := start(t, 2, seeds(a), self(func(r *Record) {
		r.NodeID = strings.Repeat("n", maxNodeID-1) + "1"
		r.LinkAddr = ""
		for len(r.encode()) < maxRecordBytes {
			r.LinkAddr += "a"
		}
	}))
	allSee(t, a, b)
	before := b.table.self()
	err := b.Update(func(r *Record) { r.LinkAddr += "a" })
	if err == nil || !strings.Contains(err.Error(), "513 bytes") || b.table.self() != before {
		t.Errorf("a record that is too long: %v", err)
	}
}

// TestTokenIsHidden prints and logs a token in every way.
func TestTokenIsHidden(t *testing.T) {
	c := Config{Token: token}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x"} {
		if s := fmt.Sprintf(verb, token); strings.Contains(s, "token") ||
			strings.Contains(s, hex.EncodeToString([]byte(token))) {
			t.Errorf("%s prints %s", verb, s)
		}
		if s := fmt.Sprintf(verb, c); strings.Contains(s, string(token)) ||
			strings.Contains(s, hex.EncodeToString([]byte(token))) {
			t.Errorf("%s prints %s", verb, s)
		}
	}
	var logged bytes.Buffer
	slog.New(slog.NewTextHandler(&logged, nil)).Info("", "a", token, "b", c)
	slog.New(slog.NewJSONHandler(&logged, nil)).Info("", "a", token)
	if s := logged.String(); strings.Contains(s, string(token)) || strings.Count(s, "hidden") != 3 {
		t.Errorf("it is logged as %s", s)
	}
	key, err := token.key()
	if err != nil || len(key) != 32 {
		t.Fatalf("key of %d bytes (%v)", len(key), err)
	}
	// HKDF-SHA256 without salt under the label: nodes of all versions must agree.
	if got, want := hex.EncodeToString(key),
		"0eb6fd0b449939af0ec9879f19428548e451f9bd6aa88576077fca11a36074ba"; got != want {
		t.Errorf("key is %s, want %s", got, want)
	}
}

// FuzzDecode throws bytes at everything that is read from other nodes.
func FuzzDecode(f *testing.F) {
	r := sample()
	f.Add(r.encode())
	f.Add(encodeAnswer(&r, map[string]string{"a": "b"}))
	n := notice{why: refuse(ErrFull, "full"), from: "node-1"}
	n.to.Name = r.name()
	f.Add(n.encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		if rec, err := decodeRecord(r.name(), b); err == nil && rec.State != asking {
			again, err := decodeRecord(r.name(), rec.encode())
			if err != nil || again != rec {
				t.Errorf("%+v became %+v (%v)", rec, again, err)
			}
		}
		if a, err := decodeAnswer(b); err == nil && len(a.Settings) > maxSettings {
			t.Errorf("%d settings", len(a.Settings))
		}
		if err := decodeNotice(b, r.name()); err != nil && len(b) > maxNotice {
			t.Error(err)
		}
	})
}

// TestNotice sends each reason, and what is none.
func TestNotice(t *testing.T) {
	r := sample()
	for _, reason := range reasons[1:] {
		n := notice{why: refuse(reason, "because of %d", 1), from: "node-1"}
		n.to.Name = r.name()
		err := decodeNotice(n.encode(), r.name())
		if !errors.Is(err, reason) || !strings.Contains(err.Error(), "node node-1") ||
			!strings.Contains(err.Error(), "because of 1") {
			t.Errorf("%v: decoded %v", reason, err)
		}
		if err := decodeNotice(n.encode(), "node-7#former"); err != nil {
			t.Errorf("a notice to a former start is taken: %v", err)
		}
		n.why.text = strings.Repeat("a", maxNotice)
		if err := decodeNotice(n.encode(), r.name()); err != nil {
			t.Error("a notice that is too long is taken")
		}
	}
}
