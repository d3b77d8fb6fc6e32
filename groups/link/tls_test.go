package link

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/groups/gossip"
	"github.com/pathlockd/pathlockd/internal/testkit/authority"
)

// local is where all of them listen.
const local = "127.0.0.1"

// TestOperatorTLS: the operator's authority decides; careless settings do not weaken it.
func TestOperatorTLS(t *testing.T) {
	mine, other := authority.New(t), authority.New(t)
	with := func(c *tls.Config) func(*Config) {
		return func(o *Config) { quick(o); o.Token, o.TLS = "", c }
	}
	b := open(t, 2, with(mine.Node(t, local)))
	if err := open(t, 1, with(mine.Node(t, local))).to(t, b).SendMessageBatch(batch(1, 10)); err != nil {
		t.Fatal(err)
	}
	within(t, "a batch", b.batches)

	mixed := other.Node(t, local) // trusts the right authority, is signed by another
	mixed.RootCAs = mine.Pool
	for name, bad := range map[string]*end{
		"signed by another": open(t, 3, with(mixed)),
		"trusts another":    open(t, 4, with(other.Node(t, local))),
		"token":             open(t, 5, quick),
	} {
		if _, err := bad.GetConnection(context.Background(), b.link.Addr()); err == nil {
			t.Errorf("%s: connected", name)
		}
	}
	// A listener whose certificate is for another address is not the one that was dialed.
	elsewhere := open(t, 6, with(mine.Node(t, "10.1.1.1")))
	if _, err := open(t, 7, with(mine.Node(t, local))).GetConnection(context.Background(),
		elsewhere.link.Addr()); err == nil {
		t.Error("connected to somebody else's certificate")
	}
	for name, c := range map[string]*tls.Config{
		"nothing":        {},
		"no authorities": {Certificates: mixed.Certificates},
	} {
		if _, err := New(Config{Cluster: "c", Node: "n", Host: "h", TLS: c}); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// TestCertificatesAndToken: whose certificate is good still has to know the token, if a
// node has one, on either side; a proof is of one end of one handshake.
func TestCertificatesAndToken(t *testing.T) {
	mine := authority.New(t)
	with := func(token gossip.Token) func(*Config) {
		return func(o *Config) { quick(o); o.Token, o.TLS = token, mine.Node(t, local) }
	}
	const words = "do not have the same internal_auth_token"
	b := open(t, 2, with(token))
	if err := open(t, 1, with(token)).to(t, b).SendMessageBatch(batch(1, 10)); err != nil {
		t.Fatal(err)
	}
	within(t, "a batch", b.batches)
	for name, other := range map[string]gossip.Token{"another": token + "x", "none": ""} {
		a := open(t, 3, with(other))
		var r *Refusal
		if _, err := a.GetConnection(context.Background(), b.link.Addr()); !errors.As(err, &r) || !r.byPeer ||
			!strings.Contains(r.text, words) {
			t.Errorf("%s: the listener does not refuse: %v", name, err)
		}
		// Where the dialer alone can find it out.
		l := open(t, 4, with(other), func(c *Config) { c.Token = "" })
		if _, err := open(t, 5, with(token)).GetConnection(context.Background(), l.link.Addr()); !errors.As(err, &r) ||
			r.byPeer || !strings.Contains(r.text, words) {
			t.Errorf("%s: the dialer does not refuse: %v", name, err)
		}
	}

	// A listener that says what the dialer said proves nothing.
	e := open(t, 6, with(token))
	conn, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	go func() {
		raw, err := conn.Accept()
		if err != nil {
			return
		}
		defer raw.Close()
		c := tls.Server(raw, e.tls)
		h, err := readHello(c)
		if err != nil {
			return
		}
		h.node, h.host = "node-7", "host-7"
		_, _ = c.Write(h.encode())
		_, _ = readHello(c)
	}()
	var r *Refusal
	if _, err := e.GetConnection(context.Background(), conn.Addr().String()); !errors.As(err, &r) || r.byPeer ||
		!strings.Contains(r.text, words) {
		t.Errorf("its own proof convinced the dialer: %v", err)
	}
}

// TestProofIsOfOneHandshake: what a node says to prove the token to one peer is of no use
// to that peer at another.
func TestProofIsOfOneHandshake(t *testing.T) {
	mine := authority.New(t)
	with := func(token gossip.Token) func(*Config) {
		return func(o *Config) { quick(o); o.Token, o.TLS = token, mine.Node(t, local) }
	}
	a, b, thief := open(t, 1, with(token)), open(t, 2, with(token)), open(t, 3, with(""))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	heard := make(chan hello, 1)
	go func() {
		raw, err := listener.Accept()
		if err != nil {
			return
		}
		defer raw.Close()
		if h, err := readHello(tls.Server(raw, thief.tls)); err == nil {
			heard <- h
		}
	}()
	if _, err := a.GetConnection(context.Background(), listener.Addr().String()); err == nil {
		t.Error("connected to one that says nothing")
	}
	h := within(t, "the hello of node-1", heard)
	h.node, h.host = "node-3", "host-3"
	conf := thief.tls.Clone()
	conf.ServerName = "127.0.0.1"
	conn, err := tls.Dial("tcp", b.link.Addr(), conf)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write(h.encode()); err != nil {
		t.Fatal(err)
	}
	_ = conn.SetReadDeadline(time.Now().Add(patience))
	if answer, err := readHello(conn); err != nil || answer.verdict != otherToken {
		t.Errorf("the proof of node-1 served another: %v %q, %v", answer.verdict, answer.text, err)
	}
}

// TestOperatorCallbacks: what the operator's configuration would answer a client with
// does not get around the rules.
func TestOperatorCallbacks(t *testing.T) {
	mine := authority.New(t)
	c := mine.Node(t, local)
	weak := c.Clone()
	c.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return weak, nil }
	b := open(t, 2, quick, func(o *Config) { o.Token, o.TLS = "", c })
	conn, err := tls.Dial("tcp", b.link.Addr(),
		&tls.Config{InsecureSkipVerify: true, NextProtos: []string{protocolName}})
	if err == nil {
		defer conn.Close()
		h := hello{min: 1, max: 1, kind: Messages, cluster: clusterA, node: "node-1", host: "host-1"}
		_, _ = conn.Write(h.encode())
		_ = conn.SetReadDeadline(time.Now().Add(patience))
		if _, err := readHello(conn); err == nil {
			t.Fatal("greeted without a certificate")
		}
	}
}

// TestIdentity: one key for a token, another for another.
func TestIdentity(t *testing.T) {
	a, _ := identity(token)
	b, _ := identity(token)
	c, err := identity(token + "x")
	if err != nil || !bytes.Equal(a, b) || bytes.Equal(a, c) {
		t.Fatal("the key is not a function of the token")
	}
}
