package ceiling

import (
	"bytes"
	"io"
	"net"
	"os"
	"testing"
	"time"
)

// TestEcho: what is sent comes back, all of it and in order.
func TestEcho(t *testing.T) {
	e, err := NewEcho("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("tcp", e.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	sent := bytes.Repeat([]byte("0123456789"), 10_000)
	go c.Write(sent)
	got := make([]byte, len(sent))
	if _, err := io.ReadFull(c, got); err != nil || !bytes.Equal(got, sent) {
		t.Errorf("what comes back differs (%v)", err)
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	if _, err := net.Dial("tcp", e.Addr()); err == nil {
		t.Error("a closed echo takes connections")
	}
}

// TestDisk: entries are written, in a file that keeps its size and goes away.
func TestDisk(t *testing.T) {
	dir := t.TempDir()
	d, err := NewDisk(dir)
	if err != nil {
		t.Fatal(err)
	}
	rate, err := d.PerSecond(50 * time.Millisecond)
	if err != nil || rate <= 0 {
		t.Errorf("%.0f entries a second, %v", rate, err)
	}
	var first [1]byte
	if _, err := d.file.ReadAt(first[:], 0); err != nil || first[0] != 1 {
		t.Errorf("the first entry begins with %d, %v", first, err)
	}
	if info, err := d.file.Stat(); err != nil || info.Size() != diskBytes {
		t.Errorf("the file is %v, %v", info, err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
