//go:build !linux

package tcp

import (
	"net"
	"time"
)

// ExpireUnacked is left to the deadlines of who uses the connection.
func ExpireUnacked(net.Conn, time.Duration) {}
