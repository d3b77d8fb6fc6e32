// Package lab is the fault laboratory: clients do what a seed tells them to a cluster to
// which the seed does its worst, everything is written down, and the history is held
// against the promises (package check).
//
// A run is a row of episodes. Each has namespaces of its own. In each, clients take turns
// while faults strike; then all is healed, clients end what they began, every path is looked
// at, replicas are compared, and the episode's history is judged. Nodes may come and go for
// good meanwhile, and one cluster may take the place of another, founded with a backup.
package lab
