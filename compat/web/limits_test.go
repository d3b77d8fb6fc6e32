package web

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// beside runs an attack, and meanwhile asks the server as anybody would, over a
// connection of HTTP/2 and over new ones of HTTP/1.1 in turn. It fails when an answer
// takes long or the process, attackers included, takes more memory than most on top,
// and logs how it was.
func beside(t *testing.T, f *face, most uint64, attack func()) {
	t.Helper()
	kept, fresh := client(t, true), client(t, false)
	fresh.Transport.(*http.Transport).DisableKeepAlives = true
	path := fmt.Sprintf("web:/limits/%p", kept)
	ask := func() time.Duration {
		began := time.Now()
		for _, c := range []*http.Client{kept, fresh} {
			if got := f.post(t, c, "acquire", `{"ownerId":"bystander","ttlMs":30000,"requests":[{"path":"`+path+
				`"}]}`); got.StatusCode != 200 {
				t.Fatalf("a bystander got %d %s", got.StatusCode, got.body)
			}
		}
		return time.Since(began) / 2
	}
	ask()
	calm := make([]time.Duration, 20)
	for i := range calm {
		calm[i] = ask()
	}
	slices.Sort(calm)
	// so that little of what is seen is garbage, however slow the machine is
	defer debug.SetGCPercent(debug.SetGCPercent(20))
	runtime.GC()
	var before, now runtime.MemStats
	runtime.ReadMemStats(&before)
	done := make(chan struct{})
	go func() {
		defer close(done)
		attack()
	}()
	defer func() { <-done }()
	var took []time.Duration
	var peak uint64
	for over := false; !over || len(took) < 20; {
		took = append(took, ask())
		runtime.ReadMemStats(&now)
		peak = max(peak, now.HeapInuse+now.StackInuse)
		select {
		case <-done:
			over = true
		default:
		}
	}
	slices.Sort(took)
	grown := peak - min(peak, before.HeapInuse+before.StackInuse)
	t.Logf("a bystander's request took %v (median of %d), at most %v; %v without the attack; memory grew by %.1f MiB",
		took[len(took)/2].Round(10*time.Microsecond), len(took), took[len(took)-1].Round(10*time.Microsecond),
		calm[len(calm)/2].Round(10*time.Microsecond), float64(grown)/(1<<20))
	if worst := took[len(took)-1]; worst > 60*time.Second {
		t.Errorf("a bystander waited %v", worst)
	}
	if grown > most {
		t.Errorf("memory grew by %d bytes, want at most %d", grown, most)
	}
}

