package link

import (
	"crypto/tls"
	"fmt"
	"net"
	"sync/atomic"

	"github.com/lni/dragonboat/v4/config"
	"github.com/lni/dragonboat/v4/raftio"
)

// Link makes what connects one node with the others: dragonboat's transport, of which
// it is the TransportFactory, for one NodeHost at a time; and doors, for requests.
type Link struct {
	c      Config
	tls    *tls.Config // nil for a node alone
	secret []byte      // what the hello proves, nil if the handshake proves the token
	now    atomic.Pointer[transport]
}

var _ config.TransportFactory = (*Link)(nil)

// New answers a link, or what is wrong with its configuration. Nothing is opened yet.
func New(c Config) (*Link, error) {
	c = c.defaults()
	if err := c.check(); err != nil {
		return nil, fmt.Errorf("link: %w", err)
	}
	l := &Link{c: c}
	var err error
	switch {
	case c.TLS != nil && c.Token != "":
		l.tls = operatorTLS(c.TLS)
		l.secret, err = derive(c.Token, proofLabel)
	case c.TLS != nil:
		l.tls = operatorTLS(c.TLS)
	case c.Token != "":
		l.tls, err = tokenTLS(c.Token)
	}
	if err != nil {
		return nil, fmt.Errorf("link: %w", err)
	}
	return l, nil
}

// Create is called by dragonboat.
func (l *Link) Create(nh config.NodeHostConfig, m raftio.MessageHandler, s raftio.ChunkHandler) raftio.ITransport {
	t := &transport{
		gate: l.gate("raft_addr", Messages, Snapshots), listens: l.c.Listen, onBatch: m, onChunk: s,
		in: newBudget(maxLargeBytes), out: newBudget(maxLargeBytes),
		delayed: newBudget(maxDelayed), delayedBytes: newBudget(maxDelayedBytes),
	}
	if t.listens == "" {
		t.listens = nh.GetListenAddress()
	}
	l.now.Store(t)
	return t
}

// Validate says whether an address is one that can be dialed, or listened on.
func (l *Link) Validate(addr string) bool {
	host, port, err := net.SplitHostPort(addr)
	return err == nil && host != "" && port != ""
}

// Addr is where dragonboat's transport listens, "" if it does not.
func (l *Link) Addr() string {
	if t := l.now.Load(); t != nil {
		return t.addr()
	}
	return ""
}

// transport is one life of dragonboat's transport.
type transport struct {
	*gate
	listens string
	onBatch raftio.MessageHandler
	onChunk raftio.ChunkHandler

	in, out               *budget // of large frames
	delayed, delayedBytes *budget // of what Faults holds back
}

var _ raftio.ITransport = (*transport)(nil)

// Name names the transport in dragonboat's log.
func (t *transport) Name() string { return "pathlockd-link" }

// Start listens, unless the node is alone.
func (t *transport) Start() error { return t.listen(t.listens, t.receive) }
