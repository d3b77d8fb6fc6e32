package gossip

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/internal/testkit/authority"
)

// TestSecure: nodes with certificates find each other, hear of changes, see a death and a
// leave, and no socket of theirs is for UDP.
func TestSecure(t *testing.T) {
	t.Parallel()
	mine := authority.New(t)
	a := start(t, 1, with(mine.Node(t, local)))
	b := start(t, 2, with(mine.Node(t, local)), seeds(a))
	c := start(t, 3, with(mine.Node(t, local)), seeds(b))
	allSee(t, a, b, c)
	for _, n := range []*node{a, b, c} {
		udp, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.MustParseAddrPort(n.GossipAddr())))
		if err != nil {
			t.Errorf("UDP is listened to: %v", err)
			continue
		}
		_ = udp.Close()
		eventually(t, n.name+" sends packets", func() bool { return n.Traffic().PacketsOut > 0 })
		eventually(t, n.name+" is sent packets", func() bool { return n.transport.turn.Load() > 0 })
	}
	if err := b.Update(func(r *Record) { r.State = Draining }); err != nil {
		t.Fatal(err)
	}
	allSee(t, a, b, c)
	c.kill()
	allSee(t, a, b)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := b.Leave(ctx); err != nil {
		t.Fatal(err)
	}
	b.kill()
	eventually(t, "b left", func() bool {
		s, _ := a.view("node-2")
		return !s.Alive && s.State == Leaving && a.sees(a)
	})
	for _, n := range []*node{a, b, c} {
		if lines := n.log.lines("level=WARN", "no mutual TLS"); len(lines) > 0 {
			t.Errorf("%s warned: %q", n.name, lines)
		}
	}
}

// TestSecureRefusals: who has no certificate, or one that is not taken, or takes none of
// the others', or has the certificate and not the token, stays out, and both sides say why.
func TestSecureRefusals(t *testing.T) {
	t.Parallel()
	mine, other := authority.New(t), authority.New(t)
	none := with(nil)
	trusting := func(pool *authority.Authority, signed *authority.Authority) func(*Config) {
		c := signed.Node(t, local)
		c.RootCAs, c.ClientCAs = pool.Pool, pool.Pool
		return with(c)
	}
	both := trusting(mine, mine)
	for name, c := range map[string]struct {
		member, stranger func(*Config)
		token            Token
		why              error
		there, here      []string // what the stranger and the member say
	}{
		"no certificates": {
			both, none, "", ErrTLS,
			[]string{"speaks TLS", "this node has no certificates", "on all nodes of a cluster or on none"},
			[]string{"does not speak TLS", "on all nodes of a cluster or on none"},
		},
		"certificates alone": {
			none, both, "", ErrTLS,
			[]string{"does not speak TLS at its gossip port", "on all nodes of a cluster or on none"},
			[]string{"speaks TLS", "this node has no certificates", "on all nodes of a cluster or on none"},
		},
		"signed by another": {
			both, trusting(mine, other), "", ErrTLS,
			[]string{"does not take this node's certificate", "link_tls_ca_path"},
			[]string{"this node does not take the peer's certificate", "link_tls_ca_path"},
		},
		"trusts another": {
			both, trusting(other, mine), "", ErrTLS,
			[]string{"this node does not take the peer's certificate", "link_tls_ca_path"},
			[]string{"does not take this node's certificate", "link_tls_ca_path"},
		},
		"another address": {
			with(mine.Node(t, "10.1.1.1")), both, "", ErrTLS,
			[]string{"this node does not take the peer's certificate", "10.1.1.1", "host of its raft_addr"},
			[]string{"does not take this node's certificate"},
		},
		"another token": {
			both, both, "!", ErrToken,
			[]string{"internal_auth_token"},
			[]string{"internal_auth_token"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := start(t, 1, c.member)
			b := start(t, 2, c.stranger, seeds(a), func(o *Config) { o.Token += c.token })
			eventually(t, "the stranger knows why", func() bool { return errors.Is(b.Fault(), c.why) })
			for _, words := range append(c.there, a.GossipAddr()) {
				if text := b.Fault().Error(); !strings.Contains(text, words) {
					t.Errorf("the stranger is told %q, want %q in it", text, words)
				}
			}
			eventually(t, "the member says why", func() bool {
				return len(a.log.lines(append(c.here, "level=WARN", "peer=127.0.0.1")...)) == 1
			})
			// So is one that only asks, which it does some times.
			q := Ask{TLS: b.config.TLS, Token: b.config.Token, Seeds: []string{a.GossipAddr()}}
			eventually(t, "an answer", func() bool {
				answer := ask(t, time.Second, q)[0]
				return !answer.Founded && errors.Is(answer.Err, c.why) &&
					strings.Contains(answer.Err.Error(), c.there[0])
			})
			if n := a.log.lines("level=WARN", "peer=127.0.0.1"); len(n) != 1 {
				t.Errorf("the member warned %q, want one warning about one stranger", n)
			}
			if !a.knows("node-1") || !b.knows("node-2") {
				t.Error("somebody took the other in")
			}
		})
	}
}

