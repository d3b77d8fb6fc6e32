// Package gossip knows who is in the cluster. Nodes gossip (SWIM, by memberlist):
// each tells the others a short record of itself, watches some of them in turn, and
// hears of the rest.
//
//	m, err := gossip.Start(gossip.Config{...})   // after the identity is known
//	cancel := m.Watch(func() { ... m.Members() ... })
//	err = m.Update(func(r *gossip.Record) { r.State = gossip.Member })
//	err = m.Leave(ctx); err = m.Close()
//
// What is told here is a sighting, not an agreement: two nodes may see different
// members at the same time. Who is in a log is decided in that log.
//
// # Birth
//
// A node with an empty disk does not know its cluster. It asks its seeds with Probe,
// which makes it a member of nothing, and lets ClusterOf decide: a cluster answers,
// so the node takes over its id and settings and starts as Joining; none does, so it
// asks again, or founds one when it was told to. So no node ever gossips without
// a cluster id, and two clusters cannot be joined by a node that belongs to neither.
//
// Probe is memberlist's own push and pull of state, asked by a node that says that it
// is only asking and that refuses everybody it hears of. The node that is asked
// answers before it looks at who asks, then finds that it must not take the asker in.
// User messages would have needed a way back to an asker that listens nowhere; a
// listener for probes alone would have been one more protocol and one more port.
//
// # Names
//
// To memberlist a node is another one after each start: its name is the node id and a
// tag of (host id, incarnation). So a node that returns under another address clashes
// with nobody, and its former self is not waited for until it is found dead. Which of
// several processes speaks for a node id is decided here (table.go): the highest
// incarnation of a host id does; another host id is refused while the first is alive,
// and takes its place when it is gone, as a node does whose disk was replaced.
//
// # Refusals
//
// Records of another cluster, of a node id that is in use, of formats that do not
// overlap and of an incarnation that was superseded are not taken over, wherever they
// come from, and the node that they are about is told so (fault.go). It keeps
// trying, and Fault says what keeps it out.
//
// # Time
//
// No wall clock matters. What is told of time is how long something has been so, by
// this node's monotonic clock.
//
// # TLS
//
// Where the operator's certificates are there, all of it goes over mutual TLS and TCP
// alone: each exchange over a connection, packets over one to each peer that stays a
// while (secure.go, lane.go).
//
// # Limits
//
// Whoever has no key can cost a node at most maxStreams connections and
// maxUnread bytes (transport.go), and who has a certificate and no token maxLanes
// connections with a packet each. Records are at most maxRecordBytes long, the table
// holds maxMembers.
package gossip
