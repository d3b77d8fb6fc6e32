// Package daemon is pathlockd as a process: its configuration, and how it is
// assembled, run and drained. cmd/pathlockd is a thin main over it; tests start
// daemons in their own process with Start.
//
// One table of keys (keys.go) drives the configuration file, the environment, the
// flags, --help and docs/configuration.md. A new key is one row and one field of
// Config. A key whose subsystem is not in this build yet says so in its row: who
// sets it is told at the start, and nobody believes that it works.
//
// The way of a start: load (load.go) → check (check.go) → Start (start.go): lock
// data_dir, open the node, serve the native protocol → ready. The way out is
// Daemon.Close (drain.go).
package daemon

//go:generate sh -c "go run ../pathlockd --print-config-reference > ../../docs/configuration.md"
