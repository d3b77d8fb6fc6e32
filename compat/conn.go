package compat

import (
	"context"
	"net"
	"net/http"
	"time"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/peer"
)

// connInfo goes with a connection: who the peer is, as the handshake found out, and
// what it has under way.
type connInfo struct {
	credentials.AuthInfo
	calls   *Calls
	answers *answers
}

// connOf answers what goes with a call's connection.
func connOf(ctx context.Context) *connInfo {
	p, _ := peer.FromContext(ctx)
	return p.AuthInfo.(*connInfo) //nolint:forcetypeassert // see handshakes
}

// handshakes makes a connInfo for each connection, around the credentials proper.
type handshakes struct {
	credentials.TransportCredentials
	inFlight int
	turn     time.Duration
	budget   *budget
	conns    *Conns
}

func newCredentials(opt ServerOptions, conns *Conns) credentials.TransportCredentials {
	proper := insecure.NewCredentials()
	if opt.TLS != nil {
		proper = credentials.NewTLS(opt.TLS)
	}
	return &handshakes{proper, opt.InFlight, opt.TurnWithin, &budget{most: opt.Unfinished}, conns}
}

// ServerHandshake implements credentials.TransportCredentials.
func (h *handshakes) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := h.TransportCredentials.ServerHandshake(raw)
	if err != nil {
		h.conns.State(raw, http.StateClosed)
		return nil, nil, err
	}
	tell := func(s http.ConnState) bool { return h.conns.State(raw, s) }
	given := new(answers)
	return newFiltered(conn, h.budget, tell, given), &connInfo{info, NewCalls(h.inFlight, openCalls, h.turn), given},
		nil
}

// Clone implements credentials.TransportCredentials.
func (h *handshakes) Clone() credentials.TransportCredentials {
	return &handshakes{h.TransportCredentials.Clone(), h.inFlight, h.turn, h.budget, h.conns}
}
