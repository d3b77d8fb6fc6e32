package wire

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// CheckPath says what is wrong with a resource path, or nothing (contract.md
// section 2, row "path"). field names the request's field in the message.
//
// Beyond the contract's rules a path must be valid UTF-8: a proto3 string cannot
// carry anything else, so such a path could be locked natively and never be
// listed over gRPC.
func CheckPath(field, path string) *Error {
	if rule := checkPath(path); rule != "" {
		return Errorf(InvalidArgument, "%s %s: %s", field, Quote(path), rule)
	}
	return nil
}

// checkPath answers the broken rule, "" for a good path.
func checkPath(path string) string {
	if len(path) == 0 {
		return "must not be empty; example: tenant:/acme/projects/42"
	}
	if len(path) > MaxPathBytes {
		return fmt.Sprintf("is %d bytes long, at most %d are allowed", len(path), MaxPathBytes)
	}
	colon := strings.IndexByte(path, ':')
	switch {
	case colon < 0:
		return "needs a handler and a colon; example: tenant:/acme"
	case colon == 0:
		return "has an empty handler before the colon; example: tenant:/acme"
	case colon == len(path)-1 || path[colon+1] != '/':
		return "needs a slash right after the first colon; example: tenant:/acme"
	}
	ascii := true
	for i := 0; i < colon; i++ {
		switch c := path[i]; {
		case c == 0 || c == 0x1f:
			return "must not contain a NUL or 0x1F byte"
		case c == '/':
			return "has a slash in its handler, the part before the first colon"
		case c >= utf8.RuneSelf:
			ascii = false
		}
	}
	// One pass over the segments: start is where the current one begins.
	rest := path[colon+1:]
	start, segments := 1, 0
	for i := 1; i <= len(rest); i++ {
		if i < len(rest) {
			c := rest[i]
			if c == 0 || c == 0x1f {
				return "must not contain a NUL or 0x1F byte"
			}
			if c >= utf8.RuneSelf {
				ascii = false
			}
			if c != '/' {
				continue
			}
		}
		switch seg := rest[start:i]; {
		case len(seg) == 0 && len(rest) == 1:
			continue // the handler's root
		case len(seg) == 0 && i == len(rest):
			return "must not end with a slash"
		case len(seg) == 0:
			return "has an empty segment"
		case seg == "." || seg == "..":
			return `has a segment "` + seg + `"`
		}
		segments++
		start = i + 1
	}
	if segments > MaxPathSegments {
		return fmt.Sprintf("has %d segments, at most %d are allowed", segments, MaxPathSegments)
	}
	if !ascii && !utf8.ValidString(path) {
		return "is not valid UTF-8"
	}
	return ""
}

// CheckNamespace says what is wrong with a namespace: a path, or a bare handler
// (contract.md section 2, row "namespace").
func CheckNamespace(field, ns string) *Error {
	if strings.IndexByte(ns, ':') >= 0 {
		return CheckPath(field, ns)
	}
	rule := ""
	switch {
	case len(ns) == 0:
		rule = "must not be empty; example: tenant:/acme, or tenant for the whole handler"
	case len(ns) > MaxHandlerBytes:
		rule = fmt.Sprintf("is %d bytes long, a bare handler has at most %d", len(ns), MaxHandlerBytes)
	case strings.IndexByte(ns, '/') >= 0:
		rule = "has a slash but no colon; example: tenant:/acme"
	case strings.IndexByte(ns, 0) >= 0 || strings.IndexByte(ns, 0x1f) >= 0:
		rule = "must not contain a NUL or 0x1F byte"
	case !utf8.ValidString(ns):
		rule = "is not valid UTF-8"
	}
	if rule != "" {
		return Errorf(InvalidArgument, "%s %s: %s", field, Quote(ns), rule)
	}
	return nil
}

// PathHandler is the part of a valid path or namespace before its first colon.
func PathHandler(path string) string {
	if i := strings.IndexByte(path, ':'); i >= 0 {
		return path[:i]
	}
	return path
}

// Quote quotes client input for a message: escaped, and cut so that no message
// grows with its input.
func Quote(s string) string {
	const most = 96
	if len(s) <= most {
		return fmt.Sprintf("%q", s)
	}
	cut := most
	for cut > most-utf8.UTFMax && !utf8.RuneStart(s[cut]) {
		cut-- // not through the middle of a character
	}
	return fmt.Sprintf("%q…", s[:cut])
}

// IsHandler reports whether a domain is a handler and its colon, which stands for all its namespaces. A namespace of a
// path may end in a colon as well, which is a later one: h:/a:.
func IsHandler(domain string) bool {
	return domain != "" && strings.IndexByte(domain, ':') == len(domain)-1
}
