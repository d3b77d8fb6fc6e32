package web

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	pb "github.com/pathlockd/pathlockd/compat/pathlockdv1"
	"github.com/pathlockd/pathlockd/wire"
)

// TestRoutes says that every unary RPC has a route, that none that streams has, and
// that there is nothing else but what is listed here.
func TestRoutes(t *testing.T) {
	s, err := New(Options{Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	expected := map[string]string{"/v1/events/sse": "GET", "/v1/openapi.json": "GET, HEAD"}
	service := pb.File_pathlockd_v1_pathlock_proto.Services().ByName("PathLock")
	for i := range service.Methods().Len() {
		m := service.Methods().Get(i)
		if m.IsStreamingClient() || m.IsStreamingServer() {
			if instead[string(m.Name())] == "" {
				t.Errorf("nothing says what stands in for %s", m.Name())
			}
			continue
		}
		path := "/v1/" + strings.ToLower(string(m.Name()[:1])) + string(m.Name()[1:])
		expected[path] = "POST"
	}
	expected["/v1/health"] = "GET, HEAD, POST"
	for path, allow := range expected {
		if r := s.routes[path]; r == nil || r.allow[0] != allow {
			t.Errorf("%s: got %+v, want the methods %s", path, r, allow)
		}
	}
	if len(s.routes) != len(expected) {
		t.Errorf("%d routes, want %d", len(s.routes), len(expected))
	}
	for _, path := range []string{"/v1/acquire", "/v1/getNamespacePolicy", "/v1/isOwnerAlive", "/v1/scanLocks"} {
		if s.routes[path] == nil {
			t.Errorf("%s has no route", path)
		}
	}
}

// TestEarlyDataIsForReads holds the table of traits against the operations: what may
// run in early data changes nothing.
func TestEarlyDataIsForReads(t *testing.T) {
	ops := map[string]wire.Op{
		"Acquire": wire.OpAcquire, "Release": wire.OpRelease, "ReleaseAll": wire.OpReleaseAll, "Renew": wire.OpRenew,
		"ForceRelease": wire.OpForceRelease, "AssertFencing": wire.OpAssertFencing, "DetectCycle": wire.OpDetectCycle,
		"IsBlocking": wire.OpIsBlocking, "IncrFencingToken": wire.OpIncrToken, "SetWaitEdge": wire.OpSetWaitEdge,
		"ClearWaitEdge": wire.OpClearWaitEdge, "IsOwnerAlive": wire.OpIsOwnerAlive,
		"RequestRevoke":      wire.OpRequestRevoke,
		"SetNamespacePolicy": wire.OpSetPolicy, "GetNamespacePolicy": wire.OpGetPolicy,
		"DeleteNamespacePolicy": wire.OpDeletePolicy,
		"InspectPath":           wire.OpInspectPath, "ListOwnerLocks": wire.OpListLocks, "DumpLocks": wire.OpDumpLocks,
		"Health": wire.OpHealth, "AcquireWait": wire.OpAcquire, "DescribePath": wire.OpDescribe,
		"ScanLocks": wire.OpScanLocks,
	}
	for _, m := range pb.PathLock_ServiceDesc.Methods {
		op, known := ops[m.MethodName]
		if !known {
			t.Errorf("%s: is not in this test's table", m.MethodName)
		}
		spec, _ := op.Spec()
		reads := spec.Kind != wire.KindWrite
		if got := traits[m.MethodName]&early != 0; got != reads {
			t.Errorf("%s: early data is %t, but the operation %s reads is %t", m.MethodName, got, op, reads)
		}
	}
	for name := range traits {
		if _, known := ops[name]; !known {
			t.Errorf("the traits name %s, which is no RPC", name)
		}
	}
}

func eachVersion(t *testing.T, f func(t *testing.T, c *http.Client)) {
	for _, h2 := range []bool{false, true} {
		t.Run(fmt.Sprintf("h2=%t", h2), func(t *testing.T) { f(t, client(t, h2)) })
	}
}

func TestAcquireAndRelease(t *testing.T) {
	f := serve(t, nil)
	eachVersion(t, func(t *testing.T, c *http.Client) {
		path := fmt.Sprintf("web:/routes/%p", c)
		got := f.post(t, c, "acquire", `{"ownerId":"a","ttlMs":30000,"requests":[{"path":"`+path+`"}]}`)
		if got.StatusCode != 200 || !strings.HasPrefix(got.body,
			`{"status":"ACQUIRE_STATUS_OK","path":"","owner":"","reason":"REASON_CODE_UNSPECIFIED","fencingToken":"`) ||
			!strings.HasSuffix(got.body, `","currentFencingToken":"0","namespace":"web:/routes","position":"0"}`) {
			t.Fatalf("acquire: %d %s", got.StatusCode, got.body)
		}
		if got := f.post(t, c, "acquire", `{"owner_id":"b","ttl_ms":"30000","no_queue":true,"requests":[{"path":"`+path+
			`","mode":1}]}`, "Accept", "application/json; profile=plain"); got.StatusCode != 200 ||
			got.body != `{"status":1,"path":"`+path+
				`","owner":"a","reason":2,"fencingToken":0,"currentFencingToken":0,"namespace":"","position":0}` {
			t.Fatalf("conflict: %d %s", got.StatusCode, got.body)
		}
		if got := f.post(t, c, "release", `{"ownerId":"a","requests":[{"path":"`+path+`"}]}`); got.StatusCode != 200 ||
			got.body != "{}" {
			t.Fatalf("release: %d %s", got.StatusCode, got.body)
		}
	})
}

func TestHealth(t *testing.T) {
	f := serve(t, nil)
	eachVersion(t, func(t *testing.T, c *http.Client) {
		for _, method := range []string{"GET", "POST"} {
			got := f.send(t, c, method, "/v1/health", "")
			if got.StatusCode != 200 || !strings.HasPrefix(got.body, `{"ok":true,"detail":"ready","nodeId":"`) {
				t.Errorf("%s: %d %s", method, got.StatusCode, got.body)
			}
			for name, want := range map[string]string{"Content-Type": "application/json", "Cache-Control": "no-store",
				"X-Content-Type-Options": "nosniff", "Alt-Svc": ""} {
				if v := got.Header.Get(name); v != want {
					t.Errorf("%s: %s is %q, want %q", method, name, v, want)
				}
			}
		}
		if got := f.send(t, c, "HEAD", "/v1/health", ""); got.StatusCode != 200 || got.body != "" ||
			got.ContentLength <= 0 {
			t.Errorf("HEAD: %d %d %q", got.StatusCode, got.ContentLength, got.body)
		}
		alt := []string{`h3=":443"; ma=3600`}
		f.altSvc.Store(&alt)
		defer f.altSvc.Store(nil)
		if got := f.send(t, c, "GET", "/v1/health", ""); got.Header.Get("Alt-Svc") != alt[0] {
			t.Errorf("Alt-Svc is %q", got.Header.Get("Alt-Svc"))
		}
	})
}

// TestAcquireWait waits by a long poll, is granted, and leaves the queue when the
// client goes.
func TestAcquireWait(t *testing.T) {
	f := serve(t, func(_ *Options, l *limits) {
		l.call, l.write, l.body = 300*time.Millisecond, 100*time.Millisecond, 100*time.Millisecond
	})
	eachVersion(t, func(t *testing.T, c *http.Client) {
		path := fmt.Sprintf("web:/wait/%p", c)
		waiting := func() int {
			return strings.Count(f.post(t, c, "describePath", `{"path":"`+path+`"}`).body, `"open":true`)
		}
		f.post(t, c, "acquire", `{"ownerId":"first","ttlMs":30000,"requests":[{"path":"`+path+`"}]}`)
		answer := make(chan response, 1)
		go func() {
			answer <- f.post(t, client(t, c.Transport.(*http.Transport).Protocols.HTTP2()), "acquireWait",
				`{"ownerId":"second","ttlMs":30000,"requests":[{"path":"`+path+`"}]}`)
		}()
		await(t, "the second one queues", func() bool { return waiting() == 1 })

		ctx, leave := context.WithCancel(t.Context())
		req, err := http.NewRequestWithContext(ctx, "POST", f.url+"/v1/acquireWait",
			strings.NewReader(`{"ownerId":"third","ttlMs":30000,"requests":[{"path":"`+path+`"}]}`))
		if err != nil {
			t.Fatal(err)
		}
		gone, answered := make(chan error, 1), ""
		go func() {
			res, err := c.Do(req)
			if err == nil {
				body, _ := io.ReadAll(res.Body)
				res.Body.Close()
				answered = fmt.Sprintf("%s %s", res.Status, body)
			}
			gone <- err
		}()
		await(t, "the third one queues", func() bool { return waiting() == 2 })
		leave()
		// A client of HTTP/1.1 says that its connection ends before it closes it, and may read what it is answered
		// to that.
		if err := <-gone; err == nil && !strings.HasPrefix(answered, "499 ") {
			t.Errorf("a request that was given up was answered %s", answered)
		}
		await(t, "the third one left the queue", func() bool { return waiting() == 1 })

		// The wait outlasts what other requests may take.
		for end := time.Now().Add(600 * time.Millisecond); time.Now().Before(end); {
			if n := waiting(); n != 1 {
				t.Fatalf("%d wait, want 1", n)
			}
		}
		f.post(t, c, "release", `{"ownerId":"first","requests":[{"path":"`+path+`"}]}`)
		if got := <-answer; got.StatusCode != 200 || !strings.Contains(got.body, `"status":"ACQUIRE_STATUS_OK"`) {
			t.Errorf("granted: %d %s", got.StatusCode, got.body)
		}
	})
}

// TestUnhealthy asks a node that has left: its health is told with 503 and the usual
// body, and what else is asked is surely not carried out.
func TestUnhealthy(t *testing.T) {
	node, err := openNode(t, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	f := serveNode(t, node, nil)
	if err := node.Close(5 * time.Second); err != nil {
		t.Fatal(err)
	}
	eachVersion(t, func(t *testing.T, c *http.Client) {
		want := fmt.Sprintf(`{"ok":false,"detail":"draining","nodeId":%q,"clusterId":%q}`, node.NodeID(),
			node.ClusterID())
		for _, method := range []string{"GET", "POST"} {
			if got := f.send(t, c, method, "/v1/health", ""); got.StatusCode != 503 || got.body != want {
				t.Errorf("%s: %d %s, want %s", method, got.StatusCode, got.body, want)
			}
		}
		got := f.post(t, c, "incrFencingToken", "{}")
		if got.StatusCode != 503 || got.body != `{"error":{"code":"UNAVAILABLE","message":"the node is draining; nothing was done, ask another one"}}` {
			t.Errorf("%d %s", got.StatusCode, got.body)
		}
	})
}

// TestTurns fills what a connection may have under way. The next one waits, and is
// refused in the end; other connections, and what stays open, are not in its way.
func TestTurns(t *testing.T) {
	f := serve(t, func(o *Options, l *limits) { o.InFlight, l.turn = 1, 300*time.Millisecond })
	c := client(t, true)
	f.send(t, c, "GET", "/v1/health", "") // so that all is on one connection
	body, send := io.Pipe()
	first := make(chan response, 1)
	go func() {
		req, err := http.NewRequest("POST", f.url+"/v1/acquire", body)
		if err != nil {
			t.Error(err)
		}
		res, err := c.Do(req)
		if err != nil {
			t.Error(err)
			first <- response{}
			return
		}
		defer res.Body.Close()
		b, _ := io.ReadAll(res.Body)
		first <- response{res, string(b)}
	}()
	if _, err := send.Write([]byte(`{"ownerId":"turns",`)); err != nil {
		t.Fatal(err)
	}
	await(t, "the first one is being read", func() bool {
		f.bodies.mu.Lock()
		defer f.bodies.mu.Unlock()
		return f.bodies.mu.first != nil
	})
	if got := f.post(t, c, "acquireWait", `{"ownerId":"turns-2","ttlMs":1000,"requests":[{"path":"web:/turns/b"}]}`); got.StatusCode != 200 {
		t.Errorf("a waiting acquire: %d %s", got.StatusCode, got.body)
	}
	for _, rpc := range []string{"release", "releaseAll"} { // they have turns of their own
		if got := f.post(t, c, rpc, `{"ownerId":"turns-2"}`); got.StatusCode != 200 {
			t.Errorf("%s: %d %s", rpc, got.StatusCode, got.body)
		}
	}
	if got := f.send(t, client(t, true), "GET", "/v1/health", ""); got.StatusCode != 200 {
		t.Errorf("another connection: %d %s", got.StatusCode, got.body)
	}
	if got := f.post(t, c, "health", "{}"); got.StatusCode != 503 ||
		got.body != `{"error":{"code":"UNAVAILABLE","message":"max_concurrent_requests_per_connection: the connection has 1 requests under way, and none was answered within 300ms for this one to begin; it was not carried out"}}` {
		t.Errorf("the second one: %d %s", got.StatusCode, got.body)
	}
	if _, err := send.Write([]byte(`"ttlMs":1000,"requests":[{"path":"web:/turns/a"}]}`)); err != nil {
		t.Fatal(err)
	}
	send.Close()
	if got := <-first; got.Response == nil || got.StatusCode != 200 {
		t.Errorf("the first one: %s", got.body)
	}
	if got := f.post(t, c, "health", "{}"); got.StatusCode != 200 {
		t.Errorf("the next one: %d %s", got.StatusCode, got.body)
	}
}

// TestDrain answers what is under way, and takes nothing new.
func TestDrain(t *testing.T) {
	eachVersion(t, func(t *testing.T, c *http.Client) {
		f := serve(t, nil)
		path := fmt.Sprintf("web:/drain/%p", c)
		f.post(t, c, "acquire", `{"ownerId":"drain","ttlMs":30000,"requests":[{"path":"`+path+`"}]}`)
		waits := make(chan response, 1)
		go func() {
			waits <- f.post(t, c, "acquireWait", `{"ownerId":"drain-2","ttlMs":1000,"requests":[{"path":"`+path+`"}]}`)
		}()
		await(t, "it queues", func() bool {
			return strings.Contains(f.post(t, c, "describePath", `{"path":"`+path+`"}`).body, `"waitersTotal":"1"`)
		})
		silent, err := net.Dial("tcp", f.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer silent.Close()
		drained := make(chan struct{})
		go func() {
			f.Drain(within(t))
			close(drained)
		}()
		await(t, "no connection is taken", func() bool {
			conn, err := net.Dial("tcp", f.addr)
			if err == nil {
				conn.Close()
			}
			return err != nil
		})
		f.svc.Leave()
		if got := <-waits; got.StatusCode != 503 ||
			!strings.HasPrefix(got.body, `{"error":{"code":"UNAVAILABLE","message":"the node is shutting down`) {
			t.Errorf("%d %s", got.StatusCode, got.body)
		}
		select {
		case <-drained:
		case <-time.After(patience / 3):
			t.Error("the drain goes on with nothing under way")
		}
	})
}

// TestPanic answers a request that hit a bug, and the server goes on.
func TestPanic(t *testing.T) {
	f := serve(t, nil)
	f.routes["/v1/bug"] = &route{methods: []string{"GET"},
		serve: func(http.ResponseWriter, *http.Request) { panic("a bug") }}
	eachVersion(t, func(t *testing.T, c *http.Client) {
		got := f.send(t, c, "GET", "/v1/bug", "")
		if got.StatusCode != 500 || got.body != `{"error":{"code":"INTERNAL","message":"a bug in the server, which its log tells more of; the outcome of the request is not known"}}` {
			t.Errorf("%d %s", got.StatusCode, got.body)
		}
		if got := f.send(t, c, "GET", "/v1/health", ""); got.StatusCode != 200 {
			t.Errorf("afterwards: %d %s", got.StatusCode, got.body)
		}
	})
}
