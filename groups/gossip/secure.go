package gossip

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"
)

// Gossip over mutual TLS, where the operator's certificates are there: UDP is not used
// then. An exchange of memberlist's is a connection; packets are frames on another
// one (lane.go). memberlist encrypts with the key from the token in there as well,
// which proves that key.

// What a connection at the gossip port is for.
const (
	exchangeProtocol = "pathlockd-gossip-exchange"
	packetProtocol   = "pathlockd-gossip-packets"
)

// idleTime is how long a connection with packets is kept without one.
const idleTime = 30 * time.Second

// handshakeTime bounds what comes before a connection may be used.
const handshakeTime = 5 * time.Second

// welcome is what the listener says when it has let the dialer in. In TLS 1.3 the
// dialer's handshake is over before its certificate was looked at.
const welcome = 1

// ErrTLS says that two nodes do not have certificates by which each takes the other.
var ErrTLS = errors.New("no mutual TLS")

const (
	linkKeys  = "link_tls_cert_path, link_tls_key_path and link_tls_ca_path"
	allOrNone = linkKeys + " must be set on all nodes of a cluster or on none"
	signedBy  = "the certificates of all nodes must be signed by an authority in link_tls_ca_path of each of them, " +
		"be valid now and be for servers and clients"
)

// errTheyHaveTLS is what a node without certificates says of one that has some.
var errTheyHaveTLS = fmt.Errorf("%w: the peer speaks TLS at its gossip port, and this node has no certificates: "+
	allOrNone, ErrTLS)

// secure makes TLS connections.
type secure struct {
	server, client *tls.Config
	// names lists what a certificate of whoever gossips at an address may be for, one of
	// them: the hosts by which this node knows it.
	names func(addr string) []string

	handshake, idle time.Duration // handshakeTime and idleTime, but for tests
}

// newSecure answers nil without a configuration.
func newSecure(c *tls.Config, names func(addr string) []string) (*secure, error) {
	if c == nil {
		return nil, nil
	}
	if err := CheckTLS(c); err != nil {
		return nil, fmt.Errorf("gossip: %w", err)
	}
	return &secure{server: MutualTLS(c, exchangeProtocol, packetProtocol), client: MutualTLS(c), names: names,
		handshake: handshakeTime, idle: idleTime}, nil
}

// dialed does the handshake on a connection to a gossip address, within ctx and its
// deadline. The caller closes raw on an error.
func (s *secure) dialed(ctx context.Context, raw net.Conn, addr, protocol string) (*tls.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, s.handshake)
	defer cancel()
	end, _ := ctx.Deadline()
	if err := raw.SetDeadline(end); err != nil {
		return nil, err
	}
	conf := s.client.Clone()
	conf.NextProtos = []string{protocol}
	if conf.ServerName == "" {
		s.verifyNames(conf, s.names(addr))
	}
	conn := tls.Client(raw, conf)
	var said [1]byte
	err := conn.HandshakeContext(ctx)
	if err == nil {
		_, err = io.ReadFull(conn, said[:])
	}
	switch {
	case err != nil:
		return nil, dialError(err)
	case conn.ConnectionState().NegotiatedProtocol != protocol || said[0] != welcome:
		return nil, errNoGossipPort
	}
	return conn, raw.SetDeadline(time.Time{})
}

// verifyNames has the listener's certificate verified for one of several names, where
// crypto/tls knows one. Links dial a node by the host of its raft_addr; gossip knows its
// address first, and that host when it knows the node.
func (s *secure) verifyNames(conf *tls.Config, names []string) {
	conf.ServerName = names[0]
	conf.InsecureSkipVerify = true // of crypto/tls; verified here
	more := conf.VerifyConnection
	conf.VerifyConnection = func(state tls.ConnectionState) error {
		now := time.Now
		if conf.Time != nil {
			now = conf.Time
		}
		opts := x509.VerifyOptions{Roots: conf.RootCAs, CurrentTime: now(), Intermediates: x509.NewCertPool()}
		for _, c := range state.PeerCertificates[1:] {
			opts.Intermediates.AddCert(c)
		}
		leaf := state.PeerCertificates[0]
		if _, err := leaf.Verify(opts); err != nil {
			return &tls.CertificateVerificationError{UnverifiedCertificates: state.PeerCertificates, Err: err}
		}
		var errs []error
		for _, name := range names {
			err := leaf.VerifyHostname(name)
			if err == nil {
				if more != nil {
					return more(state)
				}
				return nil
			}
			errs = append(errs, err)
		}
		return &tls.CertificateVerificationError{UnverifiedCertificates: state.PeerCertificates,
			Err: errors.Join(errs...)}
	}
}

