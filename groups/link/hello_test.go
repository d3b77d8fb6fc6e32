package link

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"testing"
	"time"
)

// TestWrongToken: it ends in the handshake, and both sides say why.
func TestWrongToken(t *testing.T) {
	a := open(t, 1, quick, func(c *Config) { c.Token = "another token, just as long as it." })
	b := open(t, 2, quick)
	_, err := a.GetConnection(context.Background(), b.link.Addr())
	if !errors.Is(err, ErrToken) {
		t.Fatal(err)
	}
	a.logged(t, "does not have this cluster's internal_auth_token")
	b.logged(t, "does not have this cluster's internal_auth_token")
	if b.guestConns() != 0 {
		t.Fatal("it is a guest")
	}
}

// TestUnheardPeer: of a connection that ends before its peer has said anything it is not said
// that the token is wrong: a node that was paused or cut off leaves such ones behind.
func TestUnheardPeer(t *testing.T) {
	e := open(t, 1, quick)
	c, err := net.Dial("tcp", e.link.Addr())
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	e.logged(t, "before its peer said who it is")
	if strings.Contains(e.log.String(), "internal_auth_token") {
		t.Errorf("it is told of a wrong token: %s", e.log)
	}
}

// TestRefusalsAreLoggedOnceInAWhile: who comes again and again does not fill the logs of
// either end.
func TestRefusalsAreLoggedOnceInAWhile(t *testing.T) {
	rarely := func(c *Config) { quick(c); c.timing.logEvery = time.Hour }
	a := open(t, 1, rarely, func(c *Config) { c.Cluster = clusterB })
	b := open(t, 2, rarely)
	for range 5 {
		var r *Refusal
		if _, err := a.GetConnection(context.Background(), b.link.Addr()); !errors.As(err, &r) {
			t.Fatal(err)
		}
	}
	eventually(t, "all of them gone", func() bool { b.mu.Lock(); defer b.mu.Unlock(); return len(b.mu.open) == 0 })
	for _, e := range []*end{a, b} {
		if n := strings.Count(e.log.String(), "wrong seed_nodes"); n != 1 {
			t.Errorf("%d lines about one peer, want 1: %s", n, e.log)
		}
	}
}

// TestFormatInUse: who does not work with the format that is in use is refused, whichever
// end dials; who works with it has it in use before anything else is said, or is refused.
func TestFormatInUse(t *testing.T) {
	for name, c := range map[string]struct {
		older  uint32 // the newest format of the end that has none in use
		raise  error
		raised int
		words  string
	}{
		"it is read":     {3, nil, 1, ""},
		"it is not read": {1, nil, 0, ": upgrade one step at a time; it is node node-2 that needs a newer version"},
		"no room for it": {3, errors.New("the disk is full"), 1, "the disk is full"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, dials := range []int{1, 2} {
				raised := make(chan uint32, 4)
				ends := map[int]*end{
					1: open(t, 1, quick, func(o *Config) {
						o.FormatMin, o.FormatMax, o.InUse = 1, 3,
							func() uint32 { return 2 }
					}),
					2: open(t, 2, quick, func(o *Config) {
						o.FormatMin, o.FormatMax = 1, c.older
						o.Raise = func(format uint32) error { raised <- format; return c.raise }
					}),
				}
				conn, err := ends[dials].connect(context.Background(), ends[3-dials].link.Addr(), Messages)
				switch {
				case c.words == "" && err != nil:
					t.Errorf("node %d dials: %v", dials, err)
				case c.words == "":
					conn.Close()
				case err == nil || !strings.Contains(err.Error(), c.words):
					t.Errorf("node %d dials: %v", dials, err)
				}
				// Who listens judges first, and does not leave it to the other, whichever is older.
				if r := new(Refusal); c.raised == 0 && (!errors.As(err, &r) || !r.byPeer) {
					t.Errorf("node %d dials, and node %d lets it: %v", dials, 3-dials, err)
				}
				if n := len(raised); n != c.raised || n > 0 && <-raised != 2 {
					t.Errorf("node %d dials: node 2 is told %d times which format is in use", dials, n)
				}
			}
		})
	}
}

// TestListenerChecksToo: a dialer that accepts any certificate gets no further.
func TestListenerChecksToo(t *testing.T) {
	other, err := tokenTLS("another token, just as long as it.")
	if err != nil {
		t.Fatal(err)
	}
	right, err := tokenTLS(token)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]*tls.Config{
		"no certificate": {InsecureSkipVerify: true, NextProtos: []string{protocolName}},
		"another certificate": {InsecureSkipVerify: true, NextProtos: []string{protocolName},
			Certificates: other.Certificates},
		"old TLS": {InsecureSkipVerify: true, NextProtos: []string{protocolName},
			MaxVersion: tls.VersionTLS12},
		"old TLS, right key": {InsecureSkipVerify: true, NextProtos: []string{protocolName},
			Certificates: right.Certificates, MaxVersion: tls.VersionTLS12},
		"another protocol": {InsecureSkipVerify: true, NextProtos: []string{"h2"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := open(t, 2, quick)
			conn, err := tls.Dial("tcp", b.link.Addr(), c)
			if err == nil {
				defer conn.Close()
				h := hello{min: 1, max: 1, kind: Messages, cluster: clusterA, node: "node-1", host: "host-1"}
				_, _ = conn.Write(h.encode())
				_ = conn.SetReadDeadline(time.Now().Add(patience))
				if _, err := readHello(conn); err == nil {
					t.Fatal("was greeted")
				}
			}
			b.logged(t, "internal_auth_token")
		})
	}
}

