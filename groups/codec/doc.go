// Package codec has what entries of logs, rows and the frames between nodes are made of: numbers as varints, strings
// and bytes behind their length. It has no state, no goroutine and no lock, and knows none of the messages.
package codec
