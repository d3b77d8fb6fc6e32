// Package sim runs clusters of up to hundreds of nodes in one goroutine, to see how
// they get over growth, deaths, partitions and restarts. Time is counted and not
// measured, chance comes from a seed: a run is the same on every machine.
//
// What decides is the real thing: each simulated node has a place.Members and a
// place.Scheduler, lays logs out with place.Place, and carries out what place.Plan says,
// in rounds as groups does (node.go). What it decides upon is modelled:
//
//   - gossip (gossip.go): who is missed after how long by memberlist's settings, and how
//     long it takes the others to hear of it;
//   - raft (raft.go, change.go): elections by timeouts drawn as dragonboat draws them,
//     changes of members that take effect or do not, leaderships that are handed over;
//   - filling of replicas (fill.go): nodes have a bandwidth, which those who fill at a time
//     share, and a speed at which they load.
//
// What is checked (check.go): no step of ours takes a log's live majority; a node never
// changes more logs at once than it may; and when all is over voters and leaderships
// differ by at most one between nodes.
//
// Scenarios (scenario.go) let things happen to a cluster and report what came of it.
// Traffic (traffic.go) is what nodes say to each other, by formula.
package sim
