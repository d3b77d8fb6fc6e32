// Package gauge measures what bench/sim is told or computes by formula: what gossip
// sends and how soon it misses who died (gossip.go), what connections between nodes take
// of memory (links.go), and how many bytes a held lock is in a snapshot (snapshot.go).
// All nodes are in this process, on loopback.
package gauge
