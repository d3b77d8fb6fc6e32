package web

import (
	"strings"
	"testing"
)

func TestCORS(t *testing.T) {
	const page, other = "https://app.example", "https://evil.example"
	off := serve(t, nil)
	listed := serve(t, func(o *Options, _ *limits) {
		o.Origins = []string{"http://localhost:3000",
			"HTTPS://app.example"}
	})
	all := serve(t, func(o *Options, _ *limits) { o.Origins = []string{"*"} })
	ask := []string{"Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "content-type"}
	type expect struct {
		status  int
		allowed string // Access-Control-Allow-Origin
		methods string
		vary    string
	}
	for _, c := range []struct {
		name    string
		f       *face
		method  string
		path    string
		headers []string
		want    expect
	}{
		{"off, no page", off, "POST", "/v1/incrFencingToken", nil, expect{200, "", "", ""}},
		{"off, own page", off, "POST", "/v1/incrFencingToken", []string{"Origin", off.url},
			expect{200, "", "", "Origin"}},
		{"off, a page's GET", off, "GET", "/v1/health", []string{"Origin", page}, expect{403, "", "", "Origin"}},
		{"off, a page's POST", off, "POST", "/v1/incrFencingToken", []string{"Origin", page},
			expect{403, "", "", "Origin"}},
		{"off, a page of nowhere", off, "POST", "/v1/incrFencingToken", []string{"Origin", "null"},
			expect{403, "", "", "Origin"}},
		{"off, preflight", off, "OPTIONS", "/v1/acquire", append(ask, "Origin", page), expect{403, "", "", "Origin"}},
		{"listed, no page", listed, "POST", "/v1/incrFencingToken", nil, expect{200, "", "", "Origin"}},
		{"listed, a page's POST", listed, "POST", "/v1/incrFencingToken", []string{"Origin", page},
			expect{200, page, "", "Origin"}},
		{"listed, a page's error", listed, "POST", "/v1/acquire", []string{"Origin", page},
			expect{400, page, "", "Origin"}},
		{"listed, a page's wrong route", listed, "POST", "/v1/nothing", []string{"Origin", page},
			expect{404, page, "", "Origin"}},
		{"listed, another page's POST", listed, "POST", "/v1/incrFencingToken", []string{"Origin", other},
			expect{403, "", "", "Origin"}},
		{"listed, another port", listed, "POST", "/v1/incrFencingToken", []string{"Origin", "http://localhost:3001"},
			expect{403, "", "", "Origin"}},
		{"listed, preflight", listed, "OPTIONS", "/v1/acquire", append(ask, "Origin", page),
			expect{204, page, "POST", "Origin"}},
		{"listed, preflight of health", listed, "OPTIONS", "/v1/health", append(ask, "Origin", page),
			expect{204, page, "GET, HEAD, POST", "Origin"}},
		{"listed, preflight of nothing", listed, "OPTIONS", "/v1/nothing", append(ask, "Origin", page),
			expect{404, page, "", "Origin"}},
		{"listed, another page's preflight", listed, "OPTIONS", "/v1/acquire", append(ask, "Origin", other),
			expect{403, "", "", "Origin"}},
		{"all, a page's POST", all, "POST", "/v1/incrFencingToken", []string{"Origin", other},
			expect{200, "*", "", ""}},
		{"all, preflight", all, "OPTIONS", "/v1/acquire", append(ask, "Origin", other), expect{204, "*", "POST", ""}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := c.f.send(t, client(t, true), c.method, c.path, "", c.headers...)
			h := got.Header
			if is := (expect{got.StatusCode, h.Get("Access-Control-Allow-Origin"),
				h.Get("Access-Control-Allow-Methods"), h.Get("Vary")}); is != c.want {
				t.Errorf("got %+v, want %+v: %s", is, c.want, got.body)
			}
			if c.want.status == 403 && !strings.HasPrefix(got.body,
				`{"error":{"code":"PERMISSION_DENIED","message":"origin `) {
				t.Errorf("refused with %s", got.body)
			}
			if c.want.status == 204 &&
				(h.Get("Access-Control-Allow-Headers") != "Accept, Content-Type, Last-Event-ID" ||
					h.Get("Access-Control-Max-Age") != "7200" || got.body != "") {
				t.Errorf("preflight: %v %q", h, got.body)
			}
		})
	}
}

func TestBadOrigins(t *testing.T) {
	for _, origins := range [][]string{{"app.example"}, {"https://app.example/"}, {"https://app.example/page"},
		{"*", "https://a.example"}, {"https://"}, {"null"}, {""}} {
		if _, err := New(Options{Origins: origins, Log: quiet}); err == nil ||
			!strings.HasPrefix(err.Error(), "web_cors_origins: ") {
			t.Errorf("%q: %v", origins, err)
		}
	}
}
