package certs

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// diary is a log that tests read.
type diary struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (d *diary) Write(b []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.buf.Write(b)
}

func (d *diary) count(s string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return strings.Count(d.buf.String(), s)
}

// clock is a time that tests set.
type clock struct {
	mu sync.Mutex
	t  time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
}

type fixture struct {
	*Store
	diary *diary
	clock *clock
}

func openAt(t *testing.T, certFile, keyFile, dir string, at *clock) (*fixture, error) {
	t.Helper()
	d := &diary{}
	s, err := open(certFile, keyFile, dir, slog.New(slog.NewTextHandler(d, nil)), at.now)
	return &fixture{s, d, at}, err
}

func mustOpen(t *testing.T, certFile, keyFile, dir string, at *clock) *fixture {
	t.Helper()
	f, err := openAt(t, certFile, keyFile, dir, at)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func startClock() *clock { return &clock{t: time.Now()} }

// givenPair makes a pair of files as an operator would give them.
func givenPair(t *testing.T) (certFile, keyFile string) {
	t.Helper()
	dir := t.TempDir()
	renew(t, filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key"))
	return filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
}

// renew puts a new pair in the place of two files.
func renew(t *testing.T, certFile, keyFile string) {
	t.Helper()
	made := mustOpen(t, "", "", t.TempDir(), startClock())
	copyFile(t, made.keyFile, keyFile)
	copyFile(t, made.certFile, certFile)
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// echo serves whoever connects what it sends.
func echo(t *testing.T, conf *tls.Config) string {
	t.Helper()
	l, err := tls.Listen("tcp", "127.0.0.1:0", conf)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer c.Close()
				_, _ = io.Copy(c, c)
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		wg.Wait()
	})
	return l.Addr().String()
}

// dial connects and answers the connection and the server's certificate.
func dial(t *testing.T, addr string, conf *tls.Config) (*tls.Conn, *x509.Certificate) {
	t.Helper()
	c, err := tls.DialWithDialer(&net.Dialer{Timeout: 60 * time.Second}, "tcp", addr, conf)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c, c.ConnectionState().PeerCertificates[0]
}

func ping(t *testing.T, c *tls.Conn) {
	t.Helper()
	if err := c.SetDeadline(time.Now().Add(60 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
}

var anyServer = &tls.Config{InsecureSkipVerify: true}

func TestChangedFilesAreUsedForNewConnections(t *testing.T) {
	certFile, keyFile := givenPair(t)
	s := mustOpen(t, certFile, keyFile, "", startClock())
	addr := echo(t, s.Config())
	old, first := dial(t, addr, anyServer)
	ping(t, old)

	renew(t, certFile, keyFile)
	s.clock.pass(lookEvery)
	_, second := dial(t, addr, anyServer)
	if first.Equal(second) {
		t.Error("a new handshake still gets the old certificate")
	}
	ping(t, old) // it goes on
	if n := s.diary.count("the certificate changed"); n != 1 {
		t.Errorf("the change was logged %d times", n)
	}

	// Looking is not done more often than said.
	renew(t, certFile, keyFile)
	if _, third := dial(t, addr, anyServer); !third.Equal(second) {
		t.Error("the files were looked at again within a second")
	}
}

func TestBadChangeKeepsTheOldPair(t *testing.T) {
	for name, spoil := range map[string]func(t *testing.T, certFile, keyFile string){
		"garbage certificate": func(t *testing.T, certFile, _ string) { write(t, certFile, "nonsense") },
		"half a key": func(t *testing.T, _,
			keyFile string) {
			write(t, keyFile, "-----BEGIN PRIVATE KEY-----\nMII")
		},
		"another's key": func(t *testing.T, _, keyFile string) {
			other, otherKey := givenPair(t)
			_ = other
			copyFile(t, otherKey, keyFile)
		},
		"no file": func(t *testing.T, certFile, _ string) {
			if err := os.Remove(certFile); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			certFile, keyFile := givenPair(t)
			s := mustOpen(t, certFile, keyFile, "", startClock())
			addr := echo(t, s.Config())
			_, first := dial(t, addr, anyServer)
			spoil(t, certFile, keyFile)
			for range 3 {
				s.clock.pass(lookEvery)
				if _, now := dial(t, addr, anyServer); !now.Equal(first) {
					t.Fatal("another certificate than the good one is used")
				}
			}
			if n := s.diary.count("the old one stays"); n != 1 {
				t.Errorf("what is wrong was logged %d times, want once", n)
			}
			if err := s.Reload(); err == nil || !strings.Contains(err.Error(), filepath.Dir(certFile)) {
				t.Errorf("Reload says %v, and should name the file", err)
			}
			renew(t, certFile, keyFile)
			s.clock.pass(lookEvery)
			if _, now := dial(t, addr, anyServer); now.Equal(first) {
				t.Error("the mended pair is not used")
			}
		})
	}
}

func TestReloadDoesNotWait(t *testing.T) {
	certFile, keyFile := givenPair(t)
	s := mustOpen(t, certFile, keyFile, "", startClock())
	first := s.certificate()
	renew(t, certFile, keyFile)
	if s.certificate() != first {
		t.Fatal("the files were looked at again within a second")
	}
	if err := s.Reload(); err != nil {
		t.Fatal(err)
	}
	if s.certificate() == first {
		t.Error("Reload kept the old pair")
	}
}

func TestOpenRefuses(t *testing.T) {
	certFile, keyFile := givenPair(t)
	_, otherKey := givenPair(t)
	garbage := filepath.Join(t.TempDir(), "garbage")
	write(t, garbage, "nonsense\n")
	huge := filepath.Join(t.TempDir(), "huge")
	write(t, huge, strings.Repeat("x", maxFileBytes+1))
	folder, missing := t.TempDir(), filepath.Join(t.TempDir(), "missing")
	for name, c := range map[string]struct{ cert, key, says string }{
		"certificate alone":   {certFile, "", "tls_key_path: is empty"},
		"key alone":           {"", keyFile, "tls_cert_path: is empty"},
		"missing certificate": {missing, keyFile, missing},
		"missing key":         {certFile, missing, missing},
		"garbage certificate": {garbage, keyFile, garbage + ": has no CERTIFICATE"},
		"garbage key":         {certFile, garbage, garbage + ": has no PRIVATE KEY"},
		"key as certificate":  {keyFile, keyFile, keyFile + ": has no CERTIFICATE"},
		"another key": {certFile, otherKey, otherKey + ": is not the key of the certificate in " +
			certFile},
		"folder as certificate":   {folder, keyFile, folder},
		"folder as key":           {certFile, folder, folder},
		"far too large for a key": {certFile, huge, huge + ": is over"},
	} {
		if _, err := openAt(t, c.cert, c.key, "", startClock()); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, which does not say %q", name, err, c.says)
		}
	}
}

func TestDevPairIsMadeOnceAndRenewed(t *testing.T) {
	dir, at := filepath.Join(t.TempDir(), "data"), startClock()
	s := mustOpen(t, "", "", dir, at)
	if s.CertFile() != filepath.Join(dir, "dev-cert.pem") {
		t.Errorf("the certificate is in %s", s.CertFile())
	}
	for _, name := range []string{"dev-cert.pem", "dev-key.pem"} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: mode %v, %v", name, info.Mode(), err)
		}
	}
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	leaf := s.certificate().Leaf
	pool.AddCert(leaf)
	for _, name := range []string{"localhost", "127.0.0.1", "::1", host} {
		if _, err := leaf.Verify(x509.VerifyOptions{Roots: pool, DNSName: name}); err != nil {
			t.Errorf("for %s: %v", name, err)
		}
	}

	at.pass(devLife - devRenew - time.Hour)
	again := mustOpen(t, "", "", dir, at)
	if !again.certificate().Leaf.Equal(leaf) {
		t.Error("the next start made another certificate")
	}
	at.pass(2 * time.Hour)
	if renewed := mustOpen(t, "", "", dir, at).pair.Load().Leaf; renewed.Equal(leaf) {
		t.Error("a start within a week of the end kept the certificate")
	}
	// The one that runs sees the new files, and renews them itself when it must.
	if s.certificate().Leaf.Equal(leaf) {
		t.Error("the running one kept the certificate that runs out")
	}
	now := again.certificate().Leaf
	at.pass(devLife)
	if again.certificate().Leaf.Equal(now) {
		t.Error("the running one did not renew")
	}
}

