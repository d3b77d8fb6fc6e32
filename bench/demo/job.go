package main

import (
	"fmt"
	"strings"
)

// job is what a worker process is told to do. It travels in its environment.
type job struct {
	name   string // unique: it names the journal
	addr   string
	dir    string
	files  int
	seed   uint64
	fenced bool
}

// jobVariable holds the job of a process that is a worker.
const jobVariable = "DEMO_WORKER"

func (j *job) encode() string {
	return fmt.Sprintf("%s=%s %d %d %t %s %s", jobVariable, j.name, j.files, j.seed, j.fenced, j.addr, j.dir)
}

func decodeJob(s string) (*job, error) {
	j := new(job)
	f := strings.SplitN(s, " ", 6)
	if len(f) != 6 {
		return nil, fmt.Errorf("%s: %q", jobVariable, s)
	}
	j.name, j.addr, j.dir = f[0], f[4], f[5]
	if _, err := fmt.Sscan(strings.Join(f[1:4], " "), &j.files, &j.seed, &j.fenced); err != nil {
		return nil, fmt.Errorf("%s: %q: %w", jobVariable, s, err)
	}
	return j, nil
}
