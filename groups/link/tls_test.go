package link

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"math/big"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/groups/members"
)

// authority signs certificates for 127.0.0.1.
type authority struct {
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	pool *x509.CertPool
}

func sign(t *testing.T, template, parent *x509.Certificate, key any) (*ecdsa.PrivateKey, *x509.Certificate) {
	t.Helper()
	own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if key == nil {
		key = own
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, own.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	c, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return own, c
}

func newAuthority(t *testing.T) *authority {
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	a := &authority{pool: x509.NewCertPool()}
	a.key, a.cert = sign(t, c, c, nil)
	a.pool.AddCert(a.cert)
	return a
}

// node answers what an operator would give a node, and is careless about the rest.
func (a *authority) node(t *testing.T, name net.IP) *tls.Config {
	key, c := sign(t, &x509.Certificate{
		SerialNumber: big.NewInt(2), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{name},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, a.cert, a.key)
	return &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{c.Raw}, PrivateKey: key}}, RootCAs: a.pool, ClientCAs: a.pool,
		InsecureSkipVerify: true, ClientAuth: tls.NoClientCert,
	}
}

// TestOperatorTLS: the operator's authority decides; careless settings do not weaken it.
func TestOperatorTLS(t *testing.T) {
	local := net.IPv4(127, 0, 0, 1)
	mine, other := newAuthority(t), newAuthority(t)
	with := func(c *tls.Config) func(*Config) {
		return func(o *Config) { quick(o); o.Token, o.TLS = "", c }
	}
	b := open(t, 2, with(mine.node(t, local)))
	if err := open(t, 1, with(mine.node(t, local))).to(t, b).SendMessageBatch(batch(1, 10)); err != nil {
		t.Fatal(err)
	}
	within(t, "a batch", b.batches)

	mixed := other.node(t, local) // trusts the right authority, is signed by another
	mixed.RootCAs = mine.pool
	for name, bad := range map[string]*end{
		"signed by another": open(t, 3, with(mixed)),
		"trusts another":    open(t, 4, with(other.node(t, local))),
		"token":             open(t, 5, quick),
	} {
		if _, err := bad.GetConnection(context.Background(), b.link.Addr()); err == nil {
			t.Errorf("%s: connected", name)
		}
	}
	// A listener whose certificate is for another address is not the one that was dialed.
	elsewhere := open(t, 6, with(mine.node(t, net.IPv4(10, 1, 1, 1))))
	if _, err := open(t, 7, with(mine.node(t, local))).GetConnection(context.Background(), elsewhere.link.Addr()); err == nil {
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
	mine := newAuthority(t)
	with := func(token members.Token) func(*Config) {
		return func(o *Config) { quick(o); o.Token, o.TLS = token, mine.node(t, net.IPv4(127, 0, 0, 1)) }
	}
	const words = "do not have the same internal_auth_token"
	b := open(t, 2, with(token))
	if err := open(t, 1, with(token)).to(t, b).SendMessageBatch(batch(1, 10)); err != nil {
		t.Fatal(err)
	}
	within(t, "a batch", b.batches)
	for name, other := range map[string]members.Token{"another": token + "x", "none": ""} {
		a := open(t, 3, with(other))
		var r *Refusal
		if _, err := a.GetConnection(context.Background(), b.link.Addr()); !errors.As(err, &r) || !r.byPeer || !strings.Contains(r.text, words) {
			t.Errorf("%s: the listener does not refuse: %v", name, err)
		}
		// Where the dialer alone can find it out.
		l := open(t, 4, with(other), func(c *Config) { c.Token = "" })
		if _, err := open(t, 5, with(token)).GetConnection(context.Background(), l.link.Addr()); !errors.As(err, &r) || r.byPeer || !strings.Contains(r.text, words) {
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
	if _, err := e.GetConnection(context.Background(), conn.Addr().String()); !errors.As(err, &r) || r.byPeer || !strings.Contains(r.text, words) {
		t.Errorf("its own proof convinced the dialer: %v", err)
	}
}

// TestProofIsOfOneHandshake: what a node says to prove the token to one peer is of no use
// to that peer at another.
func TestProofIsOfOneHandshake(t *testing.T) {
	mine := newAuthority(t)
	with := func(token members.Token) func(*Config) {
		return func(o *Config) { quick(o); o.Token, o.TLS = token, mine.node(t, net.IPv4(127, 0, 0, 1)) }
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
	mine := newAuthority(t)
	c := mine.node(t, net.IPv4(127, 0, 0, 1))
	weak := c.Clone()
	c.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return weak, nil }
	b := open(t, 2, quick, func(o *Config) { o.Token, o.TLS = "", c })
	conn, err := tls.Dial("tcp", b.link.Addr(), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{protocolName}})
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
