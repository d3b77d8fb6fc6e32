package server

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestPortsOfProcesses: no two processes are told of one port, though nobody listens on
// any, and none is one that connections are given.
func TestPortsOfProcesses(t *testing.T) {
	const each = 300
	if os.Getenv("PORTS_TEST_CHILD") != "" {
		for range each {
			addr, err := FreeAddr()
			if err != nil {
				t.Fatal(err)
			}
			fmt.Println("addr", addr)
		}
		fmt.Println("all")
		if _, err := os.Stdin.Read(make([]byte, 1)); err == nil { // the locks are held until the others have theirs
			t.Fatal("nothing is said to a child")
		}
		return
	}
	low, high := connectionPorts()
	var children []*exec.Cmd
	var outs []*bufio.Scanner
	for range 4 {
		cmd := exec.Command(os.Args[0], "-test.run=^TestPortsOfProcesses$", "-test.v")
		cmd.Env = append(os.Environ(), "PORTS_TEST_CHILD=1")
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		children, outs = append(children, cmd), append(outs, bufio.NewScanner(out))
	}
	held, release, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	for _, cmd := range children {
		cmd.Stdin = held
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
	}
	seen := make(map[string]bool)
	note := func(addr string) {
		if seen[addr] {
			t.Errorf("%s is told twice", addr)
		}
		seen[addr] = true
		_, port, err := net.SplitHostPort(addr)
		var n int
		if err == nil {
			_, err = fmt.Sscan(port, &n)
		}
		if err != nil || n >= low && n <= high {
			t.Errorf("%s is one that connections are given, %v", addr, err)
		}
	}
	for range each {
		addr, err := FreeAddr()
		if err != nil {
			t.Fatal(err)
		}
		note(addr)
	}
	for _, out := range outs {
		for out.Scan() && out.Text() != "all" {
			if addr, is := strings.CutPrefix(out.Text(), "addr "); is {
				note(addr)
			}
		}
	}
	_ = release.Close()
	for i, cmd := range children {
		for outs[i].Scan() { // to its end
		}
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	}
	if len(seen) != 5*each {
		t.Errorf("%d ports, want %d", len(seen), 5*each)
	}
}

// TestPortsInARow: a row is free, and no port of it is told again.
func TestPortsInARow(t *testing.T) {
	first, err := FreePorts(40)
	if err != nil {
		t.Fatal(err)
	}
	second, err := FreePorts(40)
	if err != nil {
		t.Fatal(err)
	}
	if first < second+40 && second < first+40 {
		t.Errorf("rows of 40 begin at %d and %d", first, second)
	}
}
