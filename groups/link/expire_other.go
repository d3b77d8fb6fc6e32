//go:build !linux

package link

import (
	"net"
	"time"
)

// expire is left to the deadlines of who uses the connection.
func expire(net.Conn, time.Duration) {}
