package daemon

import "syscall"

// Each connection of a client takes a file descriptor, and so do the store, the raft log and
// the connections to other nodes: a node that runs out of them cannot write any more, and
// fails. So the listeners share what those leave, and no client can have what is not its
// listener's. QUIC takes none: all of its connections have one socket.

const (
	// ownFiles is how many descriptors are left to the node itself, if there are twice as
	// many: the store keeps up to 512 tables open (groups/replica/store.go).
	ownFiles = 1024
	// mostGRPC and mostWeb bound their listeners' connections however many descriptors there
	// are; one in gRPCShare and in webShare of those that clients may have are theirs.
	mostGRPC, gRPCShare = 16_384, 4
	mostWeb, webShare   = 8192, 8
	// mostFiles is as many as are counted on, and fewFiles are if nobody can tell.
	mostFiles, fewFiles = 1 << 20, 1024
)

// openFiles is how many files the process may have open.
func openFiles() int {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		return fewFiles
	}
	return int(min(l.Cur, mostFiles))
}

// shares is how many connections each listener may have.
type shares struct{ native, grpc, web int }

// shares divides descriptors between the listeners that there are.
func (c *Config) shares(files int) (s shares) {
	left := files - min(ownFiles, files/2)
	if c.Listen != "" {
		s.grpc = max(min(mostGRPC, left/gRPCShare), 1)
	}
	if c.WebListen != "" {
		s.web = max(min(mostWeb, left/webShare), 1)
	}
	s.native = max(left-s.grpc-s.web, 1)
	return s
}
