package link

import (
	"crypto/hmac"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"
)

// Versions of the protocol that this code speaks.
const (
	versionMin = 1
	versionMax = 1
)

// helloMagic is the first thing said on a connection.
const helloMagic = "PLKNODE\n"

const (
	maxHelloBytes = 2048
	maxNameBytes  = 255 // as gossip has it
	maxTextBytes  = 768 // names two nodes and two clusters
	maxProofBytes = 32
)

// verdict is what an end says of the other.
type verdict uint8

const (
	accepted verdict = iota
	otherCluster
	otherToken
	clash
	otherVersion
	otherPort
	notAdmitted
	tooMany
)

// Refusal is the error of an end that was refused, or refuses, after its key was
// accepted.
type Refusal struct {
	byPeer bool // the peer said it
	text   string
}

// Error says who refused and why.
func (r *Refusal) Error() string {
	if r.byPeer {
		return "refused by the peer: " + r.text
	}
	return "refused the peer: " + r.text
}

// hello is what each end says first, and the dialer once more: in its second it says
// its verdict.
//
//	magic    8 bytes
//	length   uint16 big-endian, of what follows; at most maxHelloBytes
//	min, max uint16 each: versions of this protocol
//	min, max uint32 each: formats of what nodes share
//	kind     uint8: messages, snapshots or requests
//	verdict  uint8
//	cluster, node, host, text, proof: uint16 length and bytes
//
// What follows the proof is of later versions and skipped.
type hello struct {
	min, max             uint16
	formatMin, formatMax uint32
	kind                 Kind
	verdict              verdict
	cluster, node, host  string
	text                 string
	proof                string // of the token, where TLS does not prove it
}

var errHello = errors.New("the peer's hello is not one of a pathlockd node")

func (h *hello) encode() []byte {
	b := make([]byte, len(helloMagic)+2, 512)
	copy(b, helloMagic)
	b = binary.BigEndian.AppendUint16(b, h.min)
	b = binary.BigEndian.AppendUint16(b, h.max)
	b = binary.BigEndian.AppendUint32(b, h.formatMin)
	b = binary.BigEndian.AppendUint32(b, h.formatMax)
	b = append(b, byte(h.kind), byte(h.verdict))
	for _, s := range []string{h.cluster, h.node, h.host, h.text, h.proof} {
		b = binary.BigEndian.AppendUint16(b, uint16(len(s)))
		b = append(b, s...)
	}
	at := len(helloMagic)
	binary.BigEndian.PutUint16(b[at:], uint16(len(b)-at-2))
	return b
}

func readHello(r io.Reader) (h hello, err error) {
	var head [len(helloMagic) + 2]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return h, fmt.Errorf("read the peer's hello: %w", err)
	}
	n := int(binary.BigEndian.Uint16(head[len(helloMagic):]))
	if string(head[:len(helloMagic)]) != helloMagic || n > maxHelloBytes {
		return h, errHello
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(r, b); err != nil {
		return h, fmt.Errorf("read the peer's hello: %w", err)
	}
	return decodeHello(b)
}

// helloFixed is how long the numbers of a hello are.
const helloFixed = 14

// decodeHello decodes what follows the length.
func decodeHello(b []byte) (h hello, err error) {
	if len(b) < helloFixed {
		return h, errHello
	}
	h.min, h.max = binary.BigEndian.Uint16(b), binary.BigEndian.Uint16(b[2:])
	h.formatMin, h.formatMax = binary.BigEndian.Uint32(b[4:]), binary.BigEndian.Uint32(b[8:])
	h.kind, h.verdict = Kind(b[12]), verdict(b[13])
	b = b[helloFixed:]
	for _, f := range []struct {
		s     *string
		limit int
	}{{&h.cluster, maxNameBytes}, {&h.node, maxNameBytes}, {&h.host, maxNameBytes}, {&h.text, maxTextBytes},
		{&h.proof, maxProofBytes}} {
		if len(b) < 2 {
			return h, errHello
		}
		n := int(binary.BigEndian.Uint16(b))
		if b = b[2:]; n > len(b) || n > f.limit {
			return h, errHello
		}
		*f.s, b = string(b[:n]), b[n:]
	}
	for _, s := range []*string{&h.cluster, &h.node, &h.host, &h.text} {
		*s = printable(*s)
	}
	return h, nil
}

