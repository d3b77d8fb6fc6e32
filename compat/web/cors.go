package web

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// origins says which web pages may call. Browsers tell where a page comes from
// (Origin) and only ask further when the answer allows that origin (CORS).
type origins struct {
	any    bool
	listed []string // lower case
}

// parseOrigins reads web_cors_origins.
func parseOrigins(list []string) (o origins, err error) {
	for _, s := range list {
		s = strings.ToLower(strings.TrimSpace(s))
		if s == "*" {
			o.any = true
		} else if u, err := url.Parse(s); err != nil || u.Scheme == "" || u.Host == "" || s != u.Scheme+"://"+u.Host {
			return o, fmt.Errorf("web_cors_origins: %q: must be scheme://host or scheme://host:port, or * alone", s)
		}
		o.listed = append(o.listed, s)
	}
	if o.any && len(o.listed) > 1 {
		return o, fmt.Errorf("web_cors_origins: * allows every origin: leave the others out")
	}
	return o, nil
}

// What a page may do, and for how long its browser may remember that, s.
var (
	anyOrigin      = []string{"*"}
	varyOrigin     = []string{"Origin"}
	allowedHeaders = []string{"Accept, Content-Type, Last-Event-ID"}
	rememberFor    = []string{"7200"}
)

// check sets the headers that let an allowed page read the answer. It answers OPTIONS
// itself, and refuses what other pages ask.
func (o *origins) check(w http.ResponseWriter, r *http.Request, rt *route) (done bool, err error) {
	h := w.Header()
	if !o.any {
		h["Vary"] = varyOrigin
	}
	origin := r.Header.Get("Origin")
	if origin != "" {
		switch {
		case o.any:
			h["Access-Control-Allow-Origin"] = anyOrigin
		case slices.Contains(o.listed, strings.ToLower(origin)):
			h["Access-Control-Allow-Origin"] = []string{origin}
		}
	}
	if err := o.foreign(r); err != nil {
		return false, err
	}
	asks := origin != "" && r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != ""
	if asks && rt != nil && (o.any || slices.Contains(o.listed, strings.ToLower(origin))) {
		h["Access-Control-Allow-Methods"] = rt.allow
		h["Access-Control-Allow-Headers"] = allowedHeaders
		h["Access-Control-Max-Age"] = rememberFor
		w.WriteHeader(http.StatusNoContent)
		return true, nil
	}
	return false, nil
}

// sameOrigin says whether a page came from this server, which is served over TLS alone.
func sameOrigin(origin, host string) bool {
	u, err := url.Parse(origin)
	return err == nil && u.Scheme == "https" && strings.EqualFold(u.Host, host)
}