// TestSecureProbe asks a member with certificates.
func TestSecureProbe(t *testing.T) {
	t.Parallel()
	mine := authority.New(t)
	a := start(t, 1, with(mine.Node(t, local)))
	answers := ask(t, patience/2, Ask{TLS: mine.Node(t, local), Seeds: []string{a.GossipAddr()}})
	if !answers[0].Founded || answers[0].ClusterID != clusterA {
		t.Errorf("the answer is %+v", answers[0])
	}
	if !a.knows("node-1") {
		t.Error("the asker was taken in")
	}
	for name, c := range map[string]*tls.Config{
		"no certificate": {RootCAs: mine.Pool, ClientCAs: mine.Pool},
		"no authority":   {Certificates: []tls.Certificate{*mine.Pair(t, local)}},
	} {
		if _, err := Probe(t.Context(), Ask{TLS: c, Token: token, Seeds: []string{a.GossipAddr()}}); err == nil {
			t.Errorf("%s: asked", name)
		}
		if _, err := Start(Config{Self: sample(), TLS: c, Token: token, Bind: "127.0.0.1:0"}); err == nil {
			t.Errorf("%s: started", name)
		}
	}
}

// TestSecureAnswersNoSilence: a port where connections are taken and nothing is said, or
// where they are closed, is not taken for one without TLS.
func TestSecureAnswersNoSilence(t *testing.T) {
	t.Parallel()
	mine := authority.New(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_ = c.Close()
		}
	}()
	for _, addr := range []string{l.Addr().String(), deaf(t), nobody(t)} {
		answer := ask(t, time.Second, Ask{TLS: mine.Node(t, local), Seeds: []string{addr}})[0]
		if answer.Err == nil || errors.Is(answer.Err, ErrTLS) || errors.Is(answer.Err, ErrToken) {
			t.Errorf("%s: %v", addr, answer.Err)
		}
	}
}

// TestSecureRotation: a certificate that is replaced is used by a node that runs, as a
// listener and as a dialer.
func TestSecureRotation(t *testing.T) {
	t.Parallel()
	old, mine := authority.New(t), authority.New(t)
	var pair atomic.Pointer[tls.Certificate]
	pair.Store(old.Pair(t, local))
	changing := &tls.Config{
		RootCAs: mine.Pool, ClientCAs: mine.Pool,
		GetCertificate:       func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return pair.Load(), nil },
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return pair.Load(), nil },
	}
	a := start(t, 1, with(changing))
	b := start(t, 2, with(mine.Node(t, local)), seeds(a)) // finds a as a listener
	eventually(t, "b does not take the old one", func() bool { return errors.Is(b.Fault(), ErrTLS) })
	c := start(t, 3, with(mine.Node(t, local)))
	// is found as a dialer
	d := a.again(with(changing), seeds(c), self(func(r *Record) { r.NodeID, r.HostID = "node-4", hostID(4) }))
	eventually(t, "c does not take the old one", func() bool {
		return len(c.log.lines("level=WARN", "this node does not take the peer's certificate")) > 0 &&
			errors.Is(d.Fault(), ErrTLS)
	})
	pair.Store(mine.Pair(t, local))
	allSee(t, a, b)
	allSee(t, c, d)
	eventually(t, "nothing keeps them out", func() bool { return b.Fault() == nil && d.Fault() == nil })
}

