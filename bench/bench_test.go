package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// TestMet: a value on the limit keeps to it, one past it does not.
func TestMet(t *testing.T) {
	for _, tt := range []struct {
		b     budget
		value float64
		met   bool
	}{
		{budget{most: 3}, 3, true},
		{budget{most: 3}, 3.01, false},
		{budget{least: 35}, 35, true},
		{budget{least: 35}, 34.9, false},
		{budget{}, 1e9, true},
	} {
		if got := tt.b.met(tt.value); got != tt.met {
			t.Errorf("%g with at most %g, at least %g: met is %t", tt.value, tt.b.most, tt.b.least, got)
		}
	}
}

// withBudgets runs the budgets command over another table.
func withBudgets(t *testing.T, table []budget, args ...string) (code int, stdout string) {
	t.Helper()
	kept := budgets
	defer func() { budgets = kept }()
	budgets = table
	var out bytes.Buffer
	code = do(t.Context(), append([]string{"budgets", "--dir", t.TempDir()}, args...), &out, io.Discard)
	return code, out.String()
}

// TestVerdict: the exit code is 0 only when every budget is met.
func TestVerdict(t *testing.T) {
	at := func(value float64, err error) func(*suite) (outcome, error) {
		return func(*suite) (outcome, error) { return outcome{value, "why"}, err }
	}
	well := budget{name: "well", unit: "us", digits: 1, most: 3, measure: at(2.94, nil)}
	short := budget{name: "short", unit: "% of C", most: 0, least: 35, measure: at(30, nil)}
	broken := budget{name: "broken", unit: "s", most: 5, measure: at(0, errors.New("no disk"))}
	figure := budget{name: "figure", unit: "op/s", measure: at(7, nil)}
	for _, tt := range []struct {
		name  string
		table []budget
		args  []string
		code  int
		lines []string // patterns that must be there
	}{
		{"all met", []budget{well, figure}, nil, exitOK,
			[]string{`(?m)^well +2\.9 us +<= 3 us +ok$`, `(?m)^figure +7 op/s +- +-$`, `(?m)^# well: why$`}},
		{"one short", []budget{well, short}, nil, exitShort, []string{`(?m)^short +30 % of C +>= 35 % of C +SHORT$`}},
		{"one failed", []budget{well, broken}, nil, exitShort, []string{`(?m)^broken +failed +<= 5 s +SHORT$`,
			`(?m)^# broken: no disk$`}},
		{"only those met", []budget{well, short}, []string{"--only", "^well$"}, exitOK, nil},
		{"a short run", []budget{short}, []string{"--short"}, exitOK, []string{`says nothing about a budget`}},
		{"a short run that fails", []budget{broken}, []string{"--short"}, exitShort, nil},
		{"nothing wanted", []budget{well}, []string{"--only", "nothing"}, exitShort, nil},
		{"no pattern", []budget{well}, []string{"--only", "("}, exitUsage, nil},
	} {
		code, out := withBudgets(t, tt.table, tt.args...)
		if code != tt.code {
			t.Errorf("%s: exit code %d, want %d", tt.name, code, tt.code)
		}
		for _, want := range tt.lines {
			if !regexp.MustCompile(want).MatchString(out) {
				t.Errorf("%s: nothing like %s in\n%s", tt.name, want, out)
			}
		}
	}
}

// TestCommandLine: what is not understood is told with exit code 2.
func TestCommandLine(t *testing.T) {
	for _, tt := range []struct {
		args string
		code int
	}{
		{"", exitUsage}, {"--help", exitOK}, {"budget", exitUsage}, {"run --workload walk", exitUsage},
		{"budgets --list", exitOK}, {"budgets --lots", exitUsage}, {"budgets apply", exitUsage}, {"run --help", exitOK},
	} {
		var out, errs bytes.Buffer
		args := strings.Fields(tt.args)
		if len(args) > 0 && args[0] == "run" {
			args = append(args, "--dir", t.TempDir())
		}
		if code := do(t.Context(), args, &out, &errs); code != tt.code {
			t.Errorf("bench %s: exit code %d, want %d\n%s", tt.args, code, tt.code, errs.String())
		} else if out.Len()+errs.Len() == 0 {
			t.Errorf("bench %s: says nothing", tt.args)
		}
	}
}

