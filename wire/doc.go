// Package wire is the vocabulary that every part of pathlockd speaks: the
// operations and their numbers, the results, reasons and error codes, the
// limits on what a client may send, the rules a path must keep, and the codec of
// the native protocol.
//
// The protocol itself is specified in PROTOCOL.md beside this file; the numbers
// and rules come from the public pathlockd.v1 contract and never change meaning.
//
// Decoding never copies: strings and byte slices of a decoded Request alias the
// buffer it was decoded from, and stay valid for as long as that buffer is
// neither written nor reused. Encoding appends to a slice the caller owns.
//
// wire imports nothing else of this module.
package wire
