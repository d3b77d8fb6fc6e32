package compat

import (
	"context"
	"net"
	"net/http"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// turns lets so many calls of a connection be under way at once; more wait their
// turn, as a client that opens many at once expects.
type turns chan struct{}

func (t turns) enter(ctx context.Context) error {
	select {
	case t <- struct{}{}:
		return nil
	default:
	}
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	}
}

func (t turns) leave() { <-t }

// connInfo goes with a connection: who the peer is, as the handshake found out, and
// what it has under way.
type connInfo struct {
	credentials.AuthInfo
	turns turns
}

// turnsOf answers the turns of a call's connection.
func turnsOf(ctx context.Context) turns {
	p, _ := peer.FromContext(ctx)
	return p.AuthInfo.(*connInfo).turns //nolint:forcetypeassert // see handshakes
}

// handshakes makes a connInfo for each connection, around the credentials proper.
type handshakes struct {
	credentials.TransportCredentials
	inFlight int
	budget   *budget
	conns    *Conns
}

func newCredentials(opt ServerOptions, conns *Conns) credentials.TransportCredentials {
	proper := insecure.NewCredentials()
	if opt.TLS != nil {
		proper = credentials.NewTLS(opt.TLS)
	}
	return &handshakes{proper, opt.InFlight, &budget{most: opt.Unfinished}, conns}
}

// ServerHandshake implements credentials.TransportCredentials.
func (h *handshakes) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := h.TransportCredentials.ServerHandshake(raw)
	if err != nil {
		h.conns.State(raw, http.StateClosed)
		return nil, nil, err
	}
	tell := func(s http.ConnState) bool { return h.conns.State(raw, s) }
	return newFiltered(conn, h.budget, tell), &connInfo{info, make(turns, h.inFlight)}, nil
}

// Clone implements credentials.TransportCredentials.
func (h *handshakes) Clone() credentials.TransportCredentials {
	return &handshakes{h.TransportCredentials.Clone(), h.inFlight, h.budget, h.conns}
}
