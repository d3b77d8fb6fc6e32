// Package backup keeps what a cluster's logs were at one index each, outside of any
// node: it writes a backup, says what is in one, and founds another cluster with it.
//
//	manifest.json    what was backed up, and the checksum of every file
//	log-0001.rows    the system log: a stream of rows (package rows), and its sum
//	log-0002.rows    the first log of groups; and so on
//
// Save is done by who reads the images from the nodes (cmd/cli), through a Writer.
// Verify and Restore need nothing but the directory: they make the states of the rows
// with the loader that nodes use, and hold them against each other, the manifest and
// the sums that the nodes made of what they had in memory.
package backup
