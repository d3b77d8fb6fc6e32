// Package link is how nodes talk to each other: dragonboat's transport and the port for
// requests, with every connection authenticated, encrypted and known by node.
//
//	l, err := link.New(link.Config{Cluster: ..., Node: ..., Host: ..., Token: token})
//	hostConfig.Expert.TransportFactory = l     // dragonboat creates, starts and closes it
//	door, err := l.OpenDoor(linkAddr, serve)   // serve(*link.Conn) for each that comes in
//	conn, err := door.Dial(ctx, nodeID, addr)  // a *link.Conn, which is a net.Conn
//
// # A connection
//
// TCP, TLS 1.3, one hello each way. Behind a door it is the caller's then. At raft's port
// frames follow: the end that dialed sends, the other one listens; what the listener says
// after its hello is only that it lives. Messages and snapshots have connections of their
// own, as dragonboat asks for them. Making one anew is dragonboat's business: it asks for
// another when sending failed, at least 0.25 and at most 1.5 s later.
//
// # Who may connect
//
// Both ends hold an Ed25519 key that is derived from internal_auth_token (tls.go) and
// prove it in the handshake. Nothing is sent to, and nothing read from, a peer that
// does not. With the operator's own certificates (Config.TLS) both ends must show one
// that the other's pool verifies, and then prove the token in their hellos, bound to the
// handshake. With neither there are no peers: nothing listens, and every dial fails with
// errAlone.
//
// Whoever reaches the port is shown the public key, which a guess of the token can be
// tried against at leisure. So the token must be random, and not a phrase.
//
// # Hello
//
// Cluster id, node id, raft host id, versions of the protocol, formats of what nodes
// share, and what the connection is for (hello.go). Each end judges the other; a refusal
// is told to the peer before the connection is closed, so that both logs say it.
//
// # Time
//
// Handshake and hello share handshakeTimeout. At raft's port the listener says every
// aliveEvery that it lives and the dialer answers; an end that hears nothing for silence
// closes. A piece of a frame must be written, or read, within stall. So a peer that
// vanished, hangs or does not read costs a connection for seconds, and no other peer
// anything: each has a connection and a sender of its own.
//
// # Limits
//
// Frames are at most maxBatchBytes or maxChunkBytes long; frames above keptBytes, each
// way, come out of one budget for the node (budget.go) and wait for it. Connections that
// have not said hello are limited in all and for each address, those that have for the
// port and for each peer; one too many is closed.
//
// # Faults
//
// Config.Faults, nil in production, decides what happens to each thing sent
// (faults.go). NetworkFaults is one: rules for pairs of nodes, which may be changed at any
// time, and luck that a seed repeats.
package link
