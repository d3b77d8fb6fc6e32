package daemon

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// healthWithin bounds a health check: the node itself takes at most 2 s.
const healthWithin = 5 * time.Second

// errUnhealthy is a health check that got no "ready"; its line says why.
var errUnhealthy = errors.New("not healthy")

// checkHealth asks a node for its health and prints one line.
func checkHealth(src sources, addr string, stdout io.Writer) error {
	cfg, err := src.load()
	if err != nil {
		return err
	}
	cfg = cfg.resolved()
	at, err := healthTarget(&cfg, addr)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), healthWithin)
	defer cancel()
	began := time.Now()
	h, err := AskHealth(ctx, at)
	switch {
	case err != nil:
		fmt.Fprintf(stdout, "unreachable: %s: %v\n", at, err)
	case addr == "" && cfg.given("node_id") && h.NodeID != cfg.NodeID:
		// It has taken the port that the configured one would have used.
		fmt.Fprintf(stdout, "unhealthy: %s: this is %s, not %s\n", at, h.NodeID, cfg.NodeID)
	case !h.OK:
		fmt.Fprintf(stdout, "unhealthy: %s: %s: %s\n", at, h.NodeID, h.Detail)
	default:
		fmt.Fprintf(stdout, "ok: %s: %s: %s (%v)\n", at, h.NodeID, h.Detail, time.Since(began).Round(time.Millisecond))
		return nil
	}
	return reportedError{errUnhealthy, ExitFailed}
}

// Target is an interface of a node that can be asked for its health.
type Target struct {
	Scheme string // "tcp" and "unix" for the native protocol, "grpc", "grpcs", "https", "h3"
	Addr   string // host:port, or the path of a socket
}

// String is the target as --addr takes it.
func (t Target) String() string {
	switch t.Scheme {
	case "tcp", "unix":
		return t.Addr
	}
	return t.Scheme + "://" + t.Addr
}

// healthTarget is where a node is asked: at addr, or where its configuration says
// that it listens. Of several interfaces one that was configured is asked rather than
// one that is on by default: another node of the host may have taken that port.
func healthTarget(cfg *Config, addr string) (Target, error) {
	if addr != "" {
		return parseTarget(addr)
	}
	var first Target
	var key string
	for _, f := range []struct{ key, scheme, addr string }{
		{"native_listen", "tcp", cfg.NativeListen}, {"native_unix", "unix", cfg.NativeUnix},
		{"listen", cfg.grpcScheme(), cfg.Listen}, {"web_listen", "https", cfg.WebListen},
		{"h3_listen", "h3", cfg.H3Listen},
	} {
		switch {
		case f.addr == "":
			continue
		case first.Scheme == "" || cfg.given(f.key) && !cfg.given(key):
			first, key = Target{f.scheme, f.addr}, f.key
		}
	}
	if strings.HasSuffix(first.Addr, ":0") && first.Scheme != "unix" {
		return first, usageError{fmt.Errorf("%s is %s, any free port: say which with --addr", key, first.Addr)}
	}
	return first, nil
}

// grpcScheme says how gRPC is served.
func (c *Config) grpcScheme() string {
	if c.ListenTLS {
		return "grpcs"
	}
	return "grpc"
}

// parseTarget reads what --addr was given.
func parseTarget(addr string) (Target, error) {
	if path, ok := strings.CutPrefix(addr, "unix:"); ok {
		return Target{"unix", strings.TrimPrefix(path, "//")}, nil
	}
	t := Target{"tcp", addr}
	if scheme, rest, ok := strings.Cut(addr, "://"); ok {
		t = Target{scheme, strings.TrimSuffix(rest, "/")}
	}
	if !isAddr(t.Addr) || !slices.Contains([]string{"tcp", "grpc", "grpcs", "https", "h3"}, t.Scheme) {
		return t, usageError{fmt.Errorf("--addr %q: must be host:port or unix:PATH (native protocol), "+
			"grpc://host:port, grpcs://host:port, https://host:port or h3://host:port", addr)}
	}
	return t, nil
}