// printable makes what a peer said fit for a log.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, s)
}

// hello is what this node says of itself.
func (g *gate) hello(kind Kind, proof string) hello {
	return hello{
		min: versionMin, max: versionMax, formatMin: g.c.inUse(), formatMax: g.c.FormatMax, kind: kind,
		cluster: g.c.Cluster, node: g.c.Node, host: g.c.Host, proof: proof,
	}
}

// judge says whether this node talks to that peer, and why not in words that both ends
// understand. proof is what the peer must have said.
func (g *gate) judge(h *hello, proof string) (verdict, string) {
	me, low := "node "+g.c.Node, g.c.inUse()
	switch {
	case h.node == "" || h.host == "":
		return notAdmitted, "a peer without a node id or raft host id"
	case g.secret != nil && !hmac.Equal([]byte(h.proof), []byte(proof)):
		return otherToken, fmt.Sprintf("node %s and %s do not have the same internal_auth_token, which they need "+
			"besides their certificates", h.node, me)
	case h.cluster != g.c.Cluster:
		return otherCluster, fmt.Sprintf("node %s is of cluster %s, %s is of cluster %s: one of them has the wrong "+
			"seed_nodes, address or data_dir", h.node, h.cluster, me, g.c.Cluster)
	case h.max < versionMin || h.min > versionMax || h.min > h.max:
		return otherVersion, fmt.Sprintf("node %s speaks versions %d to %d of the link, %s speaks %d to %d: upgrade "+
			"one step at a time", h.node, h.min, h.max, me, versionMin, versionMax)
	case h.formatMax < low || h.formatMin > g.c.FormatMax || h.formatMin > h.formatMax:
		older := h.node
		if h.formatMin > g.c.FormatMax {
			older = g.c.Node
		}
		return otherVersion, fmt.Sprintf("node %s works with formats %d to %d of shared data, %s with %d to %d: "+
			"upgrade one step at a time; it is node %s that needs a newer version",
			h.node, h.formatMin, h.formatMax, me, low, g.c.FormatMax, older)
	case !slices.Contains(g.kinds, h.kind):
		return otherPort, fmt.Sprintf("node %s wants a connection for %s at the %s of %s: that address is the one "+
			"of another port", h.node, h.kind, g.key, me)
	case h.node == g.c.Node && h.host == g.c.Host:
		return clash, fmt.Sprintf("%s was reached by itself: an address that belongs to another node leads to it, "+
			"or its data_dir was copied", me)
	case h.node == g.c.Node:
		return clash, fmt.Sprintf("node_id %s is used by two nodes, with raft host ids %s and %s: give one of them "+
			"another node_id", h.node, h.host, g.c.Host)
	case h.host == g.c.Host:
		return clash, fmt.Sprintf("nodes %s and %s have the same raft host id %s: one's data_dir is a copy of "+
			"the other's", h.node, g.c.Node, h.host)
	}
	if g.c.Admit != nil {
		if err := g.c.Admit(h.peer()); err != nil {
			return notAdmitted, err.Error()
		}
	}
	if g.c.Raise != nil && h.formatMin > low {
		if err := g.c.Raise(h.formatMin); err != nil {
			return notAdmitted, err.Error()
		}
	}
	return accepted, ""
}

func (h *hello) peer() Peer { return Peer{Node: h.node, Host: h.host} }

// with answers the hello with a verdict in it.
func (h hello) with(v verdict, text string) hello {
	h.verdict, h.text = v, strings.ToValidUTF8(text[:min(len(text), maxTextBytes)], "")
	return h
}
