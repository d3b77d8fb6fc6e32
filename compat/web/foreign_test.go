package web

import (
	"context"
	"crypto/tls"
	"io"
	"net/http"
	"strings"
	"testing"
)

// TestForeignPages: what a browser asks for the page of another origin is refused,
// whatever the method, and whether it says Origin or only Sec-Fetch-Site. So is what it
// asks under a name that is none of the server's, which a page gets when its own name is
// made to lead here. Who says neither is not looked at.
func TestForeignPages(t *testing.T) {
	const page, other = "https://app.example", "https://evil.example"
	off := serve(t, func(o *Options, _ *limits) { o.Hosts = []string{"Locks.Example.org", "10.1.2.3"} })
	listed := serve(t, func(o *Options, _ *limits) { o.Origins = []string{page} })
	all := serve(t, func(o *Options, _ *limits) { o.Origins = []string{"*"} })
	held := serve(t, func(o *Options, _ *limits) { // by a function, as the daemon's are
		o.TLS = &tls.Config{MinVersion: tls.VersionTLS12,
			GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
				c := certificate
				c.Leaf = nil
				return &c, nil
			}}
	})
	port := off.addr[strings.LastIndexByte(off.addr, ':'):]
	const (
		post   = "POST /v1/incrFencingToken"
		health = "GET /v1/health"
		events = "GET /v1/events/sse?owner_id=foreign-a"
	)
	for _, c := range []struct {
		name    string
		f       *face
		what    string
		host    string // "": the address
		headers []string
		status  int
	}{
		{"no browser, any host", off, post, "evil.example", nil, 200},
		{"the page's own", off, post, "", []string{"Origin", off.url, "Sec-Fetch-Site", "same-origin"}, 200},
		{"the address bar", off, health, "", []string{"Sec-Fetch-Site", "none"}, 200},
		{"by http", off, post, "", []string{"Origin", "http://" + off.addr}, 403},
		{"a page's GET", off, health, "", []string{"Origin", page}, 403},
		{"a page's events", off, events, "", []string{"Origin", page}, 403},
		{"a page's HEAD", off, "HEAD /v1/health", "", []string{"Origin", page}, 403},
		{"a POST across sites", off, post, "", []string{"Sec-Fetch-Site", "cross-site"}, 403},
		{"a POST of a sister", off, post, "", []string{"Sec-Fetch-Site", "same-site"}, 403},
		{"a GET across sites", off, health, "", []string{"Sec-Fetch-Site", "cross-site"}, 403},
		{"events across sites", off, events, "", []string{"Sec-Fetch-Site", "cross-site"}, 403},
		{"a word to come", off, health, "", []string{"Sec-Fetch-Site", "near-site"}, 403},
		{"own origin, across sites", off, post, "", []string{"Origin", off.url, "Sec-Fetch-Site", "cross-site"}, 403},

		{"a listed page", listed, post, "", []string{"Origin", page, "Sec-Fetch-Site", "cross-site"}, 200},
		{"a listed page's GET", listed, health, "", []string{"Origin", page, "Sec-Fetch-Site", "cross-site"}, 200},
		{"another page's GET", listed, health, "", []string{"Origin", other, "Sec-Fetch-Site", "cross-site"}, 403},
		{"a page that does not say which", listed, health, "", []string{"Sec-Fetch-Site", "cross-site"}, 403},
		{"any page", all, post, "", []string{"Origin", other, "Sec-Fetch-Site", "cross-site"}, 200},
		{"any page that does not say which", all, health, "", []string{"Sec-Fetch-Site", "cross-site"}, 200},

		{"a rebound name", off, post, "evil.example" + port, []string{"Origin", "https://evil.example" + port}, 421},
		{"a rebound name's GET", off, health, "evil.example" + port, []string{"Sec-Fetch-Site", "same-origin"}, 421},
		{"a rebound name's events", off, events, "evil.example", []string{"Sec-Fetch-Site", "same-origin"}, 421},
		{"a rebound name, any page", all, health, "evil.example", []string{"Sec-Fetch-Site", "same-origin"}, 421},
		{"a rebound name, typed", off, health, "evil.example", []string{"Sec-Fetch-Site", "none"}, 421},
		{"another address", off, health, "10.1.2.4", []string{"Sec-Fetch-Site", "none"}, 421},
		{"localhost", off, health, "LOCALHOST" + port, []string{"Origin", "https://localhost" + port}, 200},
		{"localhost, absolute", off, health, "localhost.", []string{"Sec-Fetch-Site", "same-origin"}, 200},
		{"loopback", off, health, "127.0.0.1", []string{"Origin", "https://127.0.0.1"}, 200},
		{"loopback of IPv6", off, health, "[::1]" + port, []string{"Origin", "https://[::1]" + port}, 200},
		{"loopback of IPv6, no port", off, health, "[::1]", []string{"Sec-Fetch-Site", "same-origin"}, 200},
		{"a name of the certificate", off, health, "locks.test" + port, []string{"Sec-Fetch-Site", "same-origin"}, 200},
		{"below a name of the certificate", off, health, "a.locks.test", []string{"Sec-Fetch-Site", "same-origin"},
			421},
		{"one of many", off, health, "n7.nodes.test", []string{"Sec-Fetch-Site", "same-origin"}, 200},
		{"a name of the certificate in use", held, health, "locks.test", []string{"Sec-Fetch-Site", "same-origin"},
			200},
		{"no name of the certificate in use", held, health, "evil.example", []string{"Sec-Fetch-Site", "same-origin"},
			421},
		{"a configured name", off, health, "locks.example.ORG:443", []string{"Sec-Fetch-Site", "same-origin"}, 200},
		{"a configured address", off, health, "10.1.2.3", []string{"Origin", "https://10.1.2.3"}, 200},
	} {
		for _, h2 := range []bool{false, true} {
			t.Run(c.name, func(t *testing.T) {
				method, path, _ := strings.Cut(c.what, " ")
				ctx, cancel := context.WithCancel(within(t))
				defer cancel()
				req, err := http.NewRequestWithContext(ctx, method, c.f.url+path, http.NoBody)
				if err != nil {
					t.Fatal(err)
				}
				req.Host = c.host
				for i := 0; i < len(c.headers); i += 2 {
					req.Header.Set(c.headers[i], c.headers[i+1])
				}
				res, err := client(t, h2).Do(req)
				if err != nil {
					t.Fatal(err)
				}
				defer res.Body.Close()
				if res.StatusCode != c.status {
					t.Fatalf("answered %s, want %d", res.Status, c.status)
				}
				if c.status == 200 || method == http.MethodHead {
					return
				}
				body, err := io.ReadAll(res.Body)
				if err != nil {
					t.Fatal(err)
				}
				begins := map[int]string{403: "origin ", 421: "host "}[c.status]
				if !strings.HasPrefix(string(body), `{"error":{"code":"PERMISSION_DENIED","message":"`+begins) {
					t.Errorf("refused with %s", body)
				}
			})
		}
	}
}
