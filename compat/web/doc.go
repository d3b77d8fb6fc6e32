// Package web serves the pathlockd.v1 interface to whoever speaks HTTP: JSON over
// HTTP/1.1, 2 and 3, and event streams. It is a face of package compat's service,
// driven by the service's own description: there is a route for each of its unary
// RPCs and no code for any one of them.
//
// A request's way:
//
//	listener → ServeHTTP (routes.go: CORS, route, method, early data)
//	         → call (call.go: a turn of the connection, body, call, answer)
//	         → decode (json.go) → grpc.MethodDesc.Handler → append (plain.go)
//
// What goes wrong on it, wherever, is answered with one envelope (errors.go). What a
// client may make the server hold is bounded, and what is slowest gives way to what
// comes after it (watch.go).
package web
