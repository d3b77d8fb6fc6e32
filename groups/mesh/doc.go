// Package mesh carries frames between the nodes' internal listeners (link_addr), on few
// connections that last: what is forwarded to the leader of a log, and what leaders tell.
//
//	m, err := mesh.New(mesh.Config{..., Frame: func(c *mesh.Conn, frame []byte) { ... }})
//	if c := m.Conn(host, addr); c != nil { sent = c.Send(frame) }
//	err = m.Close()
//
// # A connection
//
// TCP, TLS 1.3, the hellos of groups/link, frames. Who may connect, what is refused and
// how both ends hear of it is as there: the same keys or certificates, the same rules,
// the same limits. The protocol has another name in TLS, so that a raft link and a mesh
// that reach each other by mistake end in the handshake.
//
// A node dials one connection to each peer that it needs, and everything that it has for
// that peer goes over it, in order. Answers go back on the connection that the question
// came on. Frames of two connections have no order.
//
// # Frames
//
// A length (uint32, big-endian) and that many bytes, at most MaxFrameBytes. A length with
// the highest bit is mesh's own: without bytes it says that its sender lives, with bytes
// it is the last frame and they say why.
//
// # Goroutines
//
// Each connection has one that reads and calls Opened, Frame and Closed, and one that
// writes. Send only appends to what the writer takes, a TLS record at a time, so that
// what is sent while a record is being written shares the next. The goroutine that reads
// a dialed connection also dialed it, and dials again while somebody asks.
//
// # Time
//
// Each end says every aliveEvery that it lives if it has nothing else to say; an end that
// hears nothing for silence closes. A record must be taken by the peer within stall. A
// dial has dialTimeout in all, and failed ones are minWait apart, doubling to maxWait.
//
// # Limits
//
// What is unsent on a connection is at most MaxBacklogBytes: more ends it. What was read
// is at most one frame. Connections that have not said hello, and those that have, are
// limited for each address, for each peer and in all (gate.go); peers that are dialed are
// at most maxPeers.
//
// # Faults
//
// Config.Faults, nil in production, decides about each frame and each dial, as in
// groups/link. On a stream nothing can be dropped or overtaken: a drop cuts the
// connection, a delay holds what is behind it, there are no copies.
package mesh
