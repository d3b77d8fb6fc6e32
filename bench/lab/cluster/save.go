package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pathlockd/pathlockd/bench/session"
	"github.com/pathlockd/pathlockd/groups/backup"
	"github.com/pathlockd/pathlockd/groups/rows"
	"github.com/pathlockd/pathlockd/wire"
)

const (
	// saveTries is how often the images of all logs are taken because rules were changed
	// between them.
	saveTries = 10
	saveRest  = 50 * time.Millisecond
)

// Saved is a backup that was taken: its images were opened between the two times.
type Saved struct {
	From, To time.Duration
	Locks    int
}

// ErrBackup says that a backup is not what it must be.
var ErrBackup = errors.New("a backup that was saved is damaged")

// saver takes a backup.
type saver struct {
	c     Cluster
	first int // node that is asked first for each log
	conns map[int]*saving
}

// saving is a connection to a node that has images open.
type saving struct {
	Conn
	s *session.Session
}

// image is one that is open.
type image struct {
	*wire.Backup
	at *saving
}

// Backup saves the cluster as target and verifies what it saved. Each log is read from the
// first node, from the given one on, that has a replica. It fails while leaders change.
func Backup(ctx context.Context, c Cluster, node int, target string, now func() time.Duration) (_ *Saved, err error) {
	w, err := backup.Create(target)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.Abort()) }()
	s := &saver{c: c, first: node, conns: make(map[int]*saving)}
	defer s.hangUp()
	saved := new(Saved)
	images, err := s.shoot(ctx, saved, now)
	if err != nil {
		return nil, err
	}
	for _, im := range images {
		if err := im.fetch(ctx, w); err != nil {
			return nil, err
		}
	}
	if _, err := w.Commit("lab", false); err != nil {
		return nil, err
	}
	r, err := backup.Verify(ctx, target)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBackup, err)
	}
	t := r.Total()
	saved.Locks = t.Writes + t.Shared
	return saved, nil
}

func (s *saver) hangUp() {
	for _, conn := range s.conns {
		conn.Close()
	}
}

// shoot opens images of all logs between which no rules changed.
func (s *saver) shoot(ctx context.Context, saved *Saved, now func() time.Duration) ([]image, error) {
	for range saveTries {
		saved.From = now()
		images, err := s.round(ctx)
		saved.To = now()
		if err != nil {
			return nil, err
		}
		last := images[len(images)-1]
		if last.Changes == images[0].Changes {
			return images[:len(images)-1], last.close(ctx)
		}
		for _, im := range images {
			if err := im.close(ctx); err != nil {
				return nil, err
			}
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(saveRest):
		}
	}
	return nil, fmt.Errorf("rules were changed between the images of all logs, %d times", saveTries)
}

// round opens an image of each log, and another one of the system log.
func (s *saver) round(ctx context.Context) (images []image, err error) {
	system, err := s.open(ctx, wire.SystemLog)
	if err != nil {
		return nil, err
	}
	images = append(images, system)
	for _, log := range append(rows.LogsOf(int(system.LogCount))[1:], wire.SystemLog) {
		im, err := s.open(ctx, log)
		if err != nil {
			return nil, err
		}
		images = append(images, im)
	}
	return images, nil
}

// open opens an image of a log at the first node that has a replica.
func (s *saver) open(ctx context.Context, log uint64) (image, error) {
	var last error
	for i := range s.c.Nodes() {
		at, err := s.reach(ctx, (s.first+i)%s.c.Nodes())
		if err == nil {
			var res *wire.Result
			if res, err = at.ask(ctx, &wire.Request{Op: wire.OpBackupOpen, Target: log}); err == nil {
				return image{res.List.Backup, at}, nil
			}
		}
		last = err
	}
	return image{}, fmt.Errorf("log %d: %w", log, last)
}

func (s *saver) reach(ctx context.Context, node int) (*saving, error) {
	if at := s.conns[node]; at != nil {
		return at, nil
	}
	at := &saving{s: session.New()}
	var err error
	if at.Conn, err = s.c.Dial(ctx, node, at.s); err != nil {
		return nil, err
	}
	s.conns[node] = at
	return at, nil
}

func (at *saving) ask(ctx context.Context, req *wire.Request) (*wire.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, orderWithin)
	defer cancel()
	res, err := at.Ask(ctx, at.s.Next(), req, nil)
	if err == nil && res.Err() != nil {
		err = res.Err()
	}
	return res, err
}

func (im *image) close(ctx context.Context) error {
	_, err := im.at.ask(ctx, &wire.Request{Op: wire.OpBackupClose, Target: im.ID})
	return err
}

// fetch reads an image into its file.
func (im *image) fetch(ctx context.Context, w *backup.Writer) (err error) {
	l, err := w.Log(im.Backup)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	for cursor, done := []byte(nil), false; !done; {
		res, err := im.at.ask(ctx, &wire.Request{Op: wire.OpBackupRead, Target: im.ID, Cursor: cursor})
		if err != nil {
			return err
		}
		if _, err := l.Write(res.List.Rows); err != nil {
			return err
		}
		cursor, done = res.List.Cursor, res.Done
	}
	return im.close(ctx)
}
