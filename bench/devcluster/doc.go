// Command devcluster runs a cluster on this machine, with clients that work on it and a view
// of what happens:
//
//	go run ./bench/devcluster --nodes 3
//
// Each node is a real pathlockd with a directory of its own. They stay when the command
// ends, and it goes on with them when it is started again.
package main
