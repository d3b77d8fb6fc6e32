// Package status is the cluster as one node knows it, told to operators: a Survey, the document that is made of it,
// what is wrong and what to do about it, and what operators may ask of which node.
//
// Read status.go first (what is known and how it is told), then verdict.go (what is wrong) and checks.go (what may be
// asked). All of it is made from a Survey alone: nothing is looked up, no goroutine runs and no lock is taken.
package status
