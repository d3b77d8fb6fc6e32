package server

import (
	"fmt"
	mathrand "math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
)

// Ports for servers that are told where to listen before they do, and that come back to
// the same port after a while: in between nobody else may get it. The kernel gives
// connections theirs from a range that these are not from; and other processes, tests of
// other packages above all, take theirs in blocks, each of which belongs to the process
// that has the lock of its file.
const (
	lowestPort, highestPort = 10_000, 65_536 // the highest is none any more
	portsOfBlock            = 64
)

// ports is the blocks of this process.
var ports struct {
	sync.Mutex
	blocks []int // not tried yet, by their first ports
	next   int   // port of the block it has
	left   int   // ports of it
	locks  []*os.File
}

// FreeAddr answers an address that nobody listens on, another each time.
func FreeAddr() (string, error) {
	port, err := FreePorts(1)
	return fmt.Sprintf("127.0.0.1:%d", port), err
}

// FreePorts answers the first of so many ports in a row that nobody listens on, others
// each time. n is at most 64.
func FreePorts(n int) (first int, err error) {
	ports.Lock()
	defer ports.Unlock()
	for {
		for ports.left >= n {
			port := ports.next
			var free int
			if free, err = freeFrom(port, n); free == n {
				ports.next, ports.left = port+n, ports.left-n
				return port, nil
			}
			ports.next, ports.left = port+free+1, ports.left-free-1
		}
		if !nextBlock() {
			return 0, fmt.Errorf("find %d free ports in a row: all that this process may have were tried: %w", n, err)
		}
	}
}

// freeFrom is on how many of so many ports from one on nobody listens, up to the first on
// which somebody does.
func freeFrom(port, n int) (free int, err error) {
	for ; free < n; free++ {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port+free))
		if err != nil {
			return free, err
		}
		_ = l.Close()
	}
	return free, nil
}

// nextBlock takes a block that no other process has, for as long as this one lives. The
// caller holds the lock.
func nextBlock() bool {
	if ports.blocks == nil {
		ports.blocks = []int{}
		low, high := connectionPorts()
		for b := lowestPort; b+portsOfBlock <= highestPort; b += portsOfBlock {
			if b+portsOfBlock <= low || b > high {
				ports.blocks = append(ports.blocks, b)
			}
		}
		mathrand.Shuffle(len(ports.blocks), func(i, k int) {
			ports.blocks[i], ports.blocks[k] = ports.blocks[k],
				ports.blocks[i]
		})
	}
	for len(ports.blocks) > 0 {
		b := ports.blocks[0]
		ports.blocks = ports.blocks[1:]
		if f, ok := lockBlock(b); ok {
			ports.locks = append(ports.locks, f)
			ports.next, ports.left = b, portsOfBlock
			return true
		}
	}
	return false
}

// lockBlock takes the lock of a block. It is held until the process ends.
func lockBlock(block int) (*os.File, bool) {
	dir := filepath.Join(os.TempDir(), "pathlockd-ports")
	if err := os.Mkdir(dir, 0o777); err == nil {
		_ = os.Chmod(dir, 0o1777) // other users' tests take theirs there too
	}
	f, err := os.OpenFile(filepath.Join(dir, fmt.Sprint(block)), os.O_RDONLY|os.O_CREATE, 0o666)
	if err != nil {
		return nil, false
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, false
	}
	return f, true
}

// connectionPorts is the range of ports that the kernel gives to connections, both ends
// in it. If that leaves too little, or is not known, it is what most systems have.
func connectionPorts() (low, high int) {
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err == nil {
		_, err = fmt.Sscan(string(text), &low, &high)
	}
	if err != nil || low-lowestPort < 2000 && highestPort-high < 2000 {
		return 32_768, 60_999
	}
	return low, high
}
