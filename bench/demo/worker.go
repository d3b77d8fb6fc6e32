package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	pathlockd "github.com/pathlockd/pathlockd/clients/go"
)

const (
	leaseTTL  = time.Second            // short, so that a stop outlasts it
	grace     = 500 * time.Millisecond // locks of a killed worker are free after it
	lockFor   = 3 * time.Second        // how long a worker waits for a lock before it picks another
	think     = 2 * time.Millisecond   // at most, between read and write
	sayEvery  = 100 * time.Millisecond
	oneInMove = 20 // of what a worker does, one in so many is a rename
	oneInBox  = 40 // and one is an increment of all files of a box, under one lock
)

// tally counts what a worker did, as it tells its supervisor.
type tally struct{ adds, moves, stale, gone, lost int64 }

const tallyFormat = "did %d %d %d %d %d"

// worker is one worker process.
type worker struct {
	*job
	layout layout
	tree   resource
	log    *journal
	c      *pathlockd.Client
	rng    *rand.Rand
	seq    int
	pause  atomic.Bool                        // asked to stop itself between the next read and write
	want   atomic.Pointer[string]             // a file to increment next
	wait   atomic.Pointer[context.CancelFunc] // ends the wait for a lock
	woken  chan os.Signal                     // says that the process goes on after a stop
	tally  tally
	out    io.Writer
	said   time.Time
}

// work is the main function of a worker process. It ends when its input does.
func (j *job) work(in io.Reader, out io.Writer) error {
	w := &worker{
		job: j, layout: layoutOf(j.files), rng: rand.New(rand.NewPCG(j.seed, 0)), out: out,
		tree: resource{dir: filepath.Join(j.dir, treeDir), fenced: j.fenced},
	}
	w.woken = make(chan os.Signal, 1)
	signal.Notify(w.woken, syscall.SIGCONT)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	go func() {
		w.obey(in)
		stop()
	}()
	var err error
	if w.log, err = openJournal(filepath.Join(j.dir, journalDir), j.name); err != nil {
		return err
	}
	if w.c, err = pathlockd.Dial(ctx, j.addr, pathlockd.WithGrace(grace), pathlockd.WithName("demo/1")); err != nil {
		if ctx.Err() != nil {
			return nil // it was over before it began
		}
		return err
	}
	defer func() { _ = w.c.Close() }()
	for ctx.Err() == nil {
		if err := w.step(ctx); err != nil && ctx.Err() == nil {
			return err
		}
		w.say(false)
	}
	w.say(true)
	return nil
}

// obey takes what the supervisor says, until there is no more.
func (w *worker) obey(in io.Reader) {
	s := bufio.NewScanner(in)
	for s.Scan() {
		if file, is := strings.CutPrefix(s.Text(), wantWord); is {
			w.want.Store(&file)
		} else if s.Text() == stopWord {
			w.pause.Store(true)
		}
		if end := w.wait.Load(); end != nil {
			(*end)() // it comes first
		}
	}
}

// What a supervisor says to a worker, and a worker to its supervisor.
const (
	stopWord    = "stop"     // stop yourself, between the next read and write
	wantWord    = "want "    // increment this file next
	stoppedWord = "stopped " // I stop myself, with that file read and not written
	wantedWord  = "wanted "  // I did that, or the file is gone; without it: the lock was not to be had
)

// say tells the supervisor what was done.
func (w *worker) say(now bool) {
	if !now && time.Since(w.said) < sayEvery {
		return
	}
	w.said = time.Now()
	t := &w.tally
	fmt.Fprintf(w.out, tallyFormat+"\n", t.adds, t.moves, t.stale, t.gone, t.lost)
}

func (w *worker) step(ctx context.Context) error {
	box, err := w.layout.pickBox(w.tree.dir, w.rng)
	if err != nil {
		return err
	}
	chosen := w.pause.Load() || w.want.Load() != nil
	switch {
	case !chosen && w.rng.IntN(oneInMove) == 0:
		to := w.layout.pickName(w.tree.dir, w.rng)
		return w.locked(ctx, func(token int64) error { return w.move(box, to, token) }, box, to)
	case !chosen && w.rng.IntN(oneInBox) == 0:
		return w.locked(ctx, func(token int64) error { return w.addAll(box, token) }, box)
	}
	file := box + "/" + fileName(w.rng.IntN(boxFiles))
	if want := w.want.Swap(nil); want != nil {
		before := w.tally
		err := w.locked(ctx, func(token int64) error { return w.add(*want, token, false) }, *want)
		if w.tally.adds == before.adds && w.tally.gone == before.gone {
			*want = "" // the lock was not to be had
		}
		fmt.Fprintln(w.out, wantedWord+*want)
		return err
	}
	return w.locked(ctx, func(token int64) error { return w.add(file, token, true) }, file)
}

