package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"golang.org/x/term"

	pathlockd "github.com/pathlockd/pathlockd/clients/go"
	"github.com/pathlockd/pathlockd/groups/backup"
	"github.com/pathlockd/pathlockd/groups/rows"
	"github.com/pathlockd/pathlockd/wire"
)

const (
	// saveTries is how often images of all logs are taken anew because a policy was
	// changed between them; saveRest is how long to wait before.
	saveTries = 20
	saveRest  = 250 * time.Millisecond
	// awakeEvery is how often nodes hear of images that are not read yet: they close
	// those of a connection that reads none for 60 s.
	awakeEvery = 15 * time.Second
	// tellEvery is how often people are told how far a backup is.
	tellEvery = 200 * time.Millisecond
)

// saver takes a backup.
type saver struct {
	a     *app
	local bool
	self  *pathlockd.Client
	where *wire.ClusterStatus          // nil: to be asked for
	nodes map[string]*pathlockd.Client // that were connected to, by node id; nil for one that was not reached
	told  time.Time
	awake time.Time // when nodes were kept from closing what is not read yet
}

// shot is an image that a node has open.
type shot struct {
	c *pathlockd.Client
	*wire.Backup
}

// save saves a backup to a directory.
func (a *app) save(ctx context.Context, target string, local bool) (_ *savedData, err error) {
	began := time.Now()
	w, err := backup.Create(target)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.Abort()) }()
	s := &saver{a: a, local: local, nodes: make(map[string]*pathlockd.Client)}
	defer s.hangUp()
	if s.self, err = a.dial(ctx); err != nil {
		return nil, err
	}
	shots, err := s.shoot(ctx)
	if err != nil {
		return nil, err
	}
	for i := range shots {
		if err := s.fetch(ctx, w, shots, i); err != nil {
			return nil, err
		}
	}
	m, err := w.Commit(s.self.ServerInfo().Version, local)
	s.tell(true, "")
	if err != nil {
		return nil, err
	}
	data := &savedData{Directory: target, ClusterID: m.ClusterID, Logs: len(m.Logs), Bytes: m.Bytes(), Local: local,
		TookMillis: time.Since(began).Milliseconds()}
	for i := range m.Logs {
		data.Rows += m.Logs[i].Rows
	}
	return data, nil
}

func (s *saver) hangUp() {
	if s.self != nil {
		s.self.Close()
	}
	for _, c := range s.nodes {
		if c != nil && c != s.self {
			c.Close()
		}
	}
}

// ask asks one request within the time that a server has to answer.
func (s *saver) ask(ctx context.Context, c *pathlockd.Client, req *wire.Request) (*wire.Result, error) {
	ctx, cancel := s.a.limited(ctx)
	defer cancel()
	return c.Do(ctx, req)
}

// shoot opens images of all logs that fit together: no policy changed between them.
// It tries again, too, when replicas move from node to node meanwhile.
func (s *saver) shoot(ctx context.Context) ([]shot, error) {
	var moved error
	for range saveTries {
		shots, fit, err := s.round(ctx)
		if fit {
			return shots, nil
		}
		var refused *wire.Error
		if moved = err; err != nil && (s.local || !errors.As(err, &refused) ||
			refused.Code != wire.FailedPrecondition) {
			return nil, err
		}
		s.where = nil
		for i := range shots {
			if err := s.close(ctx, &shots[i]); err != nil {
				return nil, err
			}
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(saveRest):
		}
	}
	if moved != nil {
		return nil, moved
	}
	f := &failure{exit: ExitFailed, code: wire.FailedPrecondition.String(),
		message: "policies are changed all the time: no images of all logs fit together"}
	return nil, f.hinted("take the backup while nobody changes policies")
}

// round opens images of all logs, and says whether they fit together. Those that do
// not are the caller's to close.
func (s *saver) round(ctx context.Context) (shots []shot, fit bool, err error) {
	first, err := s.open(ctx, wire.SystemLog)
	if err != nil {
		return nil, false, err
	}
	shots = append(shots, first)
	for _, log := range rows.LogsOf(int(first.LogCount))[1:] {
		one, err := s.open(ctx, log)
		if err != nil {
			return shots, false, err
		}
		shots = append(shots, one)
	}
	last, err := s.open(ctx, wire.SystemLog)
	if err != nil {
		return shots, false, err
	}
	return shots, last.Changes == first.Changes, s.close(ctx, &last)
}