// accepted does the handshake on a connection that came in. The caller closes raw on an
// error.
func (s *secure) accepted(ctx context.Context, raw net.Conn) (*tls.Conn, string, error) {
	if err := raw.SetDeadline(time.Now().Add(s.handshake)); err != nil {
		return nil, "", err
	}
	conn := tls.Server(raw, s.server)
	if err := conn.HandshakeContext(ctx); err != nil {
		return nil, "", err
	}
	protocol := conn.ConnectionState().NegotiatedProtocol
	if protocol != exchangeProtocol && protocol != packetProtocol {
		return nil, "", errors.New("it does not say what the connection is for")
	}
	if _, err := conn.Write([]byte{welcome}); err != nil {
		return nil, "", err
	}
	return conn, protocol, raw.SetDeadline(time.Time{})
}

// errNoGossipPort is the error of a dial to another port, or another service.
var errNoGossipPort = fmt.Errorf("%w: what listens there is not a gossip port: seeds are named by their gossip_addr",
	ErrTLS)

// dialError tells what to do about a handshake that failed, where no retry mends it.
func dialError(err error) error {
	switch {
	case isNoTLS(err):
		return fmt.Errorf("%w: the peer does not speak TLS at its gossip port: "+allOrNone, ErrTLS)
	case isUnverified(err):
		return fmt.Errorf("%w: this node does not take the peer's certificate (%s): "+signedBy+
			", and name the node's address or the host of its raft_addr", ErrTLS, oneLine(err))
	case strings.Contains(err.Error(), "no application protocol"):
		return errNoGossipPort
	case isRemote(err):
		return fmt.Errorf("%w: the peer does not take this node's certificate (%s): "+signedBy, ErrTLS, oneLine(err))
	}
	return fmt.Errorf("tls: %w", err)
}

// strangerError tells what to do about a peer whose handshake failed here, nil when there
// is nothing: it left, or was too slow.
func strangerError(err error) error {
	switch {
	case isNoTLS(err):
		return fmt.Errorf("%w: the peer does not speak TLS: "+allOrNone, ErrTLS)
	case isRemote(err):
		return fmt.Errorf("%w: the peer does not take this node's certificate (%s): "+signedBy, ErrTLS, oneLine(err))
	case isUnverified(err), strings.Contains(err.Error(), "didn't provide a certificate"):
		return fmt.Errorf("%w: this node does not take the peer's certificate (%s): "+signedBy, ErrTLS, oneLine(err))
	case errors.Is(err, io.EOF), errors.Is(err, net.ErrClosed), errors.As(err, new(net.Error)):
		return nil
	}
	return fmt.Errorf("%w: the peer is no pathlockd node of this version (%s)", ErrTLS, oneLine(err))
}

func isNoTLS(err error) bool { return errors.As(err, new(tls.RecordHeaderError)) }

func isUnverified(err error) bool { return errors.As(err, new(*tls.CertificateVerificationError)) }

// isRemote says that the peer ended the handshake with an alert.
func isRemote(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "remote error"
}

func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }

// kindOf tells errors apart that are warned of one by one.
func kindOf(err error) string {
	switch {
	case isNoTLS(err):
		return " without TLS"
	case isRemote(err):
		return " that refuses"
	}
	return " that is refused"
}

// The first bytes of TLS, where memberlist's messages have their type, which is less.
const (
	tlsAlert     = 0x15
	tlsHandshake = 0x16
)

// tlsRefusal tells a peer that sent no TLS that this is what is spoken here: the alert
// "protocol version" (RFC 8446 section 6), which a node knows by its first byte.
var tlsRefusal = []byte{tlsAlert, 3, 3, 0, 2, 2, 70}

// turnAway says no to a peer that does not speak TLS in a way that it gets: what it
// still sends is read, or the kernel would throw the answer away with it.
func (s *secure) turnAway(raw net.Conn) {
	_ = raw.SetDeadline(time.Now().Add(s.handshake))
	if _, err := raw.Write(tlsRefusal); err == nil {
		_, _ = io.Copy(io.Discard, raw)
	}
}
