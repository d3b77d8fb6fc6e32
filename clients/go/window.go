package pathlockd

import (
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// windows is how many calls may be unanswered on a connection.
type windows struct {
	all     int // of those that do not wait
	users   int // what users' requests may take of it; the rest is the keeper's
	waiting int
	frame   int           // bytes of a payload
	repeat  time.Duration // how long the server remembers the session
	subs    int
}

// reserve is the share of the window that users' requests leave to renewals: one
// in reserve.
const reserve = 16

func windowsOf(l *wire.Limits, asked int) windows {
	w := windows{
		all: int(min(l.InFlight, 1<<20)), waiting: int(min(l.Waiting, 1<<20)),
		frame:  int(min(l.FrameBytes, wire.MaxFrameBytes)),
		repeat: time.Duration(min(l.RepeatMillis, wire.MaxTTLMillis)) * time.Millisecond,
		subs:   int(min(l.Subscriptions, 1<<20)),
	}
	if asked > 0 {
		w.all = min(w.all, asked)
	}
	w.all, w.waiting = max(w.all, 1), max(w.waiting, 1)
	w.users = w.all
	if w.all > 1 {
		w.users -= max(1, w.all/reserve)
	}
	return w
}

// open reports whether there is room for a request of the program, when it has own of flying that are under way: for
// so many as may be in all (most), and for as many of it as it leaves to shares.
func (w *windows) open(flying, own, most int) bool {
	return flying < most || own < w.all-w.users && flying < w.all
}

// spare is what a share that has something leaves of the reserve.
func (w *windows) spare() int {
	if w.all-w.users < 2 {
		return 0
	}
	return max(1, (w.all-w.users)/8)
}

// ordered is what may be under way when a request of the program that goes ahead is sent: a half of the reserve, too.
func (w *windows) ordered() int { return w.users + (w.all-w.users+1)/2 }