// open opens an image of a log on a node that has it: its leader, or else any.
func (s *saver) open(ctx context.Context, log uint64) (shot, error) {
	var refusal error
	for _, c := range s.candidates(ctx, log) {
		res, err := s.ask(ctx, c, &wire.Request{Op: wire.OpBackupOpen, Target: log, Explicit: s.local})
		var refused *wire.Error
		switch {
		case err == nil && res.List != nil && res.List.Backup != nil && res.List.Backup.Log == log:
			return shot{c, res.List.Backup}, nil
		case err == nil:
			return shot{}, fmt.Errorf("backup_open of log %d: answers no image of it", log)
		case !errors.As(err, &refused):
			return shot{}, err
		case refused.Code == wire.Unimplemented:
			f := &failure{exit: ExitFailed, code: refused.Code.String(), message: "the server does not know backups"}
			return shot{}, f.hinted("run the same version of pathlockd and pathlock")
		}
		refusal = err
	}
	if refusal == nil {
		refusal = fmt.Errorf("no node that leads log %d was reached", log)
	}
	return shot{}, refusal
}

// candidates are the nodes to ask for a log, the likeliest first.
func (s *saver) candidates(ctx context.Context, log uint64) []*pathlockd.Client {
	if s.local {
		return []*pathlockd.Client{s.self}
	}
	if s.where == nil {
		ask, cancel := s.a.limited(ctx)
		defer cancel()
		var err error
		if s.where, err = s.self.ClusterStatus(ask); err != nil {
			return []*pathlockd.Client{s.self}
		}
	}
	var names []string
	for i := range s.where.Logs {
		if l := &s.where.Logs[i]; l.Log == log && l.Leader != "" {
			names = append(names, l.Leader)
		}
	}
	names = append(names, s.where.Self)
	for i := range s.where.Nodes {
		if n := &s.where.Nodes[i]; n.Alive {
			names = append(names, n.NodeID)
		}
	}
	var all []*pathlockd.Client
	for _, name := range names {
		if c := s.reach(ctx, name); c != nil && !slices.Contains(all, c) {
			all = append(all, c)
		}
	}
	return all
}

// reach connects to a node, once; nil when that does not work.
func (s *saver) reach(ctx context.Context, name string) *pathlockd.Client {
	if name == s.where.Self {
		return s.self
	}
	c, known := s.nodes[name]
	if known {
		return c
	}
	at := slices.IndexFunc(s.where.Nodes, func(n wire.NodeStatus) bool {
		return n.NodeID == name &&
			n.NativeAddr != ""
	})
	if at >= 0 {
		there := *s.a
		there.addr = s.where.Nodes[at].NativeAddr
		c, _ = there.dial(ctx)
	}
	s.nodes[name] = c
	return c
}

func (s *saver) close(ctx context.Context, one *shot) error {
	_, err := s.ask(ctx, one.c, &wire.Request{Op: wire.OpBackupClose, Target: one.ID})
	return err
}

// fetch reads an image into its file. Those after it are read later.
func (s *saver) fetch(ctx context.Context, w *backup.Writer, shots []shot, nth int) (err error) {
	one := &shots[nth]
	l, err := w.Log(one.Backup)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	var cursor []byte
	for got := int64(0); ; {
		s.tell(false, fmt.Sprintf("log %d of %d: %s", nth+1, len(shots), size(got)))
		if err := s.keepAwake(ctx, one.c, shots[nth+1:]); err != nil {
			return err
		}
		res, err := s.ask(ctx, one.c, &wire.Request{Op: wire.OpBackupRead, Target: one.ID, Cursor: cursor})
		if err != nil {
			return err
		}
		if res.List == nil || len(res.List.Rows) == 0 {
			return fmt.Errorf("backup_read of log %d: answers nothing", one.Log)
		}
		if _, err := l.Write(res.List.Rows); err != nil {
			return err
		}
		got += int64(len(res.List.Rows))
		if cursor = res.List.Cursor; res.Done {
			return s.close(ctx, one)
		}
	}
}

// keepAwake asks each other node for the first page of an image that it has open, now
// and then: that page may be asked for again.
func (s *saver) keepAwake(ctx context.Context, at *pathlockd.Client, later []shot) error {
	if time.Since(s.awake) < awakeEvery {
		return nil
	}
	s.awake = time.Now()
	asked := []*pathlockd.Client{at}
	for i := range later {
		one := &later[i]
		if slices.Contains(asked, one.c) {
			continue
		}
		asked = append(asked, one.c)
		if _, err := s.ask(ctx, one.c, &wire.Request{Op: wire.OpBackupRead, Target: one.ID}); err != nil {
			return fmt.Errorf("the image of log %d: %w", one.Log, err)
		}
	}
	return nil
}

// tell tells people at a terminal how far it is, on one line.
func (s *saver) tell(end bool, text string) {
	f, ok := s.a.stderr.(*os.File)
	if !ok || s.a.json || !term.IsTerminal(int(f.Fd())) {
		return
	}
	if now := time.Now(); end || now.Sub(s.told) >= tellEvery {
		s.told = now
		fmt.Fprintf(f, "\r\x1b[K%s", text)
	}
}
