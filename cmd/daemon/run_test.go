package daemon

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

const anyNative = "--native_listen=127.0.0.1:0"

// startWithin is how long a lone node may take to be ready; a machine that does much else
// gets more before the test fails, but less than something that is waited for in vain takes.
const (
	startWithin = 3 * time.Second
	startAtMost = 25 * time.Second
)

func (p *process) readyInTime(what string) (addr string) {
	p.t.Helper()
	addr, took := p.ready()
	p.t.Logf("%s: ready after %v", what, took.Round(time.Millisecond))
	if took > startAtMost {
		p.t.Errorf("%s: ready after %v, want %v", what, took, startWithin)
	}
	return addr
}

func TestDevAndKill(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := runPathlockd(t, dir, "--dev", anyNative)
	addr := p.readyInTime("dev, from an empty directory")
	c := dial(t, "tcp", addr, wire.Hello{})
	token := c.mustLock("me", "tenant:/acme/projects/42", 0)
	if res := c.ask(lock("you", "tenant:/acme/projects/42", 0)); res.Status != wire.StatusQueued {
		t.Fatalf("the second owner gets %v", res.Status)
	}
	p.signal(syscall.SIGKILL)
	p.exit()

	p = runPathlockd(t, dir, "--dev", anyNative)
	addr = p.readyInTime("dev, after a kill")
	if l := p.logged("ready"); l["recovered_locks"] != 1.0 || l["recovered_waiting"] != 1.0 {
		t.Errorf("recovered %v locks and %v waiting", l["recovered_locks"], l["recovered_waiting"])
	}
	c = dial(t, "tcp", addr, wire.Hello{})
	c.mustHold("tenant:/acme/projects/42", "me")
	res := c.ask(&wire.Request{Op: wire.OpAssertFencing, Owner: "me", Token: token,
		Paths: []string{"tenant:/acme/projects/42"}})
	if res.Err() != nil || res.Status != wire.StatusOK {
		t.Errorf("the token of before the kill: %v %v", res.Reason, res.Err())
	}
	if res := c.ask(&wire.Request{Op: wire.OpReleaseAll, Owner: "me"}); res.Err() != nil {
		t.Fatal(res.Err())
	}
	c.mustHold("tenant:/acme/projects/42", "you")
	if _, err := os.Stat(filepath.Join(dir, "pathlockd-data", "identity.json")); err != nil {
		t.Error(err)
	}
}

func TestBootstrapWithDefaults(t *testing.T) {
	t.Parallel()
	p := runPathlockd(t, t.TempDir(), "--bootstrap", "--data_dir=data", anyNative, "--raft-addr=localhost:0")
	addr := p.readyInTime("bootstrap with 16 logs, from an empty directory")
	dial(t, "tcp", addr, wire.Hello{}).mustLock("me", "t:/a/x", 0)
	start := p.logged("starting")
	if start["version"] != "v9.8.7" || start["node_id"] != "pathlockd-0" ||
		!filepath.IsAbs(start["data_dir"].(string)) {
		t.Errorf("the first line says %v", start)
	}
}

// TestTerminate: SIGTERM while requests are under way. Each of them is answered.
func TestTerminate(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := runPathlockd(t, dir, "--dev", anyNative)
	addr, _ := p.ready()
	c := dial(t, "tcp", addr, wire.Hello{})
	var burst []*wire.Request
	for _, path := range paths(250) {
		burst = append(burst, lock("me", path, 0))
	}
	first := c.send(burst...)
	var held []string
	answers, goodbye := 0, false
	for {
		f, err := c.read()
		if err != nil {
			break
		}
		switch {
		case f.id == 0:
			goodbye = wire.PushKind(f.code) == wire.PushGoodbye
			continue
		case wire.Code(f.code) == wire.OK:
			held = append(held, paths(250)[f.id-first])
		case wire.Code(f.code) != wire.Unavailable:
			t.Errorf("request %d: code %v", f.id, wire.Code(f.code))
		}
		if answers++; answers == 1 {
			p.signal(syscall.SIGTERM)
		}
	}
	if code := p.exit(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	p.logged("draining")
	p.logged("stopped")
	if answers != 250 || !goodbye {
		t.Errorf("%d of 250 requests under way were answered, goodbye %v", answers, goodbye)
	}
	p = runPathlockd(t, dir, "--dev", anyNative)
	addr, _ = p.ready()
	c = dial(t, "tcp", addr, wire.Hello{})
	for _, path := range held {
		c.mustHold(path, "me")
	}
	p.signal(os.Interrupt)
	if code := p.exit(); code != 0 {
		t.Errorf("exit code after SIGINT %d", code)
	}
}

func TestSecondSignal(t *testing.T) {
	t.Parallel()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), asSignalled+"=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Process.Kill()
	s := bufio.NewScanner(out)
	for s.Scan() && s.Text() != "draining" {
		// Twice at once, as who signals a process and its group does: that is one.
		cmd.Process.Signal(syscall.SIGTERM)
		cmd.Process.Signal(syscall.SIGTERM)
	}
	ended := make(chan struct{})
	go func() { cmd.Wait(); close(ended) }()
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	timeout := time.After(patience)
	for began := time.Now(); ; {
		select {
		case <-ended:
			if code := cmd.ProcessState.ExitCode(); code != ExitFailed {
				t.Errorf("exit code %d after %v, want %d", code, time.Since(began), ExitFailed)
			}
			return
		case <-again.C:
			cmd.Process.Signal(syscall.SIGTERM)
		case <-timeout:
			t.Fatal("does not end")
		}
	}
}

