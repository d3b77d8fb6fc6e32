package web

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pathlockd/pathlockd/wire"
)

// testLog is a log with a clock that the test sets.
type testLog struct {
	*EventLog
	time time.Duration
}

func newTestLog(capacity int, first uint64) *testLog {
	l := &testLog{EventLog: NewEventLog(capacity, first)}
	l.now = func() time.Duration { return l.time }
	return l
}

// all reads what a reader gets now.
func all(r *reader) (ids []uint64, err error) {
	for {
		got, err := r.take(make([]event, 0, 3))
		for _, e := range got {
			ids = append(ids, e.id)
		}
		select {
		case <-r.more:
			if err == nil {
				continue
			}
		default:
		}
		return ids, err
	}
}

type fataler interface {
	Helper()
	Fatal(args ...any)
}

// resume attaches, reads and detaches.
func (l *testLog) resume(t fataler, owner string, after uint64) (ids []uint64, missed *gap) {
	t.Helper()
	r, missed, err := l.attach(nil, owner, true, after)
	if err != nil {
		t.Fatal(err)
	}
	defer r.detach()
	ids, err = all(r)
	if err != nil {
		t.Fatal(err)
	}
	return ids, missed
}

func (l *testLog) addAll(owner string, n int) {
	for range n {
		l.Add(owner, wire.EventGrant)
	}
}

func TestEventLogResumes(t *testing.T) {
	const first = 7 << 32
	for _, c := range []struct {
		name     string
		first    uint64
		capacity int
		events   int
		after    uint64
		ids      string
		gap      string
	}{
		{"from the beginning", 0, 8, 3, 0, "[1 2 3]", ""},
		{"from the middle", 0, 8, 3, 2, "[3]", ""},
		{"from the end", 0, 8, 3, 3, "[]", ""},
		{"nothing yet", 0, 8, 0, 0, "[]", ""},
		{"just what is kept", 0, 3, 5, 2, "[3 4 5]", ""},
		{"what came before is gone", 0, 3, 5, 1, "[3 4 5]", "{1 3}"},
		{"far behind", 0, 3, 1000, 0, "[998 999 1000]", "{0 998}"},
		{"from the future", 0, 8, 3, 9, "[1 2 3]", "{9 1}"},
		{"from the future, with nothing here", 0, 8, 0, 9, "[]", "{9 1}"},
		{"of an earlier run", first, 8, 2, 5, fmt.Sprint([]int{first + 1, first + 2}), fmt.Sprint(gap{5, first + 1})},
		{"of an earlier run, with nothing here", first, 8, 0, 5, "[]", fmt.Sprint(gap{5, first + 1})},
		{"the largest number there is", 0, 8, 1, 1<<64 - 1, "[1]", fmt.Sprint(gap{1<<64 - 1, 1})},
	} {
		l := newTestLog(c.capacity, c.first)
		l.addAll("a", c.events)
		l.addAll("b", 2)
		ids, missed := l.resume(t, "a", c.after)
		told := ""
		if missed != nil {
			told = fmt.Sprint(*missed)
		}
		if fmt.Sprint(ids) != c.ids || told != c.gap {
			t.Errorf("%s: %v, gap %s; want %s, gap %s", c.name, ids, told, c.ids, c.gap)
		}
	}
}

func TestEventLogKeepsSixtySeconds(t *testing.T) {
	l := newTestLog(8, 0)
	l.Add("a", wire.EventKilled)
	l.time = keepFor / 2
	l.Add("a", wire.EventKilled)
	l.time = keepFor - 1
	if ids, missed := l.resume(t, "a", 0); fmt.Sprint(ids) != "[1 2]" || missed != nil {
		t.Errorf("just before: %v, %v", ids, missed)
	}
	l.time = keepFor
	if ids, missed := l.resume(t, "a", 0); fmt.Sprint(ids) != "[2]" || missed == nil || *missed != (gap{0, 2}) {
		t.Errorf("after the first one's time: %v, %v", ids, missed)
	}
}

