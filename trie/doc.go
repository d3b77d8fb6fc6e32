// Package trie is the one data structure everything in pathlockd is kept in: a
// byte-wise radix tree whose nodes know what lies below them, and that can be
// frozen at any moment at no cost.
//
// # Shape
//
// Keys are strings of any bytes, in byte order. Paths without a branch are
// compressed into a node's prefix. Inner nodes come in six sizes (4 to 256
// children) and are one allocation each, children included, so that a step down
// is one or two cache lines; a leaf is one allocation with its value inside.
// Wide directories make a tree deeper by a level or two and never make a node
// wider than 256.
//
// # Summaries
//
// Each leaf belongs to a Class and may carry a rank. An inner node holds, for
// all leaves below it, how many there are of each class, the lowest and the
// highest rank, and the highest modification mark. So the questions the engine
// asks ("does anybody hold anything below this path?", "which request below it
// arrived first?", "what changed since the last checkpoint?") are answered from
// the walk to the path, whatever lies below.
//
// # Snapshots
//
// Copy-on-write is lazy. A Writer has a generation, every node the generation it
// was made in; a node of the current generation belongs to the writer alone and
// is changed in place, an older one is copied first, once. Freezing is adding one
// to the generation: whoever copied the Tree value before that has a snapshot
// that never changes, which any number of goroutines may read without a lock.
// While nobody freezes, nothing is copied.
//
// A Tree has one writer at a time. Trees that are frozen together share a Writer.
package trie
