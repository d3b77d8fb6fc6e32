// Package mesh carries frames between the nodes' internal listeners (link_addr), on few
// connections that last: what is forwarded to the leader of a log, and what leaders tell.
//
//	m, err := mesh.New(mesh.Config{..., Frame: func(c *mesh.Conn, frame []byte) { ... }})
//	if c := m.Conn(host, addr); c != nil { sent = c.Send(frame) }
//	err = m.Close()
//
// # A connection
//
// A link.Door's, and frames. So who may connect, what is refused, how both ends hear of
// it and how many connections an address or a peer may have is what groups/link says.
// Here one rule is added: a dialed node must have the raft host id that it was dialed for.
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
// hears nothing for silence closes. A record must be taken by the peer within stall. Dials
// that fail, or come to a connection that ends at once, are minWait apart, doubling to
// maxWait.
//
// # Limits
//
// What is unsent on a connection is at most maxBacklogBytes: more ends it. What was read
// and not handed on is at most one frame. Peers that are dialed are at most maxPeers: a
// further one has no connection.
//
// # Faults
//
// Config.Faults, nil in production, decides about each frame and each dial. On a stream
// nothing can be lost or overtaken: a drop cuts the connection as Cut does, a delay holds
// what is behind it, signs of life too, and there are no copies. Nothing else is decided
// about: an idle connection lasts under any network fault.
package mesh
