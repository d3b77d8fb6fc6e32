package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"time"
)

// budgetsCommand measures the budgets and says whether all that were measured are
// met.
func budgetsCommand(ctx context.Context, fs *flag.FlagSet, args []string, stdout, stderr io.Writer) (bool, error) {
	asJSON := fs.Bool("json", false, "one JSON document instead of lines")
	only := fs.String("only", "", "measure only what this `regexp` matches")
	short := fs.Bool("short", false, "a few seconds, to see that it works: says nothing about a budget, and exits 0 "+
		"if all could be measured")
	parent := fs.String("dir", ".", "`directory` to write below; it decides which disk is measured")
	binary := fs.String("pathlockd", "", "`file` of the pathlockd to start; else it is built, which needs the source")
	held := fs.Int("held", 0, "hold this `many` locks instead of a million: what comes of it is a figure, and says "+
		"nothing about a budget")
	list := fs.Bool("list", false, "tell the names and leave")
	if err := parse(fs, args); err != nil {
		return false, err
	}
	wanted, err := regexp.Compile(*only)
	if err != nil {
		fmt.Fprintln(stderr, "bench: --only:", err)
		return false, errUsage
	}
	if *list {
		for i := range budgets {
			fmt.Fprintln(stdout, budgets[i].name)
		}
		return true, nil
	}
	dir, err := os.MkdirTemp(*parent, "bench-")
	if err != nil {
		return false, err
	}
	defer func() { _ = os.RemoveAll(dir) }() // what is left shows that it failed
	s := &suite{scale: fullScale, ctx: ctx, dir: dir, stderr: stderr, progress: stderr, pathlockd: *binary}
	if *short {
		s.scale = shortScale
	}
	if *held > 0 {
		s.scale.held = *held
	}
	r := newReport(dir, args, *short)
	if !*asJSON {
		fmt.Fprint(stdout, r.head())
	}
	well := true
	for i := range budgets {
		b := &budgets[i]
		if !wanted.MatchString(b.name) {
			continue
		}
		l, err := s.line(b)
		if ctx.Err() != nil {
			return false, context.Cause(ctx)
		}
		r.Lines = append(r.Lines, l)
		well = well && (l.Status != statusShort || *short && err == nil)
		if !*asJSON {
			fmt.Fprint(stdout, l.text())
		}
	}
	if len(r.Lines) == 0 {
		return false, fmt.Errorf("--only %s matches no name (bench budgets --list)", *only)
	}
	if *asJSON {
		return well, r.writeJSON(stdout)
	}
	fmt.Fprint(stdout, r.notes())
	return well, nil
}

// line measures one budget. An error is part of the line too.
func (s *suite) line(b *budget) (line, error) {
	fmt.Fprintf(s.progress, "%s\n", b.name)
	began := time.Now()
	out, err := b.measure(s)
	l := line{Name: b.name, Unit: b.unit, Budget: b.rule(), Note: out.note, Value: out.value,
		Measured: b.show(out.value)}
	switch {
	case err != nil:
		l.Status, l.Measured, l.Note = statusShort, "failed", err.Error()
	case b.figure():
		l.Status = statusFigure
	case b.met(out.value):
		l.Status = statusOK
	default:
		l.Status = statusShort
	}
	s.say("%s  %s %s (%s; took %v)", l.Measured, l.Budget, l.Status, l.Note, time.Since(began).Round(time.Second))
	return l, err
}

func (r *report) writeJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}
