package daemon

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	pb "github.com/pathlockd/pathlockd/compat/pathlockdv1"
	"github.com/pathlockd/pathlockd/internal/tcp"
	"github.com/pathlockd/pathlockd/wire"
)

// sockets lists this process's sockets that are connected to one of its own at a local port.
func sockets(t *testing.T, port int) (fds []int) {
	t.Helper()
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range open {
		if fd, err := strconv.Atoi(f.Name()); err == nil {
			peer, err := unix.Getpeername(fd)
			if at, ok := peer.(*unix.SockaddrInet4); err == nil && ok && at.Port == port {
				fds = append(fds, fd)
			}
		}
	}
	return fds
}

// listening lists the TCP ports that this process listens at.
func listening(t *testing.T) (ports []int) {
	t.Helper()
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range open {
		fd, err := strconv.Atoi(f.Name())
		if err != nil {
			continue
		}
		on, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ACCEPTCONN)
		if err != nil || on == 0 {
			continue
		}
		if at, err := unix.Getsockname(fd); err == nil {
			if at, ok := at.(*unix.SockaddrInet4); ok {
				ports = append(ports, at.Port)
			}
		}
	}
	return ports
}

// TestEveryListenerGivesVanishedClientsUp: whatever a daemon listens at for clients, the kernel is told to give
// up within 30 s who acknowledges nothing, and who says nothing and does not answer either.
func TestEveryListenerGivesVanishedClientsUp(t *testing.T) { // not parallel: it looks at all sockets of the process
	before := listening(t)
	cfg := testConfig(t)
	cfg.WebListen, cfg.H3Listen = "127.0.0.1:0", "127.0.0.1:0"
	d, _ := startDaemon(t, cfg)
	names := map[string]string{d.Addr(): "native", d.GRPCAddr(): "gRPC", d.WebAddr(): "web"}
	checked := 0
	for _, port := range listening(t) {
		at := fmt.Sprintf("127.0.0.1:%d", port)
		if slices.Contains(before, port) || at == d.cfg.RaftAddr { // raft's has limits of its own
			continue
		}
		name := names[at]
		if name == "" {
			t.Errorf("nobody knows what listens at %s", at)
			name = at
		}
		t.Run(name, func(t *testing.T) {
			conn, err := net.DialTimeout("tcp", at, patience)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			checked++
			var wrong []string
			if !within(func() bool {
				wrong = nil
				fds := sockets(t, conn.LocalAddr().(*net.TCPAddr).Port)
				for _, fd := range fds {
					wrong = append(wrong, unlimited(fd)...)
				}
				return len(fds) > 0 && len(wrong) == 0
			}) {
				t.Errorf("a connection to %s: %v", name, wrong)
			}
		})
	}
	if checked != len(names) {
		t.Errorf("%d listeners of %d were found", checked, len(names))
	}
}

// unlimited is what is wrong with the limits of a socket.
func unlimited(fd int) (wrong []string) {
	get := func(level, option int) int {
		n, err := unix.GetsockoptInt(fd, level, option)
		if err != nil {
			wrong = append(wrong, err.Error())
		}
		return n
	}
	limit := int(tcp.GoneWithin.Seconds())
	if on := get(unix.SOL_SOCKET, unix.SO_KEEPALIVE); on == 0 {
		wrong = append(wrong, "keep-alive is off")
	}
	idle, count := get(unix.IPPROTO_TCP, unix.TCP_KEEPIDLE), get(unix.IPPROTO_TCP, unix.TCP_KEEPCNT)
	every := get(unix.IPPROTO_TCP, unix.TCP_KEEPINTVL)
	if idle+every*count > limit {
		wrong = append(wrong, fmt.Sprintf("silence is noticed after %d+%d×%d s", idle, every, count))
	}
	if ms := get(unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT); ms <= 0 || ms > 1000*limit {
		wrong = append(wrong, fmt.Sprintf("what is not acknowledged ends it after %d ms", ms))
	}
	return wrong
}

// deafen has the kernel throw away all that comes for a socket: its end is gone without a word.
func deafen(t *testing.T, c syscall.Conn) {
	t.Helper()
	raw, err := c.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	nothing := []unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K}}
	if e := raw.Control(func(fd uintptr) {
		err = unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER,
			&unix.SockFprog{Len: 1, Filter: &nothing[0]})
	}); e != nil || err != nil {
		t.Fatal(e, err)
	}
}

