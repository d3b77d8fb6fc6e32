package members

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

// authority signs certificates of nodes.
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
	t.Helper()
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	a := &authority{pool: x509.NewCertPool()}
	a.key, a.cert = sign(t, c, c, nil)
	a.pool.AddCert(a.cert)
	return a
}

// pair answers a certificate for an address or a name.
func (a *authority) pair(t *testing.T, name string) *tls.Certificate {
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

// node answers what an operator would give a node, and is careless about the rest.
func (a *authority) node(t *testing.T, name string) *tls.Config {
	t.Helper()
	return &tls.Config{
		Certificates: []tls.Certificate{*a.pair(t, name)}, RootCAs: a.pool, ClientCAs: a.pool,
		InsecureSkipVerify: true, ClientAuth: tls.NoClientCert,
	}
}

const local = "127.0.0.1"

// with has nodes use certificates.
func with(c *tls.Config) func(*Config) { return func(o *Config) { o.TLS = c } }