// TestSecureNames: certificates for names are taken where this node knows the peer by the
// name: as a seed, or as the host of the raft_addr that it tells, now or earlier.
func TestSecureNames(t *testing.T) {
	t.Parallel()
	mine := authority.New(t)
	raft := func(host string) func(*Config) {
		return self(func(r *Record) { r.RaftAddr, r.LinkAddr = host+":1", "" })
	}
	a := start(t, 1, with(mine.Node(t, "localhost")), raft("localhost"))
	byName := func(c *Config) { _, p, _ := net.SplitHostPort(a.GossipAddr()); c.Seeds = []string{"localhost:" + p} }
	b := start(t, 2, with(mine.Node(t, "b.example")), raft("b.example"), byName)
	allSee(t, a, b)
	eventually(t, "packets go both ways", func() bool {
		return a.transport.turn.Load() > 0 &&
			b.transport.turn.Load() > 0
	})
	q := Ask{TLS: mine.Node(t, local), Seeds: []string{a.GossipAddr()}}
	eventually(t, "an answer that is not taken", func() bool {
		answer := ask(t, time.Second, q)[0]
		if answer.Err == nil {
			t.Fatalf("by its address: %+v", answer)
		}
		return errors.Is(answer.Err, ErrTLS)
	})
	q.Seeds = nil
	byName(&b.config)
	q.Seeds = b.config.Seeds
	if answer := ask(t, patience/2, q)[0]; !answer.Founded {
		t.Errorf("by its name: %+v", answer)
	}
	// Another name of the authority's is not enough.
	c := start(t, 3, with(mine.Node(t, "c.example")), raft("elsewhere.example"), byName)
	eventually(t, "a sends c nothing", func() bool {
		return len(a.log.lines("level=WARN", "no gossip with another node", c.GossipAddr(), "c.example")) > 0
	})
	c.kill()
	// What was known before the start will do.
	d := start(t, 4, with(mine.Node(t, local)), seeds(a),
		func(c *Config) { c.Hosts = map[string]string{a.GossipAddr(): "localhost:1"} })
	eventually(t, "d finds a", func() bool { s, _ := d.view("node-1"); return s.Alive })
}

// TestSecureHosts lists by which names a node knows an address.
func TestSecureHosts(t *testing.T) {
	t.Parallel()
	n := start(t, 1, func(c *Config) { c.Hosts = map[string]string{"10.9.9.9:1": "old.example:2"} })
	n.places.are("seed.example:1", []netip.AddrPort{netip.MustParseAddrPort("10.9.9.9:1")})
	n.places.are("other.example:1", []netip.AddrPort{netip.MustParseAddrPort("10.9.9.9:2")})
	rec := sample()
	rec.RaftAddr, rec.LinkAddr = "raft.example:5", "[::1]:6"
	at := said(rec, 1)
	at.Addr, at.Port = net.IPv4(10, 9, 9, 9), 1
	n.table.heard(at)
	want := []string{"10.9.9.9", "seed.example", "raft.example", "::1", "old.example"}
	if got := n.hosts("10.9.9.9:1"); strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("known as %v, want %v", got, want)
	}
	if got := n.hosts("10.9.9.8:1"); len(got) != 1 {
		t.Errorf("an unknown one is known as %v", got)
	}
}

// TestSecureLost has the laboratory take packets and connections over TLS.
func TestSecureLost(t *testing.T) {
	t.Parallel()
	mine := authority.New(t)
	var cut atomic.Bool
	lost := func(c *Config) { c.Lost = func(string, bool) bool { return cut.Load() } }
	a := start(t, 1, lost, with(mine.Node(t, local)))
	b := start(t, 2, seeds(a), lost, with(mine.Node(t, local)))
	allSee(t, a, b)
	cut.Store(true)
	eventually(t, "they miss each other", func() bool { return a.sees(a) && b.sees(b) })
	cut.Store(false)
	allSee(t, a, b)
}

// TestSecureLoud: a message about UDP is not shown where there is none.
func TestSecureLoud(t *testing.T) {
	t.Parallel()
	mine := authority.New(t)
	for _, c := range []*tls.Config{nil, mine.Node(t, local)} {
		n := start(t, 1, with(c))
		for range noUDPTimes - 1 {
			n.listLog.logger().Print("[WARN] memberlist: Was able to connect to x over TCP but " + noUDP)
		}
		if len(n.log.lines("level=WARN", noUDP)) > 0 {
			t.Error("what a node that comes back leads to is taken for a mistake in the network")
		}
		n.listLog.logger().Print("[WARN] memberlist: Was able to connect to x over TCP but " + noUDP)
		if shown := len(n.log.lines("level=WARN", noUDP)) > 0; shown != (c == nil) {
			t.Errorf("shown: %v, with TLS: %v", shown, c != nil)
		}
	}
}