func TestTwoNodesOnOneHost(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a := runPathlockd(t, dir, "--bootstrap", "--node_id=a-0", "--data_dir=a", "--log_count=2", anyNative,
		"--raft_addr=localhost:0")
	b := runPathlockd(t, dir, "--bootstrap", "--node_id=b-0", "--data_dir=b", "--log_count=2", anyNative,
		"--raft_addr=localhost:0")
	for p, owner := range map[*process]string{a: "alice", b: "bob"} {
		addr, _ := p.ready()
		dial(t, "tcp", addr, wire.Hello{}).mustLock(owner, "t:/a/x", 0)
	}
	if x, y := a.logged("ready")["cluster_id"], b.logged("ready")["cluster_id"]; x == y {
		t.Errorf("both are in cluster %v", x)
	}
	// A third on the directory of the first.
	code, _, stderr := pathlockd(t, dir, "--bootstrap", "--node_id=a-0", "--data_dir=a", "--log_count=2", anyNative,
		"--raft_addr=localhost:0")
	if want := fmt.Sprintf("data_dir a is in use by another pathlockd (process %d): stop that one, or use "+
		"another data_dir", a.cmd.Process.Pid); code != 1 || !strings.Contains(stderr, want) {
		t.Errorf("exit code %d:\n%s\nshould say %s", code, stderr, want)
	}
}

func TestHealthCheck(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const nobody = "127.0.0.1:1"
	if code, out, _ := pathlockd(t, dir, "--health-check", "--native_listen="+nobody); code != 1 ||
		!strings.HasPrefix(out, "unreachable: "+nobody+": ") {
		t.Errorf("nobody there: %d, %s", code, out)
	}
	p := runPathlockd(t, dir, "--dev", "--native_unix=p.sock", "--native_listen=127.0.0.1:0")
	addr, _ := p.ready()
	at := func(name string) string { return p.logged("ready")[name].(string) }
	port := func(name string) string { _, port, _ := net.SplitHostPort(at(name)); return port }
	tls := runPathlockd(t, dir, "--bootstrap", "--data_dir=tls", "--native_listen=off", "--listen_tls",
		"--web_listen=off", "--h3_listen=off", "--raft_addr=localhost:0")
	tls.ready()
	secure := tls.logged("ready")["grpc"].(string)
	for _, c := range []struct {
		args []string
		code int
		out  string
	}{
		{[]string{"--native_listen=" + addr}, 0, "ok: " + addr + ": pathlockd-0: ready ("},
		{[]string{"--addr=" + addr}, 0, "ok: " + addr + ": pathlockd-0: ready ("},
		{[]string{"--addr=unix:p.sock"}, 0, "ok: p.sock: pathlockd-0: ready ("},
		{[]string{"--listen=off", "--native_listen=off", "--native_unix=p.sock"}, 0,
			"ok: p.sock: pathlockd-0: ready ("},
		{[]string{"--native_listen=" + addr, "--node_id=pathlockd-1"}, 1, "unhealthy: " + addr +
			": this is pathlockd-0, not pathlockd-1"},
		{[]string{"--addr=unix:nothing.sock"}, 1, "unreachable: nothing.sock: "},
		// Each interface, as it is configured: the one that was given is asked.
		{[]string{"--listen=" + at("grpc")}, 0, "ok: grpc://" + at("grpc") + ": pathlockd-0: ready ("},
		{[]string{"--listen=0.0.0.0:" + port("grpc")}, 0, "ok: grpc://0.0.0.0:" + port("grpc") +
			": pathlockd-0: ready ("},
		{[]string{"--listen=:" + port("grpc")}, 0, "ok: grpc://:" + port("grpc") + ": pathlockd-0: ready ("},
		{[]string{"--listen=localhost:" + port("grpc")}, 0, "ok: grpc://localhost:" + port("grpc") +
			": pathlockd-0: ready ("},
		{[]string{"--listen=off", "--web_listen=" + at("web")}, 0, "ok: https://" + at("web") +
			": pathlockd-0: ready ("},
		{[]string{"--listen=off", "--web_listen=0.0.0.0:" + port("web")}, 0, "ok: https://0.0.0.0:" + port("web") +
			": pathlockd-0: ready ("},
		{[]string{"--listen=off", "--h3_listen=" + at("h3")}, 0, "ok: h3://" + at("h3") + ": pathlockd-0: ready ("},
		{[]string{"--listen=off", "--h3_listen=:" + port("h3")}, 0, "ok: h3://:" + port("h3") +
			": pathlockd-0: ready ("},
		{[]string{"--listen=" + secure, "--listen_tls"}, 0, "ok: grpcs://" + secure + ": pathlockd-0: ready ("},
		{[]string{"--addr=grpcs://" + secure}, 0, "ok: grpcs://" + secure + ": pathlockd-0: ready ("},
		{[]string{"--addr=grpc://" + at("grpc")}, 0, "ok: grpc://" + at("grpc") + ": pathlockd-0: ready ("},
		{[]string{"--addr=https://" + at("web") + "/"}, 0, "ok: https://" + at("web") + ": pathlockd-0: ready ("},
		{[]string{"--addr=h3://" + at("h3")}, 0, "ok: h3://" + at("h3") + ": pathlockd-0: ready ("},
		{[]string{"--addr=grpc://" + at("web")}, 1, "unreachable: grpc://" + at("web") + ": "},
		{[]string{"--addr=https://" + at("grpc")}, 1, "unreachable: https://" + at("grpc") + ": "},
		{[]string{"--addr=ftp://" + at("grpc")}, 2, ""},
		{[]string{"--addr=1234"}, 2, ""},
		{[]string{"--native_listen=127.0.0.1:0", "--listen=off"}, 2, ""},
		{[]string{"--group_count=0"}, 1, ""},
	} {
		code, out, stderr := pathlockd(t, dir, append([]string{"--health-check"}, c.args...)...)
		if code != c.code || !strings.HasPrefix(out, c.out) || c.out != "" && strings.Count(out, "\n") != 1 {
			t.Errorf("%v: exit code %d, want %d\n%s%s", c.args, code, c.code, out, stderr)
		}
	}
}