// TestProcessTime: what a process uses is seen.
func TestProcessTime(t *testing.T) {
	var done atomic.Bool
	go func() {
		for !done.Load() {
		}
	}()
	defer done.Store(true)
	share, err := used(t.Context(), os.Getpid(), 300*time.Millisecond)
	if err != nil || share <= 0 || share > 64 {
		t.Errorf("a process that spins uses %.2f of a processor, %v", share, err)
	}
}

// TestShort measures every budget in a few seconds, with the real servers: each
// must come to a figure. Whether a budget is met is not looked at.
func TestShort(t *testing.T) {
	bench := buildBench(t)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	var errs bytes.Buffer
	cmd := exec.CommandContext(ctx, bench, "budgets", "--short", "--json", "--dir", t.TempDir())
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("bench budgets --short: %v\n%s", err, errs.String())
	}
	var r report
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatalf("%v in\n%s", err, out)
	}
	if r.Build == "" || r.Machine.CPU == "" || r.Machine.Cores == 0 || r.Command == "" || r.Date.IsZero() || !r.Short {
		t.Errorf("the report does not say where it is from: %+v", r)
	}
	if len(r.Lines) != len(budgets) {
		t.Fatalf("%d lines for %d budgets", len(r.Lines), len(budgets))
	}
	for i, l := range r.Lines {
		if l.Name != budgets[i].name || l.Note == "" || l.Status != statusOK && l.Status != statusShort &&
			l.Status != statusFigure {
			t.Errorf("line %d, for %s: %+v", i, budgets[i].name, l)
		}
		// So short a watch may see nothing used, and so few connections may hide in the
		// noise of the heap.
		if l.Value <= 0 && l.Name != "idle-node" && l.Name != "idle-connection" {
			t.Errorf("%s measured nothing: %+v", l.Name, l)
		}
	}
}

// TestRun: a single workload prints a line of Go's benchmark format, and one that
// is refused fails.
func TestRun(t *testing.T) {
	bench := buildBench(t)
	for _, tt := range []struct {
		args string
		want string // a pattern of the output
		fail string // what the failure says
	}{
		{args: "--workload pairs --logs 2", want: `Benchmark/pairs/logs=2/conns=2/inflight=4-\d+\t\d+\t\d+ ns/op\t\d+ op/s\t[\d.]+ p50-ms\t[\d.]+ p99-ms`},
		{args: "--workload pairs --no-engine", want: `/no-engine-\d+\t[1-9]`},
		{args: "--workload handover", want: `Benchmark/handover/.*\t[1-9]\d*\t`},
		{args: "--workload echo", want: `Benchmark/echo/.*\t[1-9]\d*\t`},
		{args: "--workload fsync", want: `Benchmark/fsync\t[1-9]\d*\t`},
		// More in flight than a connection may have.
		{args: "--workload pairs --inflight 300", fail: "RESOURCE_EXHAUSTED"},
	} {
		args := append([]string{"run", "--conns=2", "--inflight=4", "--warm=10ms", "--duration=100ms", "--dir",
			t.TempDir()}, strings.Fields(tt.args)...)
		var out, errs bytes.Buffer
		cmd := exec.CommandContext(t.Context(), bench, args...)
		cmd.Stdout, cmd.Stderr = &out, &errs
		err := cmd.Run()
		switch {
		case tt.fail == "" && (err != nil || !regexp.MustCompile(tt.want).MatchString(out.String())):
			t.Errorf("bench run %s: %v\n%s%s", tt.args, err, out.String(), errs.String())
		case tt.fail != "" && (err == nil || !strings.Contains(errs.String(), tt.fail)):
			t.Errorf("bench run %s: %v\n%s", tt.args, err, errs.String())
		}
	}
}

// buildBench builds bench: it starts itself, which a test binary cannot.
func buildBench(t *testing.T) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "bench")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", bin, ".").CombinedOutput(); err != nil {
		t.Fatalf("build bench: %v\n%s", err, out)
	}
	return bin
}

// TestParse: flags end with flags.
func TestParse(t *testing.T) {
	fs := flag.NewFlagSet("bench x", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	if err := parse(fs, []string{"y"}); !errors.Is(err, errUsage) {
		t.Errorf("an argument: %v", err)
	}
	if err := parse(fs, []string{"-h"}); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("-h: %v", err)
	}
}
