// Package loop is the native server: it speaks the protocol of wire/PROTOCOL.md
// on TCP and Unix sockets and hands what clients ask to a wire.Handler.
//
// Connections are accepted by ordinary listeners, so that running out of file
// descriptors is a pause and no end, and then live on gnet's event loops, a few
// for the whole server. Everything about a connection (session.go) happens on its
// loop, one thing at a time, and needs no lock. Answers come from other
// goroutines: they are put into the loop's inbox (reactor.go), which is emptied on
// the loop, so that a burst of answers is one wake-up, and one write for each
// connection.
//
// Nothing a client sends can hold up a loop or grow memory without bound: frames,
// requests in flight, waits, subscriptions and bound owners are limited by
// numbers told at hello; frames that do not get finished and connections that say
// nothing are closed. A peer that does not read what it asked for is not read from:
// its connection leaves its loop (lane.go), and is closed when it takes nothing for
// too long.
package loop
