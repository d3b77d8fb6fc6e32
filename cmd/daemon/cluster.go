package daemon

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"

	"github.com/pathlockd/pathlockd/internal/certs"
)

// checkCluster holds what concerns other nodes against each other.
func (c *Config) checkCluster() (errs []error) {
	if len(c.Seeds) > 0 && c.Token == "" {
		errs = append(errs, errors.New("seed_nodes: nodes that have peers need internal_auth_token, the same random "+
			"one for all of them (openssl rand -hex 32)"))
	}
	given := 0
	for _, path := range []string{c.LinkTLSCertPath, c.LinkTLSKeyPath, c.LinkTLSCAPath} {
		if path != "" {
			given++
		}
	}
	if given != 0 && given != 3 {
		errs = append(errs, errors.New("link_tls_cert_path, link_tls_key_path and link_tls_ca_path: must be given "+
			"all or none"))
	}
	return errs
}

// unreachable warns of addresses that nodes on other hosts cannot reach.
func (c *Config) unreachable() (warnings []string) {
	away := ""
	for _, seed := range c.Seeds {
		if !onLoopback(seed) {
			away = seed
		}
	}
	gossip := c.GossipAddr
	if c.GossipAdvertise != "" {
		gossip = c.GossipAdvertise
	}
	for _, k := range []struct{ name, addr string }{{"raft_addr", c.RaftAddr}, {"gossip_addr", gossip}} {
		if away != "" && onLoopback(k.addr) {
			warnings = append(warnings, fmt.Sprintf("%s = %s is for this host alone, and the seed %s is on another: "+
				"set %s to a name or address of this host", k.name, k.addr, away, k.name))
		}
	}
	return warnings
}

// openLinkTLS finds out how links between nodes are secured: nil when that is with
// internal_auth_token alone. A new certificate in the place of the old one is used from
// the next connection on; who signs them is read once.
func (d *Daemon) openLinkTLS() (*tls.Config, error) {
	c := &d.cfg
	if c.LinkTLSCertPath == "" {
		return nil, nil
	}
	store, err := certs.Open(c.LinkTLSCertPath, c.LinkTLSKeyPath, "", d.log)
	if err != nil {
		return nil, fmt.Errorf("link_tls_cert_path = %q, link_tls_key_path = %q: %w", c.LinkTLSCertPath,
			c.LinkTLSKeyPath, err)
	}
	pem, err := os.ReadFile(c.LinkTLSCAPath)
	if err != nil {
		return nil, fmt.Errorf("link_tls_ca_path: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("link_tls_ca_path: %s has no certificate in PEM", c.LinkTLSCAPath)
	}
	conf := store.Mutual()
	conf.RootCAs, conf.ClientCAs = pool, pool
	d.linkCerts = store
	return conf, nil
}
