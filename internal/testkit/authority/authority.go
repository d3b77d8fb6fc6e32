// Package authority is what an operator signs certificates with, for tests of links
// between nodes.
package authority

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net"
	"testing"
	"time"
)

// Authority signs certificates of nodes.
type Authority struct {
	// Pool has the authority alone.
	Pool *x509.CertPool
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
}

func sign(t testing.TB, template, parent *x509.Certificate, key any) (*ecdsa.PrivateKey, *x509.Certificate) {
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

// New makes one that nobody else knows.
func New(t testing.TB) *Authority {
	t.Helper()
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	a := &Authority{Pool: x509.NewCertPool()}
	a.key, a.cert = sign(t, c, c, nil)
	a.Pool.AddCert(a.cert)
	return a
}

// Pair answers a certificate for an address or a name.
func (a *Authority) Pair(t testing.TB, name string) *tls.Certificate {
	t.Helper()
	like := &x509.Certificate{
		SerialNumber: big.NewInt(2), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if ip := net.ParseIP(name); ip != nil {
		like.IPAddresses = []net.IP{ip}
	} else {
		like.DNSNames = []string{name}
	}
	key, c := sign(t, like, a.cert, a.key)
	return &tls.Certificate{Certificate: [][]byte{c.Raw}, PrivateKey: key}
}

// Node answers what an operator would give a node, and is careless about the rest.
func (a *Authority) Node(t testing.TB, name string) *tls.Config {
	t.Helper()
	return &tls.Config{
		Certificates: []tls.Certificate{*a.Pair(t, name)}, RootCAs: a.Pool, ClientCAs: a.Pool,
		InsecureSkipVerify: true, ClientAuth: tls.NoClientCert,
	}
}
