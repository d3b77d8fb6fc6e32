// Bench measures pathlockd on the machine at hand: the budgets of
// docs/benchmarks.md against ceilings of the same run, and single workloads.
//
//	bench budgets [--only REGEXP] [--json] [--short]
//	bench cluster [--only REGEXP] [--json] [--short]
//	bench run --workload pairs --conns 64 --inflight 256 --logs 16
//
// What is measured runs in processes of its own, so that the load's garbage is not
// collected on the server's time nor counted as its memory. For throughput and
// memory that is bench itself, serving what cmd/pathlockd serves (serve.go); only
// so can it serve the ceilings in the same way. Start and idling are pathlockd's
// own.
package main
