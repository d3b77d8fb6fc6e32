//go:build !unix

package pathlockd

import "net"

// nonblocking has no answer here: a goroutine writes.
func nonblocking(net.Conn) func(b []byte) (n int, err error) { return nil }