func TestDevPairThatIsHalfThere(t *testing.T) {
	for _, name := range []string{"dev-cert.pem", "dev-key.pem"} {
		dir := t.TempDir()
		mustOpen(t, "", "", dir, startClock())
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
		mustOpen(t, "", "", dir, startClock())
	}
	dir := t.TempDir()
	mustOpen(t, "", "", dir, startClock())
	_, otherKey := givenPair(t)
	copyFile(t, otherKey, filepath.Join(dir, "dev-key.pem"))
	mustOpen(t, "", "", dir, startClock())
}

func TestDevPairThatIsSpoiled(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(dir string) error
		says  string
	}{
		"garbage certificate": {func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "dev-cert.pem"), []byte("x"), 0o600)
		}, "dev-cert.pem: has no CERTIFICATE"},
		"garbage key": {func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "dev-key.pem"), []byte("x"), 0o600)
		}, "dev-key.pem: has no PRIVATE KEY"},
		"key for all to read": {func(dir string) error {
			return os.Chmod(filepath.Join(dir, "dev-key.pem"), 0o644)
		}, "dev-key.pem: has mode 0644"},
	} {
		dir := t.TempDir()
		mustOpen(t, "", "", dir, startClock())
		if err := c.spoil(dir); err != nil {
			t.Fatal(err)
		}
		if _, err := openAt(t, "", "", dir, startClock()); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, which does not say %q", name, err, c.says)
		}
	}
}

