package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/pathlockd/pathlockd/internal/testkit/server"
)

// clusterSettings are those of every node: one and three alike. The windows are short, so
// that replicas are in place soon and return soon; an idle node does a little more for it.
var clusterSettings = []string{
	"log_count = 16", "group_count = 256", "max_inflight_per_group = 65536", "stability_window_secs = 2",
	"leader_balance_interval_secs = 5",
}

// clusterParts are the parts of the comparison, in the order in which they are measured.
const (
	partIdle     = "idle"
	partPairs    = "pairs"
	partHot      = "hot-mutex"
	partFailover = "failover"
)

// clusterBench is one comparison of three nodes with one.
type clusterBench struct {
	suite
	shapes     []shape
	rounds     int // of fail-over
	one, three *server.Cluster
	mutexes    int // used so far
	report     *clusterReport
}

// clusterReport is what it found.
type clusterReport struct {
	Build    string       `json:"build"`
	Machine  machineFacts `json:"machine"`
	Command  string       `json:"command"`
	Date     time.Time    `json:"date"`
	Short    bool         `json:"short,omitempty"`
	Rows     []clusterRow `json:"rows"`
	Detours  []detour     `json:"forwarded_against_direct"`
	Failover *failover    `json:"failover,omitempty"`
	Idle     *idleNodes   `json:"idle,omitempty"`
}

func (r *clusterReport) text() string {
	var b strings.Builder
	if len(r.Rows) > 0 {
		b.WriteString(clusterRowHead)
	}
	for _, row := range r.Rows {
		b.WriteString(row.text())
	}
	for _, d := range r.Detours {
		b.WriteString(d.text())
	}
	if r.Failover != nil {
		b.WriteString(r.Failover.text())
	}
	if r.Idle != nil {
		b.WriteString(r.Idle.text())
	}
	return b.String()
}

// well says that every budget is kept that was measured.
func (r *clusterReport) well() bool {
	return (r.Failover == nil || r.Failover.Status != statusShort) && (r.Idle == nil || r.Idle.Status != statusShort)
}

// clusterCommand measures three nodes beside one, all on this machine.
func clusterCommand(ctx context.Context, fs *flag.FlagSet, args []string, stdout, stderr io.Writer) (bool, error) {
	only := fs.String("only", "", "`regexp` of the parts to measure: idle, pairs, hot-mutex, failover")
	shapes := fs.String("shapes", "1x1,16x1,128x1,16x64", "connections x requests in flight on each, comma-separated")
	turns := fs.Int("turns", 3, "how often each workload is measured, in turns; the median is told")
	warm := fs.Duration("warm", time.Second, "how long before each measuring begins")
	duration := fs.Duration("duration", 5*time.Second, "how long each is measured")
	rounds := fs.Int("rounds", 5, "how often the node that leads most is killed")
	watch := fs.Duration("idle", 30*time.Second, "how long idle nodes are watched")
	asJSON := fs.Bool("json", false, "print the report as JSON")
	short := fs.Bool("short", false, "take seconds, and say nothing about a budget")
	dir := fs.String("dir", ".", "`directory` to write below, on the disk to be measured")
	bin := fs.String("pathlockd", "", "`binary` of pathlockd; built when it is empty")
	if err := parse(fs, args); err != nil {
		return false, err
	}
	usage := func(format string, args ...any) (bool, error) {
		fmt.Fprintf(stderr, "bench: "+format+"\n", args...)
		return false, errUsage
	}
	pick, err := regexp.Compile(*only)
	if err != nil {
		return usage("--only: %v", err)
	}
	b := &clusterBench{rounds: *rounds}
	b.pathlockd = *bin
	b.scale = fullScale
	b.ctx, b.stderr, b.progress, b.turns = ctx, stderr, stderr, *turns
	b.warm, b.measure, b.watch = *warm, *duration, *watch
	if b.shapes, err = shapesOf(*shapes); err != nil {
		return usage("--shapes: %v", err)
	}
	if *turns < 1 || *rounds < 1 {
		return usage("--turns %d, --rounds %d: must be 1 at least", *turns, *rounds)
	}
	if *short {
		b.scale, b.rounds, b.shapes = shortScale, 1, []shape{{1, 1}, {4, 4}}
	}
	if b.dir, err = os.MkdirTemp(*dir, "bench-"); err != nil {
		return false, err
	}
	defer func() { _ = os.RemoveAll(b.dir) }() // what is left shows that it failed
	r := newReport(b.dir, nil, *short)
	r.Command = strings.Join(append([]string{"bench cluster"}, args...), " ")
	b.report = &clusterReport{Build: r.Build, Machine: r.Machine, Command: r.Command, Date: r.Date, Short: *short}
	if !*asJSON {
		fmt.Fprint(stdout, r.head())
	}
	if err := b.run(pick); err != nil {
		return false, err
	}
	if *asJSON {
		e := json.NewEncoder(stdout)
		e.SetIndent("", "  ")
		return b.report.well(), e.Encode(b.report)
	}
	_, err = fmt.Fprint(stdout, b.report.text())
	return b.report.well(), err
}

// run starts the nodes and measures the parts that are picked.
func (b *clusterBench) run(pick *regexp.Regexp) (err error) {
	if err := b.build(); err != nil {
		return err
	}
	b.say("starting one node, and three")
	spec := server.Spec{Bin: b.pathlockd, Dir: filepath.Join(b.dir, "one"), Settings: clusterSettings}
	if b.one, err = server.StartCluster(b.ctx, spec, 1); err != nil {
		return err
	}
	defer b.one.Close()
	spec.Dir = filepath.Join(b.dir, "three")
	if b.three, err = server.StartCluster(b.ctx, spec, 3); err != nil {
		return err
	}
	defer b.three.Close()
	if pick.MatchString(partIdle) {
		if err := b.idle(); err != nil {
			return fmt.Errorf("idle: %w", err)
		}
	}
	for _, s := range b.shapes {
		if !pick.MatchString(partPairs) {
			break
		}
		if err := b.pairs(s); err != nil {
			return err
		}
	}
	if pick.MatchString(partHot) {
		if err := b.hotMutex(); err != nil {
			return err
		}
	}
	if pick.MatchString(partFailover) {
		return b.failovers()
	}
	return nil
}

// mostInFlight bounds what the load may keep in flight on all connections together.
const mostInFlight = 1 << 16

// shapesOf reads shapes: 1x1,16x64.
func shapesOf(text string) (all []shape, err error) {
	for part := range strings.SplitSeq(text, ",") {
		conns, inFlight, _ := strings.Cut(strings.TrimSpace(part), "x")
		var s shape
		s.conns, err = strconv.Atoi(conns)
		if err == nil {
			s.inFlight, err = strconv.Atoi(inFlight)
		}
		if err != nil || s.conns < 1 || s.inFlight < 1 || s.conns > 4096 || s.conns*s.inFlight > mostInFlight {
			return nil, fmt.Errorf("%q: must be connections x requests in flight, like 16x64, of at most 4096 "+
				"connections and %d requests", part, mostInFlight)
		}
		all = append(all, s)
	}
	return all, nil
}