// TestRefusals: who has the token and must not connect is told why, and both ends
// log it.
func TestRefusals(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Config)
		words  string
	}{
		"another cluster": {func(c *Config) { c.Cluster = clusterB }, "wrong seed_nodes, address or data_dir"},
		"my node id":      {func(c *Config) { c.Node = "node-2" }, "node_id node-2 is used by two nodes"},
		"my host id":      {func(c *Config) { c.Host = "host-2" }, "one's data_dir is a copy"},
		"myself":          {func(c *Config) { c.Node, c.Host = "node-2", "host-2" }, "was reached by itself"},
		"not admitted":    {func(c *Config) { c.Node = "node-13" }, "was evicted"},
		"another's id": {func(c *Config) { c.Node = "node-3" },
			"node_id node-3 is used by two nodes, with raft host ids"},
	} {
		t.Run(name, func(t *testing.T) {
			b := open(t, 2, quick, func(c *Config) {
				c.Admit = func(p Peer) error {
					if p.Node == "node-13" {
						return errors.New("node-13 was evicted")
					}
					return nil
				}
			})
			open(t, 3, quick).to(t, b)
			a := open(t, 1, quick, c.change)
			_, err := a.GetConnection(context.Background(), b.link.Addr())
			var r *Refusal
			if !errors.As(err, &r) || !r.byPeer || !strings.Contains(r.text, c.words) {
				t.Fatal(err)
			}
			a.logged(t, c.words)
			b.logged(t, c.words)
			eventually(t, "only the good connection", func() bool { return b.guestConns() == 1 })
		})
	}
}

// TestDialerRefuses: the listener would talk, the dialer does not, and says so.
func TestDialerRefuses(t *testing.T) {
	a := open(t, 1, quick, func(c *Config) { c.Admit = func(Peer) error { return errors.New("node-2 was evicted") } })
	b := open(t, 2, quick)
	_, err := a.GetConnection(context.Background(), b.link.Addr())
	var r *Refusal
	if !errors.As(err, &r) || r.byPeer {
		t.Fatal(err)
	}
	a.logged(t, "node-2 was evicted")
	b.logged(t, "node-2 was evicted")
	eventually(t, "no guest", func() bool { return b.guestConns() == 0 })
}

// TestBadHello: a holder of the token that says something else is closed.
func TestBadHello(t *testing.T) {
	h := hello{min: 1, max: 1, kind: Messages, cluster: clusterA, node: "node-1", host: "host-1"}
	good := h.encode()
	long := h
	long.node = strings.Repeat("x", maxNameBytes+1)
	for name, b := range map[string][]byte{
		"magic":  append([]byte("GET / HT"), good[8:]...),
		"length": append([]byte(helloMagic), 0xff, 0xff),
		"short":  append([]byte(helloMagic), 0, 3, 0, 1, 0),
		"name":   long.encode(),
		"text":   append(append([]byte(helloMagic), 0, helloFixed+2), append(make([]byte, helloFixed), 0xff, 0xff)...),
	} {
		t.Run(name, func(t *testing.T) {
			e := open(t, 2, quick)
			c, err := tls.Dial("tcp", e.link.Addr(), e.tls)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if _, err := c.Write(b); err != nil {
				t.Fatal(err)
			}
			e.logged(t, errHello.Error())
		})
	}
}

// TestVersions: a peer that speaks no version that this one does is told so.
func TestVersions(t *testing.T) {
	e := open(t, 2, quick)
	for _, v := range []struct {
		min, max uint16
		want     verdict
	}{{versionMax + 1, versionMax + 9, otherVersion}, {0, versionMin - 1, otherVersion},
		{versionMax, versionMin - 1, otherVersion}, {0, versionMin, accepted}, {versionMax, versionMax + 9, accepted}} {
		c, err := tls.Dial("tcp", e.link.Addr(), e.tls)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		h := hello{min: v.min, max: v.max, kind: Messages, cluster: clusterA, node: "node-1", host: "host-1"}
		if _, err := c.Write(h.encode()); err != nil {
			t.Fatal(err)
		}
		if got, err := readHello(c); err != nil || got.verdict != v.want ||
			v.want == otherVersion && !strings.Contains(got.text, "of the link, node node-2 speaks 1 to 1") {
			t.Errorf("versions %d to %d: %+v, %v", v.min, v.max, got, err)
		}
	}
}

// FuzzHello: nothing a peer says breaks the decoder, and what it decodes it encodes.
func FuzzHello(f *testing.F) {
	h := hello{min: 1, max: 2, kind: Messages, cluster: clusterA, node: "n", host: "h", text: "why", proof: "\x00\xff"}
	f.Add(h.encode()[10:])
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := decodeHello(b)
		if err != nil {
			return
		}
		again, err := decodeHello(h.encode()[10:])
		if len(h.cluster) <= maxNameBytes && len(h.node) <= maxNameBytes && len(h.host) <= maxNameBytes &&
			len(h.text) <= maxTextBytes && (err != nil || again != h) {
			t.Fatalf("%+v is decoded as %+v, %v", h, again, err)
		}
	})
}
