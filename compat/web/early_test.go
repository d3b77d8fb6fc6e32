package web

import (
	"context"
	"crypto/tls"

	"github.com/quic-go/quic-go"
)

// dialTo dials one address, whatever is asked for.
func dialTo(addr string) func(context.Context, string, *tls.Config, *quic.Config) (*quic.Conn, error) {
	return func(ctx context.Context, _ string, tlsConf *tls.Config, conf *quic.Config) (*quic.Conn, error) {
		return quic.DialAddrEarly(ctx, addr, tlsConf, conf)
	}
}
