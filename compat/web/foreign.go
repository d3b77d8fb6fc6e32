package web

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
)

// What browsers say of the page that asks: which origin it is of (Origin), and whether
// that is the one it asks of (Sec-Fetch-Site, W3C Fetch Metadata). No page can take
// these headers off or set the second, and what else calls sends neither.

// fromPage says that a request is one that a page has a browser send.
func fromPage(r *http.Request) bool {
	return len(r.Header["Origin"]) > 0 || len(r.Header["Sec-Fetch-Site"]) > 0
}

// foreign refuses a request of a page of another origin, unless that is allowed. Its
// browser would carry out what does not depend on the answer, and only keep the answer
// from the page.
func (o *origins) foreign(r *http.Request) error {
	origin := r.Header.Get("Origin")
	switch {
	case o.any, origin != "" && slices.Contains(o.listed, strings.ToLower(origin)):
		return nil
	case origin != "" && !sameOrigin(origin, r.Host):
		return errForeign(origin)
	}
	for _, site := range r.Header["Sec-Fetch-Site"] {
		if site != "same-origin" && site != "none" { // none: somebody typed it
			return errForeign("of a page elsewhere (Sec-Fetch-Site: " + site + ")")
		}
	}
	return nil
}

func errForeign(origin string) error {
	return &refusal{
		code: codes.PermissionDenied,
		why: fmt.Sprintf("origin %s: its pages may not call this server; web_cors_origins lists whose may",
			short(origin)),
	}
}

// names is what this server is called by. A page whose own name is made to lead here
// (DNS rebinding) is of the server's origin, as its browser sees it; but it must call
// the server by that name.
type names struct {
	listed []string // lower case
	tls    *tls.Config
}

func newNames(hosts []string, conf *tls.Config) names {
	n := names{[]string{"localhost", "127.0.0.1", "::1"}, conf}
	for _, h := range hosts {
		n.listed = append(n.listed, nameOf(h))
	}
	return n
}

// nameOf is a host without port, brackets and the dot of absolute names.
func nameOf(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// check refuses a request of a page by a name that is none of the server's.
func (n *names) check(r *http.Request) error {
	if name := nameOf(r.Host); slices.Contains(n.listed, name) || n.certified(name) {
		return nil
	}
	return &refusal{
		status: http.StatusMisdirectedRequest, code: codes.PermissionDenied,
		why: fmt.Sprintf("host %s: pages may call this server by the names of its certificate, of public_addr and "+
			"of loopback, and this is none of them", short(r.Host)),
	}
}

// certified says that the certificate that is shown to who asks for name is for it.
func (n *names) certified(name string) bool {
	if n.tls == nil || name == "" {
		return false
	}
	shown := n.tls.Certificates
	if get := n.tls.GetCertificate; get != nil {
		if c, err := get(&tls.ClientHelloInfo{ServerName: name}); err == nil && c != nil {
			shown = []tls.Certificate{*c}
		}
	}
	for i := range shown {
		leaf := shown[i].Leaf
		if leaf == nil && len(shown[i].Certificate) > 0 {
			leaf, _ = x509.ParseCertificate(shown[i].Certificate[0])
		}
		if leaf != nil && leaf.VerifyHostname(name) == nil {
			return true
		}
	}
	return false
}