// dial opens a TLS connection that speaks a protocol.
func dial(t testing.TB, f *face, proto string) *tls.Conn {
	t.Helper()
	c, err := tls.Dial("tcp", f.addr, &tls.Config{RootCAs: pool, NextProtos: []string{proto}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// crowd runs f so many times at once.
func crowd(n int, f func(i int)) {
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { f(i) })
	}
	all.Wait()
}

// TestSlowBodies opens requests whose bodies do not come: each is answered in time,
// and the connection is closed.
func TestSlowBodies(t *testing.T) {
	f := serve(t, func(_ *Options, l *limits) { l.body = 500 * time.Millisecond })
	const clients = 100
	conns := make([]*tls.Conn, clients)
	crowd(clients, func(i int) { conns[i] = dial(t, f, "http/1.1") })
	beside(t, f, 64<<20, func() {
		crowd(clients, func(i int) {
			c := conns[i]
			fmt.Fprintf(c, "POST /v1/acquire HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{")
			b, err := io.ReadAll(c)
			want := `{"error":{"code":"DEADLINE_EXCEEDED","message":"body: did not come within 500ms; the request was not carried out"}}`
			if err != nil || !bytes.HasPrefix(b, []byte("HTTP/1.1 504 ")) ||
				!bytes.Contains(b, []byte("Connection: close\r\n")) ||
				!strings.HasSuffix(strings.TrimSpace(string(b)), want) {
				t.Errorf("got %q, %v", b, err)
			}
		})
	})
	// A body that nobody wants to have is not waited for either.
	for request, want := range map[string]string{
		"POST /v1/nothing HTTP/1.1\r\n": "404 ", "GET /v1/health HTTP/1.1\r\n": "200 ",
		"PUT /v1/acquire HTTP/1.1\r\n":                              "405 ",
		"POST /v1/acquire HTTP/1.1\r\nContent-Type: text/plain\r\n": "415 ", "OPTIONS /v1/health HTTP/1.1\r\n": "405 ",
		"OPTIONS /v1/health HTTP/1.1\r\nOrigin: https://app.example\r\nAccess-Control-Request-Method: POST\r\n": "403 ",
	} {
		c := dial(t, f, "http/1.1")
		_ = c.SetDeadline(time.Now().Add(patience))
		fmt.Fprintf(c, "%sHost: localhost\r\nContent-Length: 1000\r\n\r\n{", request)
		if b, err := io.ReadAll(c); err != nil || !bytes.HasPrefix(b, []byte("HTTP/1.1 "+want)) ||
			!bytes.HasSuffix(b, []byte("}\n")) {
			t.Errorf("%q: got %q, %v", request, b, err)
		}
	}
	// Over HTTP/2 only the request ends.
	pr, pw := io.Pipe()
	defer pw.Close()
	h2 := client(t, true)
	req, err := http.NewRequest("POST", f.url+"/v1/acquire", pr)
	if err != nil {
		t.Fatal(err)
	}
	res, err := h2.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if b, err := io.ReadAll(res.Body); err != nil || res.StatusCode != 504 ||
		!strings.HasPrefix(string(b), `{"error":{"code":"DEADLINE_EXCEEDED"`) {
		t.Errorf("HTTP/2: %d %s, %v", res.StatusCode, b, err)
	}
}

// TestBodiesTogether sends more bytes of bodies than the server is willing to hold.
// What it takes the longest to read gives way, and small requests get through.
func TestBodiesTogether(t *testing.T) {
	f := serve(t, func(_ *Options, l *limits) { l.bodyBytes, l.body = 2<<20, 30*time.Second })
	const clients = 24
	var refused, left atomic.Int32
	part := bytes.Repeat([]byte(" "), 256<<10)
	conns := make([]*tls.Conn, clients)
	crowd(clients, func(i int) { conns[i] = dial(t, f, "http/1.1") })
	beside(t, f, 64<<20, func() {
		var sent sync.WaitGroup
		for _, c := range conns {
			sent.Add(1)
			go func() {
				fmt.Fprintf(c, "POST /v1/acquire HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n", 1<<20)
				_, _ = c.Write(part)
				sent.Done()
				b, _ := io.ReadAll(c)
				if bytes.HasPrefix(b, []byte("HTTP/1.1 429 ")) &&
					bytes.Contains(b, []byte(`{"error":{"code":"RESOURCE_EXHAUSTED","message":"body: the server is reading too much at once`)) {
					refused.Add(1)
				}
				left.Add(1)
			}()
		}
		sent.Wait()
		await(t, "who does not fit gives way", func() bool { return refused.Load() >= clients-7 })
		f.bodies.mu.Lock()
		held := f.bodies.mu.bytes
		f.bodies.mu.Unlock()
		if held > 2<<20 {
			t.Errorf("%d bytes are held", held)
		}
	})
	for _, c := range conns {
		c.Close()
	}
	await(t, "all have left", func() bool { return left.Load() == clients })
	await(t, "no byte is held", func() bool {
		f.bodies.mu.Lock()
		defer f.bodies.mu.Unlock()
		return f.bodies.mu.bytes == 0 && f.bodies.mu.first == nil && f.bodies.mu.last == nil
	})
}

// TestOversizedBodies sends bodies over the limit, told before and not.
func TestOversizedBodies(t *testing.T) {
	f := serve(t, nil)
	big := bytes.Repeat([]byte(" "), MaxBodyBytes+1)
	beside(t, f, 256<<20, func() {
		for _, h2 := range []bool{false, true} {
			c := client(t, h2)
			crowd(4, func(int) {
				// the second has no known length
				for _, body := range []io.Reader{bytes.NewReader(big), io.MultiReader(bytes.NewReader(big))} {
					res, err := c.Post(f.url+"/v1/acquire", "application/json", body)
					if err != nil {
						t.Error(err)
						continue
					}
					b, err := io.ReadAll(res.Body)
					res.Body.Close()
					if err != nil || res.StatusCode != 429 ||
						string(b) != `{"error":{"code":"RESOURCE_EXHAUSTED","message":"body: is over 4194304 bytes, which is the most that is taken"}}`+"\n" {
						t.Errorf("h2=%t: %d %s, %v", h2, res.StatusCode, b, err)
					}
				}
			})
		}
	})
}

// TestWideBodies sends bodies within the limit that become the most memory: lists of
// empty messages.
func TestWideBodies(t *testing.T) {
	f := serve(t, func(_ *Options, l *limits) { l.body = time.Minute }) // on a busy machine they take a while to come
	body := `{"ownerId":"a","ttlMs":1,"requests":[{}` + strings.Repeat(",{}", MaxBodyBytes/3-20) + `]}`
	beside(t, f, 192<<20, func() {
		crowd(8, func(i int) {
			if got := f.post(t, client(t, i%2 == 0), "acquire", body); got.StatusCode != 400 ||
				!strings.Contains(got.body, "body: has over 65536 values") {
				t.Errorf("%d %s", got.StatusCode, got.body)
			}
		})
	})
	// What a request may have is not in the way: text of any kind.
	f = serve(t, func(o *Options, _ *limits) { o.IgnoreUnknown = true })
	if got := f.post(t, client(t, true), "acquire", `{"ownerId":"a","ttlMs":1,"x":"`+
		strings.Repeat(`,\",`, MaxBodyBytes/5)+`"}`); got.StatusCode != 200 {
		t.Errorf("%d %s", got.StatusCode, got.body)
	}
}

// TestHeaderFlood sends headers over the limit, and headers without an end.
func TestHeaderFlood(t *testing.T) {
	f := serve(t, nil)
	c := client(t, true)
	req, err := http.NewRequest("GET", f.url+"/v1/health", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X", strings.Repeat("x", readHeaderBytes))
	if res, err := c.Do(req); err == nil { // the client knows the limit too, and need not send it
		res.Body.Close()
		if res.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
			t.Errorf("HTTP/2: %s", res.Status)
		}
	} else if !strings.Contains(err.Error(), "header list") {
		t.Errorf("HTTP/2: %v", err)
	}
	const clients = 50
	conns := make([]*tls.Conn, clients)
	crowd(clients, func(i int) { conns[i] = dial(t, f, "http/1.1") })
	beside(t, f, 64<<20, func() {
		crowd(clients, func(i int) {
			c := conns[i]
			fmt.Fprintf(c, "GET /v1/health HTTP/1.1\r\nHost: x\r\n")
			line := []byte("X-Flood: " + strings.Repeat("x", 1000) + "\r\n")
			for n := 0; n < 1<<20; n += len(line) {
				if _, err := c.Write(line); err != nil {
					break
				}
			}
			b, _ := io.ReadAll(c)
			if len(b) > 0 && !bytes.HasPrefix(b, []byte("HTTP/1.1 431 ")) {
				t.Errorf("got %q", b)
			}
		})
	})
}

// TestHalfOpen opens connections that say nothing, or go silent after the handshake.
// New ones are taken all the same, and those that said nothing the longest go.
func TestHalfOpen(t *testing.T) {
	const most, clients = 512, 1500
	f := serve(t, func(_ *Options, l *limits) { l.halfOpen, l.conns = most, 600 })
	var open []net.Conn
	beside(t, f, 64<<20, func() {
		for range clients {
			c, err := net.Dial("tcp", f.addr)
			if err != nil {
				t.Error(err)
				return
			}
			open = append(open, c)
			if _, err := c.Write([]byte{22, 3, 1, 2, 0, 1}); err != nil { // the beginning of a hello
				t.Error(err)
			}
		}
	})
	closed := func() (n int) {
		for _, c := range open {
			_ = c.SetReadDeadline(time.Now().Add(time.Millisecond))
			if _, err := c.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
				n++
			}
		}
		return n
	}
	n := closed()
	for late := time.Now().Add(10 * time.Second); n < len(open)-most && time.Now().Before(late); n = closed() {
		time.Sleep(10 * time.Millisecond) // the last may still be on their way
	}
	if n < len(open)-most {
		t.Errorf("%d of %d were closed, want all but %d", n, len(open), most)
	}
	for _, c := range open {
		c.Close()
	}
	// With all connections of the limit idle, a new one still gets in.
	idle := make([]*tls.Conn, 650)
	for i := range idle {
		idle[i] = dial(t, f, "http/1.1")
		fmt.Fprintf(idle[i], "GET /v1/health HTTP/1.1\r\nHost: x\r\n\r\n")
		res, err := http.ReadResponse(bufio.NewReader(idle[i]), nil)
		if err != nil || res.StatusCode != 200 {
			t.Fatalf("connection %d: %v", i, err)
		}
		res.Body.Close()
	}
	if _, err := idle[0].Read(make([]byte, 1)); err == nil {
		t.Error("the longest idle connection is still open")
	}
}

