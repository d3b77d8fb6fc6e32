//go:build !unix

package tcp

import "net"

// Waiting does not know whether a connection is there for a listener to take, so one is.
func Waiting(net.Listener) bool { return true }
