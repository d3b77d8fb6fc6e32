package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/pathlockd/pathlockd/cmd/daemon"
)

// What a line says of its budget.
const (
	statusOK     = "ok"
	statusShort  = "SHORT"
	statusFigure = "-" // there is none
)

// report is a run's outcome, with what a published figure must name.
type report struct {
	Build   string       `json:"build"` // version, commit, Go
	Machine machineFacts `json:"machine"`
	Command string       `json:"command"`
	Date    time.Time    `json:"date"`
	Short   bool         `json:"short,omitempty"` // says nothing about a budget
	Lines   []line       `json:"lines"`
}

// line is what was measured for one budget.
type line struct {
	Name     string  `json:"name"`
	Value    float64 `json:"value"`
	Unit     string  `json:"unit"`
	Measured string  `json:"measured"`
	Budget   string  `json:"budget,omitempty"`
	Status   string  `json:"status"`
	Note     string  `json:"note,omitempty"`
}

func newReport(dir string, args []string, short bool) *report {
	return &report{
		Build: daemon.VersionLine("pathlockd"), Machine: factsOf(dir), Date: time.Now().UTC().Truncate(time.Second),
		Short:   short,
		Command: strings.Join(append([]string{"bench", "budgets"}, args...), " "),
	}
}

// head is what is printed before the lines.
func (r *report) head() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n", r.Build)
	m := &r.Machine
	fmt.Fprintf(&b, "# %s, %d cores, %s, %s, load before %s\n", m.CPU, m.Cores, m.Kernel, m.FileSystem, m.Load)
	fmt.Fprintf(&b, "# %s, %s\n", r.Command, r.Date.Format("2006-01-02 15:04 UTC"))
	if r.Short {
		b.WriteString("# a short run: it shows that all of it works, and says nothing about a budget\n")
	}
	return b.String()
}

// text is the line as it is printed: name, measured, budget, status.
func (l *line) text() string {
	rule := l.Budget
	if rule == "" {
		rule = "-"
	}
	return fmt.Sprintf("%-24s %18s  %-20s %s\n", l.Name, l.Measured, rule, l.Status)
}

// notes are the figures behind the lines.
func (r *report) notes() string {
	var b strings.Builder
	for _, l := range r.Lines {
		if l.Note != "" {
			fmt.Fprintf(&b, "# %s: %s\n", l.Name, l.Note)
		}
	}
	return b.String()
}