// frame appends an HTTP/2 frame (RFC 9113 section 4.1).
func frame(b []byte, kind, flags byte, stream uint32, payload []byte) []byte {
	b = append(b, byte(len(payload)>>16), byte(len(payload)>>8), byte(len(payload)), kind, flags)
	return append(binary.BigEndian.AppendUint32(b, stream), payload...)
}

// The kinds of frames, and their flags.
const (
	frameData, frameHeaders, frameReset, frameSettings, framePing, frameGoAway = 0, 1, 3, 4, 6, 7
	endStream, endHeaders                                                      = 1, 4
)

// head is a header block without compression (RFC 7541 section 6.2.2).
func head(pairs ...string) (b []byte) {
	for i := 0; i < len(pairs); i += 2 {
		b = append(b, 0, byte(len(pairs[i])))
		b = append(append(b, pairs[i]...), byte(len(pairs[i+1])))
		b = append(b, pairs[i+1]...)
	}
	return b
}

// h2Conn is HTTP/2 by hand. It counts the frames that it gets.
type h2Conn struct {
	*tls.Conn
	frames [256]atomic.Int64
	over   chan struct{} // closed when the server has hung up
}

func h2Dial(t testing.TB, f *face) *h2Conn {
	t.Helper()
	c := &h2Conn{Conn: dial(t, f, "h2"), over: make(chan struct{})}
	if _, err := c.Write(frame([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), frameSettings, 0, 0, nil)); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(c.over)
		in := bufio.NewReader(c)
		var header [9]byte
		for {
			if _, err := io.ReadFull(in, header[:]); err != nil {
				return
			}
			c.frames[header[3]].Add(1)
			if _, err := in.Discard(int(header[0])<<16 | int(header[1])<<8 | int(header[2])); err != nil {
				return
			}
		}
	}()
	return c
}