func TestVersions(t *testing.T) {
	addr := echo(t, mustOpen(t, "", "", t.TempDir(), startClock()).Config())
	if c, _ := dial(t, addr, anyServer); c.ConnectionState().Version != tls.VersionTLS13 {
		t.Errorf("version %x is spoken by default", c.ConnectionState().Version)
	}
	if c, _ := dial(t, addr, &tls.Config{InsecureSkipVerify: true,
		MaxVersion: tls.VersionTLS12}); c.ConnectionState().Version != tls.VersionTLS12 {
		t.Error("TLS 1.2 is not spoken")
	}
	old := &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}
	if c, err := tls.Dial("tcp", addr, old); err == nil {
		c.Close()
		t.Error("TLS 1.1 is spoken")
	}
}

func TestClientsMustShowACertificate(t *testing.T) {
	s := mustOpen(t, "", "", t.TempDir(), startClock())
	if err := s.VerifyClients(s.keyFile); err == nil ||
		!strings.Contains(err.Error(), s.keyFile+": has no certificate") {
		t.Errorf("a key as authority: %v", err)
	}
	if err := s.VerifyClients("/nowhere/ca.pem"); err == nil || !strings.Contains(err.Error(), "/nowhere/ca.pem") {
		t.Errorf("no file: %v", err)
	}
	ca, signed := authority(t)
	if err := s.VerifyClients(ca); err != nil {
		t.Fatal(err)
	}
	addr := echo(t, s.Config())
	c, _ := dial(t, addr, &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{*signed}})
	ping(t, c)
	_, stranger := authority(t)
	for name, certs := range map[string][]tls.Certificate{"none": nil, "of another authority": {*stranger}} {
		c, err := tls.Dial("tcp", addr, &tls.Config{InsecureSkipVerify: true, Certificates: certs})
		if err == nil { // TLS 1.3: the refusal comes with the first read
			_ = c.SetDeadline(time.Now().Add(60 * time.Second))
			_, err = c.Read(make([]byte, 1))
			c.Close()
		}
		if err == nil || !strings.Contains(fmt.Sprint(err), "certificate") && !strings.Contains(fmt.Sprint(err),
			"unknown") {
			t.Errorf("certificate %s: %v", name, err)
		}
	}
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