// Health is what a node says of itself.
type Health struct {
	NodeID    string
	ClusterID string
	OK        bool
	Detail    string // "ready", or why not
}

// AskHealth asks a node for its health, through any of its interfaces. Certificates
// are not verified: it is the node's word that counts, and nothing is told to it.
func AskHealth(ctx context.Context, at Target) (Health, error) {
	at.Addr = dialable(at)
	switch at.Scheme {
	case "grpc", "grpcs":
		return askGRPC(ctx, at)
	case "https", "h3":
		return askWeb(ctx, at)
	}
	return askNative(ctx, at)
}

// dialable is where a node is reached that listens at an address: one that listens
// on every interface is reached over loopback.
func dialable(at Target) string {
	host, port, err := net.SplitHostPort(at.Addr)
	if err != nil || at.Scheme == "unix" {
		return at.Addr
	}
	switch ip := net.ParseIP(host); {
	case host == "" || ip != nil && ip.IsUnspecified() && ip.To4() != nil:
		host = "127.0.0.1"
	case ip != nil && ip.IsUnspecified():
		host = "::1"
	}
	return net.JoinHostPort(host, port)
}

// askNative asks over the native protocol.
func askNative(ctx context.Context, at Target) (h Health, err error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, at.Scheme, at.Addr)
	if err != nil {
		return h, err
	}
	defer conn.Close()
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(deadline); err != nil {
			return h, err
		}
	}
	ask := wire.AppendRequest(nil, 1, &wire.Request{Op: wire.OpHello, Hello: &wire.Hello{
		MinVersion: wire.MinProtocol, MaxVersion: wire.MaxProtocol, Client: "pathlockd --health-check",
	}})
	ask = wire.AppendRequest(ask, 2, &wire.Request{Op: wire.OpHealth})
	if _, err := conn.Write(ask); err != nil {
		return h, fmt.Errorf("ask: %w", err)
	}
	r := bufio.NewReader(conn)
	res, err := readReply(r, 1, wire.OpHello)
	if err != nil {
		return h, fmt.Errorf("hello: %w", err)
	}
	if res.List != nil && res.List.Welcome != nil {
		h.NodeID, h.ClusterID = res.List.Welcome.NodeID, res.List.Welcome.ClusterID
	}
	if res, err = readReply(r, 2, wire.OpHealth); err != nil {
		return h, fmt.Errorf("health: %w", err)
	}
	h.OK, h.Detail = res.Flag, res.Message
	return h, nil
}

// maxAnswer bounds the frames that a health check reads.
const maxAnswer = 64 << 10

// readReply reads frames until the reply to request id.
func readReply(r io.Reader, id uint64, op wire.Op) (res wire.Result, err error) {
	for {
		var head [4]byte
		if _, err := io.ReadFull(r, head[:]); err != nil {
			return res, err
		}
		n := binary.BigEndian.Uint32(head[:])
		if n == 0 || n > maxAnswer {
			return res, fmt.Errorf("a frame of %d bytes: this is no pathlockd", n)
		}
		payload := make([]byte, n)
		if _, err := io.ReadFull(r, payload); err != nil {
			return res, err
		}
		got, code, body, fields, err := wire.DecodeReply(payload)
		switch {
		case err != nil:
			return res, fmt.Errorf("this is no pathlockd: %w", err)
		case got == 0 && wire.PushKind(code) == wire.PushGoodbye:
			bye, err := wire.DecodeGoodbye(&body, fields)
			if err != nil {
				return res, err
			}
			return res, bye
		case got != id:
			continue
		}
		if err := res.Decode(op, wire.Code(code), &body, fields); err != nil {
			return res, err
		}
		if bad := res.Err(); bad != nil {
			return res, bad
		}
		return res, nil
	}
}
