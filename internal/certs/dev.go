package certs

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"
)

const (
	// devLife is how long a certificate for development is good for.
	devLife = 90 * 24 * time.Hour
	// devRenew is what it may have left of that when a new one takes its place.
	devRenew = 7 * 24 * time.Hour
	// devSkew is by how much a client's clock may be behind ours.
	devSkew = time.Hour
)

// openDev uses the pair for development in a directory, and makes it when there is
// none, when it is only half there, or when it runs out within devRenew. What is there
// and is no certificate or no key is left alone and told: somebody put it there.
func (s *Store) openDev(dir string) error {
	s.dev, s.certFile, s.keyFile = true, filepath.Join(dir, "dev-cert.pem"), filepath.Join(dir, "dev-key.pem")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("certificate for development: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if info, err := os.Stat(s.keyFile); err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o077 != 0 {
		return fmt.Errorf("key: %s: has mode %04o, and must be 0600: other users may have read it; remove it and "+
			"dev-cert.pem, and new ones are made",
			s.keyFile, info.Mode().Perm())
	}
	err := s.read()
	switch {
	case err == nil && !s.short():
		return nil
	case err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, errNoMatch):
		return fmt.Errorf("certificate for development: %w; remove dev-cert.pem and dev-key.pem, and new ones are made",
			err)
	}
	// The two files are written one after the other. Who died in between left one, or
	// two that do not match.
	return s.makeDev()
}

// short says whether the certificate in use runs out soon.
func (s *Store) short() bool { return s.now().Add(devRenew).After(s.pair.Load().Leaf.NotAfter) }

// makeDev makes a new pair for development, keeps it and uses it. The caller holds mu.
func (s *Store) makeDev() error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("make a key: %w", err)
	}
	cert, err := selfSigned(key, s.now())
	if err != nil {
		return fmt.Errorf("make a certificate: %w", err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return fmt.Errorf("encode the key: %w", err)
	}
	if err := replace(s.keyFile, "PRIVATE KEY", secret); err != nil {
		return fmt.Errorf("keep the key: %w", err)
	}
	if err := replace(s.certFile, "CERTIFICATE", cert); err != nil {
		return fmt.Errorf("keep the certificate: %w", err)
	}
	if err := s.read(); err != nil {
		return err
	}
	s.log.Info("made a certificate for development, signed by itself", "file", s.certFile, "until",
		s.pair.Load().Leaf.NotAfter)
	return nil
}

// selfSigned makes a certificate for this machine. It is one of a server and not of
// an authority, so that who trusts it trusts nothing else that its key might sign.
func selfSigned(key *ecdsa.PrivateKey, now time.Time) ([]byte, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, err
	}
	names := []string{"localhost"}
	if host, err := os.Hostname(); err == nil && host != "" && !slices.Contains(names, host) {
		names = append(names, host)
	}
	t := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: "pathlockd development"},
		NotBefore:    now.Add(-devSkew), NotAfter: now.Add(devLife),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:    names, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
		BasicConstraintsValid: true,
	}
	return x509.CreateCertificate(rand.Reader, t, t, key.Public(), key)
}

// replace writes a file of one PEM block in one step: it is the old one or the new
// one, whenever somebody looks.
func replace(name, kind string, der []byte) error {
	f, err := os.CreateTemp(filepath.Dir(name), filepath.Base(name)+".*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // nothing is there once it was renamed
	err = pem.Encode(f, &pem.Block{Type: kind, Bytes: der})
	if err == nil {
		err = f.Sync()
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), name)
}
