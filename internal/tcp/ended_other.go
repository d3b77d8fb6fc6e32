//go:build !linux

package tcp

import "net"

// Ended does not know: who reads the connection notices its end.
func Ended(net.Conn) bool { return false }
