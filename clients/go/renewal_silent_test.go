package pathlockd

import (
	"testing"
	"time"
)

// TestRenewalOnASilentConnection: a renewal goes out on a connection on which nothing was answered for about a grace,
// as the machine slept. It ties the lease to it from now on, or never gets there: nothing of the lease has ended by
// that, be it answered or fail.
func TestRenewalOnASilentConnection(t *testing.T) {
	const now = time.Hour
	whole, silent := new(tie), new(tie)
	whole.prove(now)
	silent.prove(now - DefaultGrace)
	l := &lease{grace: DefaultGrace, sure: now + 10*time.Second, ties: []*tie{whole}}
	l.sent.Store(&tieFrom{silent, now})
	if at := l.deadline(); at != l.sure {
		t.Errorf("while its renewal is under way it lasts %v more, not %v", at-now, l.sure-now)
	}
	l.bindTo(silent, now) // as land does, with an error
	l.sent.Store(nil)
	if at := l.deadline(); at != l.sure {
		t.Errorf("when its renewal has failed it lasts %v more, not %v", at-now, l.sure-now)
	}
	l.sent.Store(&tieFrom{silent, now})
	l.sure = now + time.Hour
	if at := l.deadline(); at > now+DefaultGrace {
		t.Errorf("it lasts %v more: that connection may end, and with it the grace", at-now)
	}
	l.hang(silent) // by what was carried out before
	if at := l.deadline(); at > now {
		t.Errorf("it lasts %v more, and hung on the silent connection before", at-now)
	}
}
