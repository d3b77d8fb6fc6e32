package daemon

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
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
	named := addr != ""
	network, addr, err := healthTarget(&cfg, addr)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), healthWithin)
	defer cancel()
	began := time.Now()
	h, err := AskHealth(ctx, network, addr)
	switch {
	case err != nil:
		fmt.Fprintf(stdout, "unreachable: %s: %v\n", addr, err)
	case !named && cfg.given("node_id") && h.NodeID != cfg.NodeID:
		// It has taken the port that the configured one would have used.
		fmt.Fprintf(stdout, "unhealthy: %s: this is %s, not %s\n", addr, h.NodeID, cfg.NodeID)
	case !h.OK:
		fmt.Fprintf(stdout, "unhealthy: %s: %s: %s\n", addr, h.NodeID, h.Detail)
	default:
		fmt.Fprintf(stdout, "ok: %s: %s: %s (%v)\n", addr, h.NodeID, h.Detail, time.Since(began).Round(time.Millisecond))
		return nil
	}
	return reportedError{errUnhealthy}
}

// healthTarget is where a node is asked: at addr, or where its configuration says
// that it listens.
func healthTarget(cfg *Config, addr string) (network, at string, err error) {
	if addr == "" {
		addr = cfg.NativeListen
		if addr == "" {
			addr = "unix:" + cfg.NativeUnix
		}
	}
	if path, ok := strings.CutPrefix(addr, "unix:"); ok {
		return "unix", strings.TrimPrefix(path, "//"), nil
	}
	if !isAddr(addr) {
		return "", "", usageError{fmt.Errorf("--addr %q: must be host:port or unix:PATH", addr)}
	}
	if strings.HasSuffix(addr, ":0") {
		return "", "", usageError{fmt.Errorf("native_listen is %s, any free port: say which with --addr", addr)}
	}
	return "tcp", addr, nil
}

// Health is what a node says of itself.
type Health struct {
	NodeID    string
	ClusterID string
	OK        bool
	Detail    string // "ready", or why not
}

// AskHealth asks the node whose native protocol is served at an address of network
// "tcp" or "unix".
func AskHealth(ctx context.Context, network, addr string) (h Health, err error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, network, addr)
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
