// Pathlock takes and looks at locks held by a pathlockd server. What it does is in
// package cli; pathlock --help tells how to use it.
package main

import (
	"os"

	"github.com/pathlockd/pathlockd/cmd/cli"
)

func main() {
	os.Exit(cli.Main(os.Args[1:], os.Environ(), os.Stdin, os.Stdout, os.Stderr))
}
