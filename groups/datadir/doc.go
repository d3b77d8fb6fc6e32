// Package datadir is what stands in a node's data directory but for what it replicates: who the node is, what its
// cluster was founded with, which replicas it hosts, who the others were, and which format may be in it.
//
// Read identity.go first, then birth.go (how an empty directory gets an identity: Open), parts.go (whose the raft logs
// and the state are), settings.go, peers.go and formats.go; files.go has what is asked of the file system.
//
// No goroutine runs in it and it takes no lock. The node guards what changes of an Identity, and the Peers; Formats is
// read at any time.
package datadir