// An owner that was forgotten goes on where it was.
func TestEventLogNumbersOfTheForgotten(t *testing.T) {
	l := newTestLog(8, 0)
	l.addAll("a", 3)
	l.time += keepFor
	l.resume(t, "a", 3)
	if n := len(l.mu.owners); n != 0 || l.mu.bytes != 0 {
		t.Fatalf("%d owners and %d bytes are kept", n, l.mu.bytes)
	}
	if ids, missed := l.resume(t, "a", 3); len(ids) != 0 || missed != nil {
		t.Errorf("nothing happened: %v, %v", ids, missed)
	}
	l.addAll("a", 1)
	if ids, missed := l.resume(t, "a", 3); fmt.Sprint(ids) != "[4]" || missed != nil {
		t.Errorf("one event: %v, %v", ids, missed)
	}
	if ids, missed := l.resume(t, "a", 1); fmt.Sprint(ids) != "[4]" || missed == nil {
		t.Errorf("after what is gone: %v, %v", ids, missed)
	}
}

func TestEventLogReaderGetsWhatComes(t *testing.T) {
	l := newTestLog(1, 0) // less than may come between two looks
	l.addAll("a", 2)
	r, missed, err := l.attach(nil, "a", false, 0)
	if err != nil || missed != nil {
		t.Fatal(missed, err)
	}
	defer r.detach()
	l.addAll("a", liveEvents)
	l.addAll("b", 5)
	l.Add("a", wire.EventExpired) // a kind that streams do not have
	<-r.more
	ids, err := all(r)
	if err != nil || len(ids) != liveEvents || ids[0] != 3 || ids[len(ids)-1] != liveEvents+2 {
		t.Fatalf("%v, %v", ids, err)
	}
	// It sits on what is forgotten meanwhile.
	l.time += keepFor
	l.addAll("b", 2*liveEvents)
	l.addAll("a", 1)
	if ids, err := all(r); err != nil || fmt.Sprint(ids) != fmt.Sprintf("[%d]", liveEvents+3) {
		t.Fatalf("%v, %v", ids, err)
	}
}

func TestEventLogReaderFallsBehind(t *testing.T) {
	for name, fall := range map[string]func(l *testLog){
		"by number": func(l *testLog) { l.addAll("a", liveEvents+1) },
		"by time": func(l *testLog) {
			l.addAll("a", 2)
			l.time += keepFor
			l.addAll("b", 10)
		},
		"by room": func(l *testLog) {
			l.maxBytes = 10 * (eventCost + ownerCost)
			l.addAll("a", 2)
			for i := range 20 {
				l.addAll(fmt.Sprint("other", i), 1)
			}
		},
	} {
		l := newTestLog(8, 0)
		l.addAll("a", 1)
		r, _, err := l.attach(nil, "a", false, 0)
		if err != nil {
			t.Fatal(err)
		}
		fall(l)
		if ids, err := all(r); !errors.Is(err, errBehind) || len(ids) > 0 {
			t.Errorf("%s: %v, %v", name, ids, err)
		}
		r.detach()
	}
}

