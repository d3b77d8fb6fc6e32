package main

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A worker process keeps a journal of its own, a line for each step. What it has
// written is in the system's hands, and survives a kill:
//
//	add SEQ FILE TOKEN           is about to increment file number FILE
//	move SEQ FILE TOKEN FROM TO  is about to rename the box that FILE lies in
//	done SEQ                     did it
//	stale SEQ                    was refused for its token: did not, and will not
//	gone SEQ                     likewise, as the box had been renamed before
//
// What has no such end is in doubt: the process was killed on it.
type journal struct{ f *os.File }

func openJournal(dir, worker string) (*journal, error) {
	f, err := os.OpenFile(filepath.Join(dir, worker), os.O_WRONLY|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open the journal: %w", err)
	}
	return &journal{f}, nil
}

func (j *journal) line(format string, args ...any) error {
	if _, err := fmt.Fprintf(j.f, format+"\n", args...); err != nil {
		return fmt.Errorf("write the journal: %w", err)
	}
	return nil
}

func (j *journal) add(seq, file int, token int64) error {
	return j.line("add %d %d %d", seq, file, token)
}

func (j *journal) move(seq, file int, token int64, from, to string) error {
	return j.line("move %d %d %d %s %s", seq, file, token, from, to)
}

func (j *journal) end(seq int, how outcome) error { return j.line("%v %d", how, seq) }

// outcome is what a journal says of a step.
type outcome uint8

const (
	inDoubt outcome = iota
	done
	stale
	gone
)

var outcomeNames = [...]string{"in doubt", "done", "stale", "gone"}

func (o outcome) String() string { return outcomeNames[o] }

// entry is one step of a worker.
type entry struct {
	worker   string
	seq      int
	file     int // of a move: any in the box
	token    int64
	from, to string // of a move
	outcome  outcome
}

// readJournals reads the journals of all workers.
func readJournals(dir string) ([]*entry, error) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("read the journals: %w", err)
	}
	var all []*entry
	for _, f := range files {
		entries, err := readJournal(filepath.Join(dir, f.Name()), f.Name())
		if err != nil {
			return nil, fmt.Errorf("read the journal of %s: %w", f.Name(), err)
		}
		all = append(all, entries...)
	}
	return all, nil
}

func readJournal(name, worker string) (all []*entry, err error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	bySeq := make(map[int]*entry)
	s := bufio.NewScanner(f)
	for s.Scan() {
		e := &entry{worker: worker}
		kind, rest, _ := strings.Cut(s.Text(), " ")
		switch kind {
		case "add":
			_, err = fmt.Sscan(rest, &e.seq, &e.file, &e.token)
		case "move":
			_, err = fmt.Sscan(rest, &e.seq, &e.file, &e.token, &e.from, &e.to)
		case "done", "stale", "gone":
			_, err = fmt.Sscan(rest, &e.seq)
		default:
			err = fmt.Errorf("no such step")
		}
		if err != nil {
			return nil, fmt.Errorf("line %q: %w", s.Text(), err)
		}
		begun := bySeq[e.seq]
		switch {
		case begun == nil && (kind == "add" || kind == "move"):
			bySeq[e.seq] = e
			all = append(all, e)
		case begun == nil || begun.outcome != inDoubt || kind == "add" || kind == "move":
			return nil, fmt.Errorf("line %q: out of order", s.Text())
		default:
			begun.outcome = outcome(slices.Index(outcomeNames[:], kind))
		}
	}
	return all, s.Err()
}
