// Package dragon is raft as dragonboat does it: the one implementation of groups/raft that a node runs on.
//
// Read config.go first (Start, and how a log is run), then host.go (the seam, method by method), transport.go (messages
// to this node's own raft), registry.go (which node has which replica, and where nodes are), disk.go (the file system
// of the logs), hostname.go and messages.go.
//
// Its goroutines are dragonboat's own. A Host's closing lock is held for reading while dragonboat is asked for
// something by who the node does not wait for when it ends (proposals, reads, members), and is taken before
// dragonboat's; the Registry has a lock of its own, under which nothing is called.
package dragon
