package main

import "fmt"

// budget is one line of the report: something that is measured, and what it may
// cost. One without a limit is a figure that is told and not judged.
type budget struct {
	name    string
	unit    string // of value and limit
	digits  int    // after the point
	most    float64
	least   float64
	measure func(*suite) (outcome, error)
}

// figure says that the line is not judged.
func (b *budget) figure() bool { return b.most == 0 && b.least == 0 }

// met says that a value keeps to the budget.
func (b *budget) met(value float64) bool {
	return b.figure() || b.most != 0 && value <= b.most || b.least != 0 && value >= b.least
}

// show writes a value of the budget's.
func (b *budget) show(value float64) string { return fmt.Sprintf("%.*f %s", b.digits, value, b.unit) }

// rule writes the limit.
func (b *budget) rule() string {
	switch {
	case b.figure():
		return ""
	case b.most != 0:
		return fmt.Sprintf("<= %g %s", b.most, b.unit)
	}
	return fmt.Sprintf(">= %g %s", b.least, b.unit)
}

// budgets is the table of docs/benchmarks.md, in the order in which they are
// measured: those that share a state stand together.
var budgets = []budget{
	{name: "network", unit: "frames/s", measure: (*suite).network},
	{name: "pairs-1-log", unit: "% of C", digits: 1, least: 35,
		measure: func(s *suite) (outcome, error) { return s.pairsOfC(1) }},
	{name: "pairs-16-logs", unit: "% of C", digits: 1, least: 45,
		measure: func(s *suite) (outcome, error) { return s.pairsOfC(16) }},
	{name: "one-client", unit: "of Y/2", digits: 2, least: 0.6, measure: (*suite).oneClient},
	{name: "hot-mutex", unit: "of Y", digits: 2, least: 0.5, measure: (*suite).hotMutex},
	{name: "long-queue", unit: "hand-overs/s", measure: (*suite).longQueue},
	{name: "engine-heap-per-lock", unit: "B", most: 400, measure: (*suite).engineHeap},
	{name: "apply", unit: "us", digits: 2, most: 3, measure: (*suite).apply},
	{name: "apply-allocs", unit: "allocs", digits: 1, most: 12, measure: (*suite).applyAllocs},
	{name: "apply-snapshot", unit: "us", digits: 2, most: 8, measure: (*suite).applySnapshot},
	{name: "write-above-locks", unit: "x", digits: 2, most: 1.3, measure: (*suite).writeAbove},
	{name: "write-above-locks-queue", unit: "x", digits: 2, most: 1.3, measure: (*suite).writeAboveQueue},
	{name: "write-with-queue", unit: "x", digits: 2, most: 1.3, measure: (*suite).writeWithQueue},
	{name: "handover-waiters", unit: "x", digits: 2, most: 1.5, measure: (*suite).handover},
	{name: "heap-per-lock", unit: "B", most: 400, measure: (*suite).serverHeap},
	{name: "idle-connection", unit: "KiB", digits: 2, most: 10, measure: (*suite).idleConnections},
	{name: "start", unit: "s", digits: 2, most: 5, measure: (*suite).restart},
	{name: "idle-node", unit: "% of a core", digits: 2, most: 2, measure: (*suite).idleNode},
}
