// Package compat serves the pathlockd.v1 interface: gRPC, and the same operations as
// JSON and event streams over HTTP/1.1, 2 and 3. It is a face: it converts, calls the
// wire.Handler that the native server calls, and converts back. No lock rule lives
// here.
package compat

//go:generate go run ./proto/gen proto .
