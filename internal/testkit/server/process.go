// Package server runs pathlockd as a process of its own, for tests and demos that
// kill it. It needs the go command, or a binary that is there already.
package server

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	// readyWithin is how long a node may take to serve: ten times what it promises,
	// for machines that do much else.
	readyWithin = 50 * time.Second
	// keptLines is how many of the last lines of the log are kept to be shown; older
	// ones are dropped.
	keptLines = 100
)

// Build compiles pathlockd into a directory and answers the binary. It works
// wherever the module's source is. flags are further ones of go build.
func Build(ctx context.Context, dir string, flags ...string) (string, error) {
	bin := filepath.Join(dir, "pathlockd")
	args := append([]string{"build", "-o", bin}, flags...)
	out, err := exec.CommandContext(ctx, "go",
		append(args, "github.com/pathlockd/pathlockd/cmd/pathlockd")...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build pathlockd: %w\n%s", err, out)
	}
	return bin, nil
}

// Process is a pathlockd that serves, or did. Its methods may be called by any
// number of goroutines.
type Process struct {
	// Addr is where it serves over TCP, "" when it does not.
	Addr string
	// GRPC, Web and H3 are where it serves gRPC, HTTP over TLS and HTTP/3.
	GRPC, Web, H3 string

	cmd   *exec.Cmd
	ready chan readyLine
	ended chan struct{} // closed when it is gone and its log is read to the end
	mu    struct {
		sync.Mutex
		lines []string
	}
}

// readyLine is what the log says when the node serves.
type readyLine struct {
	Msg    string `json:"msg"`
	Native string `json:"native"`
	GRPC   string `json:"grpc"`
	Web    string `json:"web"`
	H3     string `json:"h3"`
}

// Start runs a single node on a data directory and waits until it serves. What its
// arguments do not say is as by default, whatever the environment says. When this
// process dies, so does the node. ctx is for starting alone.
func Start(ctx context.Context, bin, dataDir string, args ...string) (*Process, error) {
	return Launch(ctx, bin, append([]string{
		"--dev", "--data_dir=" + dataDir, "--listen=127.0.0.1:0", "--web_listen=127.0.0.1:0", "--h3_listen=127.0.0.1:0",
	}, args...)...)
}

// Launch is Start of a node that is told everything by its arguments: one of several.
func Launch(ctx context.Context, bin string, args ...string) (*Process, error) {
	p := &Process{ready: make(chan readyLine, 1), ended: make(chan struct{})}
	p.cmd = exec.Command(bin, args...)
	p.cmd.SysProcAttr = dieWithParent()
	p.cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "PATHLOCKD_") })
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", bin, err)
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", bin, err)
	}
	go p.follow(stderr)
	late := time.NewTimer(readyWithin)
	defer late.Stop()
	select {
	case l := <-p.ready:
		for to, addr := range map[*string]string{&p.Addr: l.Native, &p.GRPC: l.GRPC, &p.Web: l.Web, &p.H3: l.H3} {
			if addr != "off" {
				*to = addr
			}
		}
		return p, nil
	case <-p.ended:
		return nil, fmt.Errorf("start %s: it ended (%v):\n%s", bin, p.cmd.ProcessState, p.Log())
	case <-late.C:
		err = fmt.Errorf("it does not serve after %v:\n%s", readyWithin, p.Log())
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	p.Kill()
	return nil, fmt.Errorf("start %s: %w", bin, err)
}

// follow reads the log until the process ends.
func (p *Process) follow(stderr io.Reader) {
	s := bufio.NewScanner(stderr)
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		p.mu.Lock()
		if p.mu.lines = append(p.mu.lines, s.Text()); len(p.mu.lines) > keptLines {
			p.mu.lines = p.mu.lines[1:]
		}
		p.mu.Unlock()
		var l readyLine
		if json.Unmarshal(s.Bytes(), &l) == nil && l.Msg == "ready" {
			select {
			case p.ready <- l:
			default:
			}
		}
	}
	_, _ = io.Copy(io.Discard, stderr) // what is no line must not stop it
	_ = p.cmd.Wait()                   // how it ended is in ProcessState
	close(p.ended)
}

// Kill ends the process with SIGKILL and waits until it is gone.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // it may have ended before
	<-p.ended
}

// Stop asks the process to drain, and waits until it is gone; when ctx ends
// before, it is killed.
func (p *Process) Stop(ctx context.Context) error {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended before
	select {
	case <-p.ended:
	case <-ctx.Done():
		p.Kill()
		return fmt.Errorf("stop pathlockd: killed: %w", context.Cause(ctx))
	}
	if !p.cmd.ProcessState.Success() {
		return errors.New("stop pathlockd: " + p.cmd.ProcessState.String())
	}
	return nil
}

// Ended is closed when the process is gone, whoever ended it.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// PID is the process's id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Log is the last lines of its log.
func (p *Process) Log() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.mu.lines, "\n")
}
