package examples_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/pathlockd/pathlockd/internal/testkit/server"
)

var grpcurlVersion = regexp.MustCompile(`(?m)^GRPCURL=(\S+)$`)

// grpcurl is the program that install.sh builds.
func grpcurl(t *testing.T) string {
	t.Helper()
	script, err := os.ReadFile("install.sh")
	if err != nil {
		t.Fatal(err)
	}
	version := grpcurlVersion.FindSubmatch(script)
	if version == nil {
		t.Fatal("install.sh does not say which grpcurl")
	}
	bin, err := filepath.Abs("../.tools/grpcurl-" + string(version[1]))
	if err != nil {
		t.Fatal(err)
	}
	need(t, bin)
	return bin
}

// TestGRPCurl: a client that knows nothing but what reflection tells it.
func TestGRPCurl(t *testing.T) {
	t.Parallel()
	bin := grpcurl(t)
	const acquire = `{"owner_id": "grpcurl", "ttl_ms": 10000, "requests": [{"path": "example:/grpcurl/x"}]}`
	for _, c := range []struct {
		name  string
		args  []string
		says  []string
		fails bool
	}{
		{name: "list", args: []string{"ADDR", "list"}, says: []string{"grpc.health.v1.Health\n",
			"pathlockd.v1.PathLock\n"}},
		{name: "list a service", args: []string{"ADDR", "list", "pathlockd.v1.PathLock"},
			says: []string{"pathlockd.v1.PathLock.Acquire\n", "pathlockd.v1.PathLock.AcquireWatch\n"}},
		{name: "describe", args: []string{"ADDR", "describe", "pathlockd.v1.AcquireRequest"},
			says: []string{"uint64 ttl_ms = 2;", "bool no_queue = 101;"}},
		{name: "call", args: []string{"-emit-defaults", "-d", acquire, "ADDR", "pathlockd.v1.PathLock/Acquire"},
			says: []string{`"status": "ACQUIRE_STATUS_OK"`, `"namespace": "example:/grpcurl"`}},
		{name: "bad call", args: []string{"-d", `{}`, "ADDR", "pathlockd.v1.PathLock/Acquire"},
			says: []string{"Code: InvalidArgument", "owner_id"}, fails: true},
		{name: "stream", args: []string{"-max-time", "1", "-d", `{"owner_id": "grpcurl"}`, "ADDR",
			"pathlockd.v1.PathLock/Subscribe"}, says: []string{"Code: DeadlineExceeded"}, fails: true},
		{name: "standard health", args: []string{"ADDR", "grpc.health.v1.Health/Check"},
			says: []string{`"status": "SERVING"`}},
		{name: "no method", args: []string{"ADDR", "pathlockd.v1.PathLock/Steal"}, says: []string{"Steal"},
			fails: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			args := []string{"-plaintext"}
			for _, a := range c.args {
				args = append(args, strings.ReplaceAll(a, "ADDR", daemon.GRPC))
			}
			out, err := command(t, within, bin, args...).CombinedOutput()
			if (err != nil) != c.fails {
				t.Errorf("%v: %v\n%s", args, err, out)
			}
			for _, s := range c.says {
				if !strings.Contains(string(out), s) {
					t.Errorf("%v does not say %q:\n%s", args, s, out)
				}
			}
		})
	}
}

// TestGRPCurlOverTLS: with the certificate for development, and refused without.
func TestGRPCurlOverTLS(t *testing.T) {
	t.Parallel()
	bin, data := grpcurl(t), filepath.Join(t.TempDir(), "data")
	p, err := server.Start(t.Context(), daemon.bin, data, "--native_listen=127.0.0.1:0", "--listen_tls")
	if err != nil {
		t.Fatal(err)
	}
	defer p.Kill()
	const check = "grpc.health.v1.Health/Check"
	out, err := command(t, within, bin, "-cacert", filepath.Join(data, "dev-cert.pem"), p.GRPC, check).CombinedOutput()
	if err != nil || !strings.Contains(string(out), `"SERVING"`) {
		t.Errorf("with the certificate: %v\n%s", err, out)
	}
	for _, args := range [][]string{{p.GRPC, check}, {"-plaintext", "-connect-timeout", "1", p.GRPC, check}} {
		if out, err := command(t, within, bin, args...).CombinedOutput(); err == nil {
			t.Errorf("%v is served:\n%s", args, out)
		}
	}
}

// TestCurl: the same calls over both versions of HTTP that curl has.
func TestCurl(t *testing.T) {
	t.Parallel()
	need(t, "curl")
	ca := filepath.Join(daemon.data, "dev-cert.pem")
	for flag, version := range map[string]string{"--http1.1": "1.1", "--http2": "2"} {
		owner := "curl" + flag
		curl := func(t *testing.T, args ...string) (status string, answer map[string]any) {
			t.Helper()
			args = append([]string{flag, "-sS", "--max-time", "60", "--cacert", ca, "-w",
				"\n%{http_version} %{http_code}"}, args...)
			out, err := command(t, within, "curl", args...).CombinedOutput()
			if err != nil {
				t.Fatalf("curl %v: %v\n%s", args, err, out)
			}
			at := strings.LastIndexByte(string(out), '\n')
			if err := json.Unmarshal(out[:at], &answer); err != nil {
				t.Fatalf("curl %v: %v\n%s", args, err, out)
			}
			status, ok := strings.CutPrefix(string(out[at+1:]), version+" ")
			if !ok {
				t.Errorf("curl %v: version and status are %q", args, out[at+1:])
			}
			return status, answer
		}
		post := func(t *testing.T, rpc, body string) (status string, answer map[string]any) {
			t.Helper()
			return curl(t, "-H", "Content-Type: application/json", "-d", body, "https://"+daemon.Web+"/v1/"+rpc)
		}
		t.Run(flag, func(t *testing.T) {
			t.Parallel()
			if status, a := curl(t, "https://"+daemon.Web+"/v1/health"); status != "200" || a["detail"] != "ready" {
				t.Errorf("health: %s %v", status, a)
			}
			request := `{"ownerId": "` + owner + `", "ttlMs": 10000, "requests": [{"path": "example:/curl/` +
				owner + `"}]}`
			if status, a := post(t, "acquire", request); status != "200" || a["status"] != "ACQUIRE_STATUS_OK" {
				t.Errorf("acquire: %s %v", status, a)
			}
			if status, a := post(t, "acquire", `{"ownerId": 7}`); status != "400" || a["error"] == nil {
				t.Errorf("a bad acquire: %s %v", status, a)
			}
			if status, a := post(t, "releaseAll", `{"ownerId": "`+owner+`"}`); status != "200" {
				t.Errorf("releaseAll: %s %v", status, a)
			}
		})
	}
}