func TestCommandLine(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, c := range []struct {
		args           []string
		code           int
		stdout, stderr string // parts
	}{
		{[]string{"--version"}, 0, "pathlockd v9.8.7 (commit ", ""},
		{[]string{"--help"}, 0, "--native_listen (127.0.0.1:50050)", ""},
		{[]string{"--print-config-reference"}, 0, "# Configuration\n", ""},
		{[]string{"--grop_count=3"}, 2, "", "pathlockd: unknown flag: --grop_count: did you mean " +
			"--group_count?\nTry 'pathlockd --help'.\n"},
		{[]string{"serve"}, 2, "", `pathlockd: "serve": pathlockd takes no arguments, only flags`},
		{[]string{"--addr=x:1"}, 2, "", "pathlockd: --addr goes with --health-check"},
		{[]string{"--log_count"}, 2, "", "pathlockd: flag needs an argument: --log_count"},
		{[]string{"--log-count=0"}, 1, "", "pathlockd: log_count = 0 (--log_count): must be a whole number from " +
			"1 to 1022\n"},
		{[]string{"--config=none.toml"}, 1, "",
			"pathlockd: read the configuration named by --config: open none.toml: no such file or directory\n"},
		{[]string{"--data_dir=none", anyNative, "--raft_addr=localhost:0"}, 1, "", "bootstrap is off"},
	} {
		code, stdout, stderr := pathlockd(t, dir, c.args...)
		if code != c.code || !strings.Contains(stdout, c.stdout) || !strings.Contains(stderr, c.stderr) {
			t.Errorf("%v: exit code %d, want %d\n%s\n%s", c.args, code, c.code, stdout, stderr)
		}
	}
}

func TestHangup(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := runPathlockd(t, dir, "--dev", anyNative, "--log_file=p.log")
	path := filepath.Join(dir, "p.log")
	eventually(t, path, `"msg":"ready"`)
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	p.signal(syscall.SIGHUP)
	eventually(t, path, "opened the log file anew")
	p.signal(syscall.SIGTERM)
	if code := p.exit(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	eventually(t, path, `"msg":"stopped"`)

	// Without a log file, and without a terminal, it is nothing to stop for.
	q := runPathlockd(t, dir, "--dev", anyNative)
	q.ready()
	q.signal(syscall.SIGHUP)
	q.logged("SIGHUP: certificates are as their files say")
	q.signal(syscall.SIGTERM)
	if code := q.exit(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// eventually waits until a file has some text in it.
func eventually(t *testing.T, path, text string) {
	t.Helper()
	var b []byte
	if !within(func() bool { b, _ = os.ReadFile(path); return bytes.Contains(b, []byte(text)) }) {
		t.Fatalf("%s has no %q:\n%s", path, text, b)
	}
}

// within waits for what must come, and says whether it did.
func within(come func() bool) bool {
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	timeout := time.After(patience)
	for !come() {
		select {
		case <-look.C:
		case <-timeout:
			return false
		}
	}
	return true
}