// What the node missed is a gap for everybody: who reads, who is away, and who has no
// event that is kept.
func TestEventLogMiss(t *testing.T) {
	l := newTestLog(8, 0)
	l.addAll("a", 3)
	r, _, err := l.attach(nil, "a", false, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer r.detach()
	l.Miss()
	<-r.more
	if ids, err := all(r); !errors.Is(err, errBehind) || len(ids) > 0 {
		t.Errorf("who reads gets %v, %v", ids, err)
	}
	l.addAll("a", 1)
	for owner, want := range map[string]string{"a": "[5]", "never heard of": "[]"} {
		if ids, missed := l.resume(t, owner, 0); missed == nil || fmt.Sprint(ids) != want {
			t.Errorf("%s: %v, %v", owner, ids, missed)
		}
	}
	if ids, missed := l.resume(t, "a", 3); missed == nil || *missed != (gap{3, 5}) || fmt.Sprint(ids) != "[5]" {
		t.Errorf("who was away: %v, %v", ids, missed)
	}
	if ids, missed := l.resume(t, "a", 5); missed != nil || len(ids) > 0 {
		t.Errorf("who saw what came after: %v, %v", ids, missed)
	}
}

func TestEventLogBoundsReaders(t *testing.T) {
	l := newTestLog(8, 0)
	var open []*reader
	attach := func(conn any, owner string) error {
		r, _, err := l.attach(conn, owner, false, 0)
		if err == nil {
			open = append(open, r)
		}
		return err
	}
	for i := range maxReadersConn {
		if err := attach("one", fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := attach("one", "x"); err == nil || !strings.Contains(err.Error(), "the connection has 128") {
		t.Errorf("a connection: %v", err)
	}
	for i := range maxReadersOwner {
		if err := attach(i, "x"); err != nil {
			t.Fatal(err)
		}
	}
	if err := attach(-1, "x"); err == nil || !strings.Contains(err.Error(), "the owner has 256") {
		t.Errorf("an owner: %v", err)
	}
	for i := len(open); i < maxReaders; i++ {
		if err := attach(i+1000, fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := attach(-2, "y"); err == nil || !strings.Contains(err.Error(), "the node has 4096") {
		t.Errorf("the node: %v", err)
	}
	for _, r := range open {
		r.detach()
	}
	if len(l.mu.owners)+len(l.mu.perConn)+l.mu.readers != 0 || l.mu.bytes != 0 {
		t.Errorf("left: %d owners, %d connections, %d readers, %d bytes", len(l.mu.owners), len(l.mu.perConn),
			l.mu.readers, l.mu.bytes)
	}
}

// However many owners there are, memory is bounded.
func TestEventLogMemory(t *testing.T) {
	l := newTestLog(1024, 0)
	pad := strings.Repeat("x", 1000)
	before := heap()
	for i := range 400_000 {
		l.Add(fmt.Sprint(pad, i), wire.EventGrant)
	}
	used := heap() - before
	t.Logf("400 000 owners of 1 KB: %d owners kept, %d MiB counted, %d MiB of heap", len(l.mu.owners),
		l.mu.bytes>>20, used>>20)
	if l.mu.bytes > maxKeptBytes || used > 2*maxKeptBytes {
		t.Errorf("%d bytes are counted and %d used, with %d as the limit", l.mu.bytes, used, maxKeptBytes)
	}
	runtime.KeepAlive(l)
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// modelLog is the rules without any cleverness: every event there ever was, and when.
type modelLog struct {
	events map[string][]modelEvent
}

type modelEvent struct {
	id uint64
	at time.Duration
}

// TestEventLogAgainstModel says of any sequence of events, pauses and resumes: ids
// only grow; who comes back after an event of this run gets each later one, or is told
// of a gap; nobody gets an event that is not after the id it has, unless it is told;
// and what is kept by the rules is not called a gap.
func TestEventLogAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		capacity := rapid.IntRange(1, 6).Draw(t, "capacity")
		l, m := newTestLog(capacity, 0), modelLog{make(map[string][]modelEvent)}
		if l.bucket("a") == l.bucket("b") || l.bucket("a") == l.bucket("c") || l.bucket("b") == l.bucket("c") {
			return // they share their numbers, and so their gaps
		}
		owner := rapid.SampledFrom([]string{"a", "b", "c"})
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				name := owner.Draw(t, "owner")
				l.Add(name, wire.EventRevoke)
				id, seen := l.mu.owners[name].lastID, m.events[name]
				if n := len(seen); n > 0 && id <= seen[n-1].id {
					t.Fatalf("id %d comes after %d", id, seen[n-1].id)
				}
				m.events[name] = append(seen, modelEvent{id, l.time})
			},
			"pause": func(t *rapid.T) {
				l.time += time.Duration(rapid.Int64Range(0, int64(keepFor*2/3)).Draw(t, "pause"))
			},
			"resume": func(t *rapid.T) {
				name := owner.Draw(t, "owner")
				seen := m.events[name]
				if len(seen) == 0 {
					return
				}
				from := rapid.IntRange(0, len(seen)-1).Draw(t, "from")
				ids, missed := l.resume(t, name, seen[from].id)
				var want []uint64
				kept := true
				for i, e := range seen[from+1:] {
					want = append(want, e.id)
					kept = kept && l.time-e.at < keepFor && len(seen)-(from+1+i) <= capacity
				}
				switch {
				case missed == nil && fmt.Sprint(ids) != fmt.Sprint(want):
					t.Fatalf("after %d: %v, and %v happened", seen[from].id, ids, want)
				case missed != nil && kept:
					t.Fatalf("after %d: a gap %v is told, and all of %v is kept", seen[from].id, *missed, want)
				}
			},
		})
	})
}

func BenchmarkEventLogAdd(b *testing.B) {
	for _, readers := range []int{0, 16} {
		b.Run(fmt.Sprint("readers=", readers), func(b *testing.B) {
			l := NewEventLog(1024, 0)
			names := make([]string, 1024)
			for i := range names {
				names[i] = fmt.Sprint("owner-", i)
			}
			for range readers {
				r, _, err := l.attach(nil, names[0], false, 0)
				if err != nil {
					b.Fatal(err)
				}
				defer r.detach()
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				l.Add(names[i%len(names)], wire.EventGrant)
			}
		})
	}
}