// caughtUp waits until the server has read all, or hung up: for as long as it goes on
// telling something, since how much there is to read and answer is for the test to say.
func (c *h2Conn) caughtUp(t testing.TB) {
	t.Helper()
	if _, err := c.Write(frame(nil, framePing, 0, 0, make([]byte, 8))); err != nil {
		<-c.over
		return
	}
	for pinged := false; !pinged; {
		before := c.told()
		await(t, "the server reads on", func() bool {
			select {
			case <-c.over:
				pinged = true
			default:
				pinged = c.frames[framePing].Load() > 0
			}
			return pinged || c.told() > before
		})
	}
}

// told is how many frames came.
func (c *h2Conn) told() (n int64) {
	for i := range c.frames {
		n += c.frames[i].Load()
	}
	return n
}

var postAcquire = head(":method", "POST", ":scheme", "https", ":authority", "x", ":path", "/v1/acquire", "content-type",
	"application/json")

// TestRapidReset opens requests and resets them at once (CVE-2023-44487), as fast as
// it can.
func TestRapidReset(t *testing.T) {
	f := serve(t, nil)
	const clients, requests = 4, 10_000
	body := []byte(`{"ownerId":"reset","ttlMs":1000,"requests":[{"path":"web:/reset/a"}]}`)
	var sent, cut atomic.Int64
	beside(t, f, 192<<20, func() {
		crowd(clients, func(int) {
			c := h2Dial(t, f)
			var b []byte
			for id := uint32(1); id < 2*requests; id += 2 {
				b = frame(b, frameHeaders, endHeaders, id, postAcquire)
				b = frame(b, frameData, endStream, id, body)
				b = frame(b, frameReset, 0, id, []byte{0, 0, 0, 8})
				if len(b) > 16<<10 {
					if _, err := c.Write(b); err != nil {
						break
					}
					b = b[:0]
				}
				sent.Add(1)
			}
			c.caughtUp(t)
			cut.Add(c.frames[frameGoAway].Load())
			c.Close()
			<-c.over
		})
	})
	t.Logf("%d requests were reset, %d of %d connections were told to go", sent.Load(), cut.Load(), clients)
}

