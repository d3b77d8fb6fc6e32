package link

import (
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math/big"
	"time"

	"github.com/pathlockd/pathlockd/groups/gossip"
)

// Labels bind keys to what they are for; gossip's key has another one.
const (
	keyLabel    = "pathlockd link identity v1"
	proofLabel  = "pathlockd link proof v1"
	exportLabel = "EXPORTER-pathlockd-link"
)

// protocolName keeps other TLS services that hold the same certificates apart.
const protocolName = "pathlockd-link"

// ErrToken says that the peer does not prove the key that this node's
// internal_auth_token makes.
var ErrToken = errors.New("the peer does not have this cluster's internal_auth_token")

// derive answers a secret of 32 bytes that all nodes with one token share.
func derive(t gossip.Token, label string) ([]byte, error) {
	if len(t) < gossip.MinTokenBytes {
		return nil, fmt.Errorf("internal_auth_token must have at least %d bytes: nodes that replicate need the same one", gossip.MinTokenBytes)
	}
	secret, err := hkdf.Key(sha256.New, []byte(t), nil, label, ed25519.SeedSize)
	if err != nil {
		return nil, errors.New("derive the link's keys from internal_auth_token")
	}
	return secret, nil
}

// identity is the key that all nodes with one token share.
func identity(t gossip.Token) (ed25519.PrivateKey, error) {
	seed, err := derive(t, keyLabel)
	if err != nil {
		return nil, err
	}
	return ed25519.NewKeyFromSeed(seed), nil
}

// proofs answers what the two ends of a connection say in their hellos to prove that
// they have the token: functions of it, of the end and of this very handshake, so that
// nobody can use one elsewhere. They are empty where the handshake proves it.
func (g *gate) proofs(c *tls.Conn) (dialer, listener string, err error) {
	if g.secret == nil {
		return "", "", nil
	}
	state := c.ConnectionState()
	bound, err := state.ExportKeyingMaterial(exportLabel, nil, sha256.Size)
	if err != nil {
		return "", "", fmt.Errorf("tls: %w", err)
	}
	proof := func(end string) string {
		h := hmac.New(sha256.New, g.secret)
		h.Write(bound)
		h.Write([]byte(end))
		return string(h.Sum(nil))
	}
	return proof("dialer"), proof("listener"), nil
}

// tokenTLS answers a configuration for both directions in which exactly the holders of
// the token's key are accepted. The certificate only carries the key: its names and
// dates are not looked at, so no wall clock matters.
func tokenTLS(t gossip.Token) (*tls.Config, error) {
	key, err := identity(t)
	if err != nil {
		return nil, err
	}
	public := key.Public().(ed25519.PublicKey)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Unix(0, 0),
		NotAfter: time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)}
	der, err := x509.CreateCertificate(nil, template, template, public, key)
	if err != nil {
		return nil, fmt.Errorf("make the link's certificate: %w", err)
	}
	c := &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
		// Authorities and names say nothing here: VerifyConnection pins the key, and
		// the handshake proves that the peer holds it.
		InsecureSkipVerify: true,
		ClientAuth:         tls.RequireAnyClientCert,
		VerifyConnection: func(s tls.ConnectionState) error {
			if len(s.PeerCertificates) == 0 || !public.Equal(s.PeerCertificates[0].PublicKey) {
				return ErrToken
			}
			return nil
		},
	}
	return gossip.HardenTLS(c, protocolName), nil
}

// operatorTLS answers the operator's configuration with what must hold made to hold.
func operatorTLS(c *tls.Config) *tls.Config {
	return gossip.MutualTLS(c, protocolName)
}
