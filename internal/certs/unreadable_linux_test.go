package certs

import (
	"os"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestUnreadableKeyIsNamed: a key that may not be read, also when root is who may not.
func TestUnreadableKeyIsNamed(t *testing.T) {
	certFile, keyFile := givenPair(t)
	if err := os.Chmod(keyFile, 0); err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() {
		// The thread ends with this goroutine, and nothing else ever runs on it.
		runtime.LockOSThread()
		if err := obey(); err != nil {
			done <- err
			return
		}
		_, err := openAt(t, certFile, keyFile, "", startClock())
		done <- err
	}()
	if err := <-done; err == nil || !strings.Contains(err.Error(), keyFile+": permission denied") {
		t.Errorf("an unreadable key: %v", err)
	}
}

// obey has the permissions of files hold for this thread, whoever runs it.
func obey() error {
	self := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var may [2]unix.CapUserData
	if err := unix.Capget(&self, &may[0]); err != nil {
		return err
	}
	may[0].Effective &^= 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_DAC_READ_SEARCH
	return unix.Capset(&self, &may[0])
}
