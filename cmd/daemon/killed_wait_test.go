package daemon

import (
	"context"
	"crypto/tls"
	"net/http"
	"strings"
	"syscall"
	"testing"

	pb "github.com/pathlockd/pathlockd/compat/pathlockdv1"
)

// TestWaitOfAKilledNodeIsGrantedToNobody: clients wait for locks over gRPC and HTTP, and the node is killed
// and started again. The calls are gone, and cannot come back: they have no session that another connection
// could go on with. A waiting acquire ends with its call, so when a lock becomes free it is not granted to such
// a call, which would hold it for its whole TTL, an hour here, though nobody was told.
func TestWaitOfAKilledNodeIsGrantedToNobody(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := runPathlockd(t, dir, "--dev", "--native_listen=127.0.0.1:0")
	c := dialGRPC(t, p.logged("ready")["grpc"].(string))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	const overGRPC, overHTTP = "t:/a/x", "t:/b/x"
	lock := func(owner, path string) *pb.AcquireRequest {
		return &pb.AcquireRequest{
			OwnerId: owner, TtlMs: 3_600_000, QueueTtlMs: 60_000, Requests: []*pb.LockRequest{{Path: path}},
		}
	}
	for _, path := range []string{overGRPC, overHTTP} {
		if res, err := c.Acquire(ctx, lock("holder", path)); err != nil ||
			res.Status != pb.AcquireStatus_ACQUIRE_STATUS_OK {
			t.Fatal(res, err)
		}
	}
	watch, err := c.AcquireWatch(ctx, lock("gone", overGRPC))
	if err != nil {
		t.Fatal(err)
	}
	if res, err := watch.Recv(); err != nil || res.Status != pb.AcquireStatus_ACQUIRE_STATUS_QUEUED {
		t.Fatal(res, err)
	}
	via := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	t.Cleanup(via.CloseIdleConnections)
	posted := make(chan error, 1)
	go func() {
		body := `{"ownerId":"gone","ttlMs":3600000,"queueTtlMs":60000,"requests":[{"path":"` + overHTTP + `"}]}`
		res, err := (&http.Client{Transport: via}).Post("https://"+p.logged("ready")["web"].(string)+"/v1/acquireWait",
			"application/json", strings.NewReader(body))
		if err == nil {
			res.Body.Close()
		}
		posted <- err
	}()
	if !within(func() bool {
		res, err := c.DescribePath(ctx, &pb.DescribePathRequest{Path: overHTTP})
		return err == nil && res.WaitersTotal == 1
	}) {
		t.Fatal("nobody waits over HTTP")
	}
	p.signal(syscall.SIGKILL)
	p.exit()
	if res, err := watch.Recv(); err == nil {
		t.Fatalf("the call is answered %v", res)
	}
	if err := <-posted; err == nil {
		t.Fatal("the call over HTTP is answered")
	}

	p = runPathlockd(t, dir, "--dev", "--native_listen=127.0.0.1:0")
	c = dialGRPC(t, p.logged("ready")["grpc"].(string))
	for _, path := range []string{overGRPC, overHTTP} {
		give := &pb.ReleaseLocksRequest{OwnerId: "holder", Requests: []*pb.ReleaseRequest{{Path: path}}}
		if _, err := c.Release(ctx, give); err != nil {
			t.Fatal(err)
		}
		res, err := c.InspectPath(ctx, &pb.InspectPathRequest{Path: path})
		if err != nil {
			t.Fatal(err)
		}
		if res.WriteOwner != "" {
			t.Errorf("%s was granted to %q, whose call ended with the node", path, res.WriteOwner)
		}
	}
}