// locked does something with a lock on some paths of the tree.
func (w *worker) locked(ctx context.Context, do func(token int64) error, names ...string) error {
	var paths []pathlockd.Path
	for _, n := range names {
		paths = append(paths, pathlockd.Path{Path: namespace + "/" + n})
	}
	short, cancel := context.WithTimeout(ctx, lockFor)
	w.wait.Store(&cancel)
	l, err := w.c.LockAll(short, paths, pathlockd.TTL(leaseTTL))
	cancel()
	if err != nil {
		return nil // somebody has it for long, or the server is away: another path then
	}
	err = do(l.Token())
	if e := l.Unlock(); pathlockd.IsLost(e) {
		w.tally.lost++
	}
	return err
}

// add increments a file: it reads what is there, takes its time, and writes one
// more. It does not ask whether the lock is still held. It could, and would be right
// most of the time; but it can always be stopped between the answer and the write.
func (w *worker) add(file string, token int64, pauses bool) error {
	b, err := w.tree.read(file, token)
	if err != nil {
		return w.foreseen(err)
	}
	c, err := decodeContent(b)
	if err != nil {
		return fmt.Errorf("read %s: %w", file, err)
	}
	if pauses {
		w.thought(file)
	}
	w.seq++
	if err := w.log.add(w.seq, c.id, token); err != nil {
		return err
	}
	c.marks = append(c.marks, mark{w.name, w.seq, token})
	err = w.tree.write(file, token, c.encode())
	if err == nil {
		w.tally.adds++
	}
	return w.ended(err)
}

// addAll increments all files of a box that is locked as a whole.
func (w *worker) addAll(box string, token int64) error {
	if err := w.tree.enter(box, token); err != nil {
		return w.foreseen(err)
	}
	for i := range boxFiles {
		if err := w.add(box+"/"+fileName(i), token, false); err != nil {
			return err
		}
	}
	return nil
}

// thought passes the time between a read and a write. If it was asked to, the worker
// stops itself here, which is where it hurts.
func (w *worker) thought(file string) {
	if w.pause.Swap(false) {
		select {
		case <-w.woken: // from an earlier stop
		default:
		}
		fmt.Fprintln(w.out, stoppedWord+file)
		_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP) // it is ourselves
		<-w.woken                                      // the stop comes to this thread a little later than to others
		return
	}
	t := time.NewTimer(time.Duration(w.rng.Int64N(int64(think))))
	defer t.Stop()
	<-t.C
}

// move renames a box.
func (w *worker) move(from, to string, token int64) error {
	b, err := os.ReadFile(filepath.Join(w.tree.dir, from, fileName(0)))
	if err != nil {
		return w.foreseen(err)
	}
	c, err := decodeContent(b)
	if err != nil {
		return fmt.Errorf("read %s: %w", from, err)
	}
	w.seq++
	if err := w.log.move(w.seq, c.id, token, from, to); err != nil {
		return err
	}
	err = w.tree.rename(from, to, token)
	if err == nil {
		w.tally.moves++
	}
	return w.ended(err)
}

// ended writes down what became of a step.
func (w *worker) ended(err error) error {
	how := done
	switch {
	case errors.Is(err, errStale):
		how = stale
	case err != nil:
		how = gone
	}
	if e := w.log.end(w.seq, how); e != nil {
		return e
	}
	return w.foreseen(err)
}

// foreseen counts errors that belong to the game, and answers others.
func (w *worker) foreseen(err error) error {
	switch {
	case errors.Is(err, errStale):
		w.tally.stale++
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrExist):
		w.tally.gone++ // somebody renamed the box before the lock was there
	default:
		return err
	}
	return nil
}
