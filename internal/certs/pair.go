package certs

import (
	"crypto/tls"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
)

// errNoMatch is a certificate and a key that do not belong together.
var errNoMatch = errors.New("is not the key of the certificate")

// readPair reads a certificate chain and its key. An error names the file that is at
// fault.
func readPair(certFile, keyFile string) (*tls.Certificate, error) {
	cert, err := readFile(certFile)
	if err != nil {
		return nil, fmt.Errorf("certificate: %w", err)
	}
	key, err := readFile(keyFile)
	if err != nil {
		return nil, fmt.Errorf("key: %w", err)
	}
	if !hasBlock(cert, "CERTIFICATE") {
		return nil, fmt.Errorf("certificate: %s: has no CERTIFICATE in PEM", certFile)
	}
	if !hasBlock(key, "PRIVATE KEY") {
		return nil, fmt.Errorf("key: %s: has no PRIVATE KEY in PEM (one that a passphrase protects cannot be used)",
			keyFile)
	}
	pair, err := tls.X509KeyPair(cert, key)
	switch {
	case err == nil:
		return &pair, nil
	case strings.Contains(err.Error(), "does not match"):
		return nil, fmt.Errorf("key: %s: %w in %s", keyFile, errNoMatch, certFile)
	case strings.Contains(err.Error(), "private key"):
		return nil, fmt.Errorf("key: %s: %w", keyFile, err)
	}
	return nil, fmt.Errorf("certificate: %s: %w", certFile, err)
}

// readFile reads a file of PEM. An error names it.
func readFile(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	if err != nil {
		return nil, err
	}
	if len(b) > maxFileBytes {
		return nil, fmt.Errorf("%s: is over %d bytes, which no such file is", name, maxFileBytes)
	}
	return b, nil
}

// hasBlock says whether PEM has a block whose type ends so.
func hasBlock(b []byte, kind string) bool {
	for {
		block, rest := pem.Decode(b)
		if block == nil {
			return false
		}
		if strings.HasSuffix(block.Type, kind) && block.Type != "ENCRYPTED PRIVATE KEY" {
			return true
		}
		b = rest
	}
}

// warnReadable warns of a key that others on the machine may read. It is not refused:
// where secrets are mounted, the mode is often not the operator's to choose.
func warnReadable(keyFile string, log *slog.Logger) {
	if info, err := os.Stat(keyFile); err == nil && info.Mode().Perm()&0o007 != 0 {
		log.Warn("the TLS key can be read by every user of this machine", "file", keyFile, "mode", info.Mode().Perm())
	}
}
