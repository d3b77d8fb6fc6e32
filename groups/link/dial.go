package link

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"
)

// errCut is the error of what the fault laboratory cut.
var errCut = errors.New("cut by the fault laboratory")

// dial connects to a node and has it say hello. The connection is to be ended with shut.
// want, if there, is the node id that it must have.
func (g *gate) dial(ctx context.Context, target, want string, kind Kind) (*visit, error) {
	if g.tls == nil {
		return nil, errAlone
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(g.ctx, cancel)()
	raw, err := (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, "tcp", target)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", target, err)
	}
	if !g.keep(raw, nil) {
		_ = raw.Close()
		return nil, errClosed
	}
	v := &visit{raw: raw, kind: kind}
	if err := g.introduce(ctx, v, target, want); err != nil {
		g.shut(raw)
		// Callers report failed connections among much else, and as often as they try.
		// What no retry mends is said here, once in a while.
		var r *Refusal
		if errors.As(err, &r) || errors.Is(err, ErrToken) {
			g.warn("dial", target, "no connection to another node", err)
		}
		return nil, fmt.Errorf("connect to %s: %w", target, err)
	}
	return v, nil
}

// introduce does handshake and hello on a connection that was dialed.
func (g *gate) introduce(ctx context.Context, v *visit, target, want string) error {
	tune(v.raw)
	if err := v.raw.SetDeadline(time.Now().Add(g.c.timing.handshake)); err != nil {
		return err
	}
	// A dial that is given up must not wait for the hello.
	defer context.AfterFunc(ctx, func() { _ = v.raw.Close() })()
	conf := g.tls
	if conf.ServerName == "" && !conf.InsecureSkipVerify {
		host, _, err := net.SplitHostPort(target)
		if err != nil {
			return err
		}
		conf = conf.Clone()
		conf.ServerName = host
	}
	v.secure = tls.Client(v.raw, conf)
	if err := v.secure.HandshakeContext(ctx); err != nil {
		return fmt.Errorf("tls: %w", err)
	}
	mine, theirs, err := g.proofs(v.secure)
	if err != nil {
		return err
	}
	first := g.hello(v.kind, mine)
	if _, err := v.secure.Write(first.encode()); err != nil {
		return fmt.Errorf("send hello: %w", err)
	}
	h, err := readHello(v.secure)
	if err != nil {
		return err
	}
	if h.verdict != accepted {
		return &Refusal{byPeer: true, text: h.text}
	}
	verdict, text := g.judge(&h, theirs)
	if verdict == accepted && want != "" && h.node != want {
		verdict, text = notAdmitted, fmt.Sprintf("node %s looks for node %s at %s, where node %s is", g.c.Node, want,
			target, h.node)
	}
	last := first.with(verdict, text)
	if _, err := v.secure.Write(last.encode()); err != nil {
		return fmt.Errorf("send hello: %w", err)
	}
	if verdict != accepted {
		return &Refusal{text: text}
	}
	v.peer = h.peer()
	if f := g.c.Faults; f != nil {
		if fate := f.Outgoing(Passage{From: g.c.Node, To: h.node, Kind: Connect}); fate.Drop || fate.Cut {
			return errCut
		}
	}
	return v.raw.SetDeadline(time.Time{})
}