// TestStreamFlood opens requests that stay open, more than a connection may have.
func TestStreamFlood(t *testing.T) {
	f := serve(t, func(o *Options, _ *limits) { o.InFlight = 16 })
	const most = openCalls
	f.post(t, client(t, true), "acquire", `{"ownerId":"flood","ttlMs":60000,"requests":[{"path":"web:/flood/a"}]}`)
	wait := head(":method", "POST", ":scheme", "https", ":authority", "x", ":path", "/v1/acquireWait", "content-type",
		"application/json")
	body := []byte(`{"ownerId":"waits","ttlMs":1000,"requests":[{"path":"web:/flood/a"}]}`)
	c := h2Dial(t, f)
	waiting := func() bool {
		return strings.Contains(f.post(t, client(t, true), "describePath", `{"path":"web:/flood/a"}`).body,
			fmt.Sprintf(`"waitersTotal":"%d"`, most))
	}
	beside(t, f, 128<<20, func() {
		var b []byte
		for id := uint32(1); id < 2*2000; id += 2 {
			b = frame(b, frameHeaders, endHeaders, id, wait)
			b = frame(b, frameData, endStream, id, body)
		}
		_, _ = c.Write(b) // it may be hung up on meanwhile
		await(t, "as many as may wait do", waiting)
		await(t, "another one is refused", func() bool {
			return c.frames[frameReset].Load()+
				c.frames[frameGoAway].Load() > 0
		})
	})
	c.Close()
	<-c.over
	await(t, "nobody waits any more", func() bool {
		return strings.Contains(f.post(t, client(t, true), "describePath", `{"path":"web:/flood/a"}`).body,
			`"waitersTotal":"0"`)
	})
	f.post(t, client(t, true), "releaseAll", `{"ownerId":"flood"}`)
}

// TestSlowReaders asks and does not read the answers: a small one, one that waited,
// and a large one. Each is given up in time.
func TestSlowReaders(t *testing.T) {
	within := func(call time.Duration) *face {
		return serve(t, func(_ *Options, l *limits) { l.call, l.write = call, 100*time.Millisecond })
	}
	f, patient := within(400*time.Millisecond), within(time.Hour)
	var locks []string
	for i := range 100 {
		locks = append(locks, fmt.Sprintf(`{"path":"web:/readers/%060d"}`, i))
	}
	patient.post(t, client(t, true), "acquire", `{"ownerId":"readers","ttlMs":60000,"requests":[`+
		strings.Join(locks, ",")+`]}`)
	defer patient.post(t, client(t, true), "releaseAll", `{"ownerId":"readers"}`)
	for name, c := range map[string]struct {
		f         *face
		rpc, body string
	}{
		"small": {f, "health", `{}`}, // its time counts from the request
		// From the answer: nothing else would give them up.
		"waited": {patient, "acquireWait", `{"ownerId":"readers","ttlMs":60000,"requests":[{"path":"web:/readers/other"}]}`},
		"large":  {patient, "listOwnerLocks", `{"ownerId":"readers"}`},
	} {
		t.Run(name, func(t *testing.T) {
			conn := h2Dial(t, c.f)
			b := frame(nil, frameSettings, 0, 0, []byte{0, 4, 0, 0, 0, 0}) // SETTINGS_INITIAL_WINDOW_SIZE: 0
			b = frame(b, frameHeaders, endHeaders, 1, head(":method", "POST", ":scheme", "https", ":authority", "x",
				":path", "/v1/"+c.rpc))
			if _, err := conn.Write(frame(b, frameData, endStream, 1, []byte(c.body))); err != nil {
				t.Fatal(err)
			}
			await(t, "the request is given up", func() bool { return conn.frames[frameReset].Load() == 1 })
			if conn.frames[frameHeaders].Load() != 1 || conn.frames[frameData].Load() != 0 {
				t.Errorf("%d answers began, %d parts of them were sent", conn.frames[frameHeaders].Load(),
					conn.frames[frameData].Load())
			}
		})
	}
	// Over HTTP/1.1 the connection ends.
	conn := dial(t, f, "http/1.1")
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			if _, err := fmt.Fprintf(conn, "GET /v1/openapi.json HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
				return
			}
		}
	}()
	await(t, "the connection is closed", func() bool {
		select {
		case <-ended:
			return true
		default:
			return false
		}
	})
}

// TestLongHeaders: headers over the limit are refused with the envelope, over every
// version; those on it are taken.
func TestLongHeaders(t *testing.T) {
	overEach(t, nil, func(t *testing.T, f *face, c *http.Client) {
		want := `{"error":{"code":"RESOURCE_EXHAUSTED","message":"headers: are over 16384 bytes together, which is the most that is taken"}}`
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			got := f.send(t, c, method, "/v1/health", "", "X-Pad", strings.Repeat("x", MaxHeaderBytes))
			if got.StatusCode != http.StatusRequestHeaderFieldsTooLarge || strings.TrimSpace(got.body) != want {
				t.Errorf("%s: %d %s", method, got.StatusCode, got.body)
			}
		}
		if got := f.send(t, c, http.MethodGet, "/v1/health", "", "X-Pad",
			strings.Repeat("x", MaxHeaderBytes-1024)); got.StatusCode != http.StatusOK {
			t.Errorf("%d %s", got.StatusCode, got.body)
		}
	})
}
