package cli

import (
	"context"
	"errors"
	"net"
	"strings"
	"time"

	pathlockd "github.com/pathlockd/pathlockd/clients/go"
)

// How long a server may take to answer.
const (
	defaultTimeout = 10 * time.Second
	minTimeout     = time.Millisecond
	maxTimeout     = time.Hour
)

// dial connects to the server.
func (a *app) dial(ctx context.Context, opts ...pathlockd.Option) (*pathlockd.Client, error) {
	addr, err := checkAddr(a.addr)
	if err != nil {
		return nil, err
	}
	ctx, cancel := a.limited(ctx)
	defer cancel()
	opts = append([]pathlockd.Option{
		pathlockd.WithName("pathlock/" + Version()), pathlockd.WithDialTimeout(a.timeout),
		pathlockd.WithOneConnection(), // for a few requests more are not worth it
	}, opts...)
	c, err := pathlockd.Dial(ctx, addr, opts...)
	if err == nil {
		return c, nil
	}
	if sig := new(signalError); errors.As(context.Cause(ctx), &sig) {
		return nil, sig
	}
	f := &failure{exit: ExitUnavailable, code: codeUnreachable, message: "cannot reach the server: " + plain(err)}
	return nil, f.hinted("is pathlockd running there? Start one with: pathlockd --dev; or name another with --addr or " + envAddr)
}

// limited ends when the server took too long to answer.
func (a *app) limited(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, a.timeout, errNoAnswer)
}

// asking calls f with a client, within the time that the server has to answer.
func (a *app) asking(ctx context.Context, f func(ctx context.Context, c *pathlockd.Client) error) error {
	c, err := a.dial(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	ctx, cancel := a.limited(ctx)
	defer cancel()
	return f(ctx, c)
}

// checkAddr says what is wrong with --addr, and answers it as the client takes it.
func checkAddr(list string) (string, error) {
	var all []string
	for one := range strings.SplitSeq(list, ",") {
		one = strings.TrimSpace(one)
		if path, unix := strings.CutPrefix(one, "unix:"); unix {
			if path = strings.TrimPrefix(path, "//"); path == "" {
				return "", usage("--addr %q: names no socket; want unix:/path", list)
			}
			all = append(all, "unix:"+path)
			continue
		}
		host, port, err := net.SplitHostPort(one)
		if err != nil || port == "" || strings.Contains(host, "/") {
			return "", usage("--addr %q: must be host:port, such as %s, or unix:/path, or several with commas between",
				list, DefaultAddr)
		}
		all = append(all, one)
	}
	return strings.Join(all, ","), nil
}

// addrFlag is what commands must say too that are to reach the same server.
func (a *app) addrFlag() string {
	if a.addr == a.envOr(envAddr, DefaultAddr) {
		return ""
	}
	return " --addr " + quote(a.addr)
}
