package certs

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// lookEvery is how often handshakes look whether the files changed, at most.
	lookEvery = time.Second
	// maxFileBytes bounds a file with certificates or a key.
	maxFileBytes = 1 << 20
)

// Store holds the certificate in use. Its files are looked at by handshakes, at most
// once a second: a changed pair is used from the next handshake on, and connections
// that are open go on with the one they began with. It runs no goroutine. All methods
// may be called by any number of goroutines.
type Store struct {
	certFile, keyFile string
	dev               bool // the files are our own, made for development
	log               *slog.Logger
	clients           *x509.CertPool // who must have signed clients' certificates; nil: nobody is asked for one

	now  func() time.Time // the clock, which tests set
	pair atomic.Pointer[tls.Certificate]
	next atomic.Int64 // when the files are looked at again, Unix nanoseconds

	mu struct {
		sync.Mutex          // held while the files are read
		seen       [2]state // of the files when they were last read, well or not
	}
}

// Open reads the certificate and its key from two PEM files. Both names empty: it
// uses a pair for development instead, signed by itself, for localhost, 127.0.0.1,
// ::1 and the host's name, which it makes once and keeps in dataDir as dev-cert.pem
// and dev-key.pem.
func Open(certFile, keyFile, dataDir string, log *slog.Logger) (*Store, error) {
	return open(certFile, keyFile, dataDir, log, time.Now)
}

func open(certFile, keyFile, dataDir string, log *slog.Logger, now func() time.Time) (*Store, error) {
	s := &Store{certFile: certFile, keyFile: keyFile, log: log, now: now}
	switch {
	case certFile == "" && keyFile == "":
		return s, s.openDev(dataDir)
	case keyFile == "":
		return nil, errors.New("tls_key_path: is empty, and tls_cert_path is not: a certificate and its key go together")
	case certFile == "":
		return nil, errors.New("tls_cert_path: is empty, and tls_key_path is not: a certificate and its key go together")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.read(); err != nil {
		return nil, err
	}
	warnReadable(keyFile, log)
	return s, nil
}

// CertFile is the file of the certificate in use. A client may trust it when it is
// signed by itself.
func (s *Store) CertFile() string { return s.certFile }

// VerifyClients makes clients show a certificate that one of a PEM file's signed. It
// is called before Config; the file is not looked at again.
func (s *Store) VerifyClients(caFile string) error {
	pem, err := readFile(caFile)
	if err != nil {
		return fmt.Errorf("certificates that sign clients': %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return fmt.Errorf("certificates that sign clients': %s: has no certificate in PEM", caFile)
	}
	s.clients = pool
	return nil
}

// Config is what servers serve with: TLS 1.3, and 1.2 for who cannot do better. It is
// the caller's own.
func (s *Store) Config() *tls.Config {
	c := &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return s.certificate(), nil },
	}
	if s.clients != nil {
		c.ClientAuth, c.ClientCAs = tls.RequireAndVerifyClientCert, s.clients
	}
	return c
}

// Mutual is Config for connections that go both ways: who dials shows the certificate too.
func (s *Store) Mutual() *tls.Config {
	c := s.Config()
	c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return s.certificate(), nil }
	return c
}

// certificate answers the certificate for a handshake.
func (s *Store) certificate() *tls.Certificate {
	now, next := s.now(), s.next.Load()
	if now.UnixNano() >= next && s.next.CompareAndSwap(next, now.Add(lookEvery).UnixNano()) {
		s.look()
	}
	return s.pair.Load()
}

// look reads the files if they changed, and makes a new pair for development before
// the old one runs out. What fails is logged once for each state of the files, and
// the old pair stays.
func (s *Store) look() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dev && s.short() {
		if err := s.makeDev(); err != nil {
			s.log.Error("the certificate for development runs out soon, and a new one could not be kept", "error", err)
		}
		return
	}
	if stateOf(s.certFile, s.keyFile) == s.mu.seen {
		return
	}
	if err := s.read(); err != nil {
		s.log.Error("the changed certificate is not used: the old one stays", "error", err)
		return
	}
	s.log.Info("the certificate changed", "file", s.certFile, "until", s.pair.Load().Leaf.NotAfter)
}

// Reload reads the files again, whether they changed or not. If that fails the old
// pair stays, and the error says why.
func (s *Store) Reload() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.read()
}

// read takes the pair from the files. The caller holds mu.
func (s *Store) read() error {
	// Their state is taken first: what changes while they are read is seen next time.
	s.mu.seen = stateOf(s.certFile, s.keyFile)
	pair, err := readPair(s.certFile, s.keyFile)
	if err != nil {
		return err
	}
	if now := s.now(); now.After(pair.Leaf.NotAfter) {
		s.log.Warn("the certificate has run out: clients will refuse it", "file", s.certFile, "until",
			pair.Leaf.NotAfter)
	}
	s.pair.Store(pair)
	return nil
}

// state is what tells one content of a file from another without reading it.
type state struct {
	info string
	err  string
}

func stateOf(certFile, keyFile string) (all [2]state) {
	for i, name := range [...]string{certFile, keyFile} {
		info, err := os.Stat(name)
		if err != nil {
			all[i].err = err.Error()
			continue
		}
		all[i].info = fmt.Sprint(info.ModTime().UnixNano(), info.Size(), info.Mode(), inode(info))
	}
	return all
}
