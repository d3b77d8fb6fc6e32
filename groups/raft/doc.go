// Package raft is the seam to raft: all that a node asks of it. dragonboat is one implementation (groups/dragon); the
// simulation of the tests is another (groups/sim_raft_test.go), which is why nothing but groups/dragon may know how
// raft is done.
//
// What raft owes: entries that were applied by one replica are applied by all, in one order, and stay; a read index
// that was answered is at least that of every entry that was applied anywhere when it was asked for. What it does not
// owe, and nothing may rely on: that a proposal is taken, that it is taken in the order of proposing, that its answer
// comes, or says what became of it, that who was told to lead still does.
//
// It has no code, no goroutine and no lock of its own.
package raft
