package gossip

import (
	"crypto/tls"
	"errors"
)

// The rules of TLS between nodes, for gossip and for groups/link.

// MutualTLS answers the operator's configuration with what must hold made to hold:
// certificates that are verified on both sides, and what HardenTLS does.
func MutualTLS(c *tls.Config, protocols ...string) *tls.Config {
	c = c.Clone()
	c.InsecureSkipVerify = false
	c.ClientAuth = tls.RequireAndVerifyClientCert
	c.GetConfigForClient = nil // would answer one that is not made so
	return HardenTLS(c, protocols...)
}

// HardenTLS changes a configuration to TLS 1.3 without resumption, for the given
// protocols alone: other TLS services may hold the same certificates.
func HardenTLS(c *tls.Config, protocols ...string) *tls.Config {
	c.MinVersion, c.MaxVersion = tls.VersionTLS13, tls.VersionTLS13
	c.NextProtos = protocols
	c.SessionTicketsDisabled, c.ClientSessionCache = true, nil
	c.DynamicRecordSizingDisabled = true // batches are written whole
	return c
}

// CheckTLS says what the operator's configuration lacks.
func CheckTLS(c *tls.Config) error {
	switch {
	case len(c.Certificates) == 0 && (c.GetCertificate == nil || c.GetClientCertificate == nil):
		return errors.New("mutual TLS between nodes needs a certificate and its key")
	case c.RootCAs == nil || c.ClientCAs == nil:
		return errors.New("mutual TLS between nodes needs the authorities that sign the nodes' certificates, for " +
			"both directions")
	}
	return nil
}
