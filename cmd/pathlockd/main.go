// Pathlockd is a lock server: hierarchical path locks, replicated and durable.
// What it does is in package daemon; pathlockd --help tells how to run it.
package main

import (
	"os"

	"github.com/pathlockd/pathlockd/cmd/daemon"
)

func main() {
	os.Exit(daemon.Main(os.Args[1:], os.Environ(), os.Stdout, os.Stderr))
}