// TestVanishedClients: clients wait for a lock over every interface, and vanish without a FIN. Their waits
// end within tcp.GoneWithin, so the lock goes to who is there.
func TestVanishedClients(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	t.Parallel()
	cfg := testConfig(t)
	cfg.WebListen, cfg.H3Listen = "127.0.0.1:0", "127.0.0.1:0"
	d, _ := startDaemon(t, cfg)
	c := dialGRPC(t, d.GRPCAddr())
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	const path = "t:/vanished/x"
	acquire := func(owner string) *pb.AcquireRequest {
		return &pb.AcquireRequest{OwnerId: owner, TtlMs: 3_600_000, QueueTtlMs: 600_000,
			Requests: []*pb.LockRequest{{Path: path}}}
	}
	if res, err := c.Acquire(ctx, acquire("holder")); err != nil || res.Status != pb.AcquireStatus_ACQUIRE_STATUS_OK {
		t.Fatal(res, err)
	}
	waiters := func() (names []string) {
		res, err := c.DescribePath(ctx, &pb.DescribePathRequest{Path: path})
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range res.Waiters {
			names = append(names, w.Owner)
		}
		return names
	}

	var (
		mu      sync.Mutex
		sockets []syscall.Conn
	)
	vanishing := func(c syscall.Conn) {
		mu.Lock()
		defer mu.Unlock()
		sockets = append(sockets, c)
	}
	post := func(owner string, via http.RoundTripper) {
		body := fmt.Sprintf(`{"ownerId":%q,"ttlMs":3600000,"queueTtlMs":600000,"requests":[{"path":%q}]}`, owner, path)
		go func() {
			at := d.WebAddr()
			if owner == "HTTP/3" {
				at = d.H3Addr()
			}
			url := "https://" + at + "/v1/acquireWait"
			if res, err := (&http.Client{Transport: via}).Post(url, "application/json",
				strings.NewReader(body)); err == nil {
				res.Body.Close()
			}
		}()
		if !within(func() bool { return slices.Contains(waiters(), owner) }) {
			t.Fatalf("nobody waits over %s", owner)
		}
	}
	dialed := func(ctx context.Context, _, addr string) (net.Conn, error) {
		conn, err := (&net.Dialer{KeepAlive: -1}).DialContext(ctx, "tcp", addr)
		if err == nil {
			vanishing(conn.(*net.TCPConn))
		}
		return conn, err
	}
	trust := browser(t, filepath.Join(cfg.DataDir, "dev-cert.pem")).Transport.(*http.Transport).TLSClientConfig
	for _, two := range []bool{false, true} {
		via := &http.Transport{DialContext: dialed, TLSClientConfig: trust.Clone(), ForceAttemptHTTP2: two}
		if !two {
			via.TLSNextProto = map[string]func(string, *tls.Conn) http.RoundTripper{}
		}
		post(map[bool]string{false: "HTTP/1.1", true: "HTTP/2"}[two], via)
	}
	udp, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { udp.Close() })
	from := &quic.Transport{Conn: udp}
	early := func(ctx context.Context, addr string, conf *tls.Config, q *quic.Config) (*quic.Conn, error) {
		at, err := net.ResolveUDPAddr("udp", addr)
		if err != nil {
			return nil, err
		}
		return from.DialEarly(ctx, at, conf, q)
	}
	post("HTTP/3", &http3.Transport{TLSClientConfig: trust.Clone(), Dial: early})
	overGRPC, err := grpc.NewClient("passthrough:///"+d.GRPCAddr(),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn,
			error) {
			return dialed(ctx, "tcp", addr)
		}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { overGRPC.Close() })
	go pb.NewPathLockClient(overGRPC).AcquireWait(ctx, acquire("gRPC"))
	native := dial(t, "tcp", d.Addr(), wire.Hello{})
	native.send(lock("native", path, wire.FlagWait))
	vanishing(native.conn.(*net.TCPConn))
	all := []string{"HTTP/1.1", "HTTP/2", "HTTP/3", "gRPC", "native"}
	if !within(func() bool { return len(waiters()) == len(all) }) {
		t.Fatalf("only %q wait", waiters())
	}

	began := time.Now()
	mu.Lock()
	for _, c := range sockets {
		deafen(t, c)
	}
	mu.Unlock()
	udp.Close() // what is sent to nobody is dropped, and the server does not hear of it
	there := all
	for len(there) > 0 && time.Since(began) < tcp.GoneWithin+8*time.Second {
		left := waiters()
		for _, owner := range there {
			if !slices.Contains(left, owner) {
				t.Logf("%s: its wait ended %v after its client vanished", owner,
					time.Since(began).Round(100*time.Millisecond))
			}
		}
		there = left
		time.Sleep(100 * time.Millisecond)
	}
	if len(there) > 0 {
		t.Errorf("%v after their clients vanished, %q still wait", time.Since(began).Round(time.Second), there)
	}
}
