package main

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// machineFacts is what published figures must say of where they are from.
type machineFacts struct {
	CPU        string `json:"cpu"`
	Cores      int    `json:"cores"`
	Kernel     string `json:"kernel"`
	FileSystem string `json:"file_system"` // of the directory that is written to
	// Load is how many processes wanted to run in the minute before: on a machine that
	// does something else the figures say little.
	Load string `json:"load"`
}

func factsOf(dir string) machineFacts {
	return machineFacts{CPU: cpuModel(), Cores: runtime.NumCPU(), Kernel: kernel(), FileSystem: fileSystem(dir),
		Load: loadAverage()}
}

const unknown = "unknown"

func cpuModel() string {
	info, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(info)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return unknown
}

func kernel() string {
	release, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return runtime.GOOS
	}
	return runtime.GOOS + " " + strings.TrimSpace(string(release))
}

func loadAverage() string {
	loads, _ := os.ReadFile("/proc/loadavg")
	if minute, _, ok := strings.Cut(string(loads), " "); ok {
		return minute
	}
	return unknown
}

// fileSystem is the type of the file system that a directory is on: that of the
// longest mount point above it.
func fileSystem(dir string) string {
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return unknown
	}
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	best, kind := "", unknown
	for line := range strings.Lines(string(mounts)) {
		f := strings.Fields(line)
		if len(f) < 3 || len(f[1]) < len(best) {
			continue
		}
		if f[1] == "/" || dir == f[1] || strings.HasPrefix(dir, f[1]+"/") {
			best, kind = f[1], f[2]
		}
	}
	return kind
}
