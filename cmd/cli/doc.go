// Package cli is pathlock, the command line for people and scripts. cmd/pathlock is
// a thin main over it; tests call the same commands in their own process.
//
// One command is one file and one function that makes its cobra.Command. The way of
// a call: Main (main.go) → flags and arguments, checked before anything is sent
// (arguments.go, values.go) → a client (connect.go) → the command → its answer, for
// people or as one JSON envelope (output.go), or its failure, which knows its exit
// code and what to do about it (failure.go). docs/cli.md is made from the commands
// (reference.go).
package cli

//go:generate sh -c "go run ../pathlock reference > ../../docs/cli.md"
