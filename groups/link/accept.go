package link

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"time"
)

// accept takes connections until the listener is closed.
func (g *gate) accept(l net.Listener, serve func(*visit) error) {
	for {
		c, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // out of files, most likely: it passes
			g.warn("accept", "", "connections of other nodes cannot be accepted", err)
			select {
			case <-g.ctx.Done():
				return
			case <-time.After(acceptPause):
			}
			continue
		}
		host := hostOf(c)
		if !g.enter(host) {
			_ = c.Close()
			g.warn("crowd", host, "closed a connection: too many that have not said hello", nil)
			continue
		}
		if !g.keep(c, func() { g.serve(c, host, serve) }) {
			_ = c.Close()
			g.leave(host)
		}
	}
}

func hostOf(c net.Conn) string {
	host, _, _ := net.SplitHostPort(c.RemoteAddr().String())
	return host
}

// serve is the life of a connection that came in.
func (g *gate) serve(raw net.Conn, host string, serve func(*visit) error) {
	defer g.shut(raw)
	tune(raw)
	v := visit{raw: raw, secure: tls.Server(raw, g.tls)}
	err := g.greet(&v)
	g.leave(host)
	if err != nil {
		var r *Refusal
		switch {
		case errors.As(err, &r):
			g.warn("refused", host, "connection of another node refused", err)
		case unheard(err):
			g.warn("unheard", host, "a connection ended, or fell silent, before its peer said who it is", err)
		default:
			g.warn("foreign", host, "refused a connection of a peer that does not have this cluster's "+
				"internal_auth_token, or is no pathlockd node", err)
		}
		return
	}
	defer g.depart(v.peer)
	if err := serve(&v); err != nil && !ended(err) {
		g.warn("broken", host, "connection from node "+v.peer.Node+" closed", err)
	}
}

// ended says whether an error is how connections end when nobody did anything wrong.
func ended(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// unheard says whether an error before the hello tells nothing of the peer: a node that was
// paused or cut off ends like that, as well as a stranger that asks whether somebody listens.
func unheard(err error) bool {
	var late net.Error
	return ended(err) || errors.As(err, &late) && late.Timeout()
}

// greet does handshake and hello on a connection that came in. The peer is counted when
// it answers no error.
func (g *gate) greet(v *visit) (err error) {
	if err := v.raw.SetDeadline(time.Now().Add(g.c.timing.handshake)); err != nil {
		return err
	}
	if err := v.secure.HandshakeContext(g.ctx); err != nil {
		return fmt.Errorf("tls: %w", err)
	}
	theirs, mine, err := g.proofs(v.secure)
	if err != nil {
		return err
	}
	h, err := readHello(v.secure)
	if err != nil {
		return err
	}
	verdict, text := g.judge(&h, theirs)
	if verdict == accepted {
		verdict, text = g.arrive(&h)
	}
	v.peer, v.kind = h.peer(), h.kind
	if verdict == accepted {
		defer func() {
			if err != nil {
				g.depart(v.peer)
			}
		}()
	}
	answer := g.hello(h.kind, mine).with(verdict, text)
	if _, err := v.secure.Write(answer.encode()); err != nil {
		return fmt.Errorf("send hello: %w", err)
	}
	if verdict != accepted {
		return &Refusal{text: text}
	}
	last, err := readHello(v.secure)
	if err != nil {
		return err
	}
	if last.verdict != accepted {
		return &Refusal{byPeer: true, text: last.text}
	}
	return v.raw.SetDeadline(time.Time{})
}
