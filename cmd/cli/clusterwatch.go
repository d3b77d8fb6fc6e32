package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/term"

	pathlockd "github.com/pathlockd/pathlockd/clients/go"
	"github.com/pathlockd/pathlockd/wire"
)

// lookWithin is how long one look at the cluster may take while it is watched: the
// server that was asked may be the one that just died.
const lookWithin = 2 * time.Second

// look asks for the cluster's status once.
func (a *app) look(ctx context.Context, c *pathlockd.Client) (*wire.ClusterStatus, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, min(a.timeout, lookWithin), errNoAnswer)
	defer cancel()
	return c.ClusterStatus(ctx)
}

// passing says that to ask again may help: there was no answer, or one that says so.
func passing(err error) bool {
	if f := new(failure); errors.As(err, &f) {
		return f.code == codeUnreachable
	}
	var refused *wire.Error
	return !errors.As(err, &refused) || refused.Code == wire.Unavailable || refused.Code == wire.DeadlineExceeded
}

// watchCluster shows the cluster again and again, most times or, for 0, until ctx
// ends. A look that fails is told, and the next one tried.
func (a *app) watchCluster(ctx context.Context, c *pathlockd.Client, every time.Duration, most uint32, all bool) error {
	s := &screen{a: a, fd: -1}
	if f, ok := a.stdout.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		s.fd = int(f.Fd())
	}
	t := time.NewTicker(every)
	defer t.Stop()
	for n := uint32(1); ; n++ {
		doc, err := a.look(ctx, c)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil && !passing(err):
			return err
		case err != nil:
			s.fault(err)
		case a.json:
			if err := a.answer(doc, nil); err != nil {
				return err
			}
		default:
			if err := s.draw(doc, all); err != nil {
				return err
			}
		}
		if n == most {
			return nil
		}
		select {
		case <-t.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// screen is where a view is drawn again and again.
type screen struct {
	a     *app
	fd    int    // of a terminal, or -1
	shown string // the last view, without what changes by itself
	drawn bool
	gone  bool // the last look failed
}

// fault tells that a look failed.
func (s *screen) fault(err error) {
	if !s.gone {
		s.a.note("no answer, trying again: %s", plain(err))
	}
	s.gone = true
}

// draw shows a document: in place of the last one on a terminal, and below it
// elsewhere, if more than times has changed.
func (s *screen) draw(doc *wire.ClusterStatus, all bool) error {
	if s.gone {
		s.a.note("answered again, by %s", visible(doc.Self))
		s.gone = false
	}
	var b bytes.Buffer
	if s.fd < 0 {
		clusterText(&b, timeless(doc), all)
		if b.String() == s.shown {
			return nil
		}
		s.shown = b.String()
		b.Reset()
		if s.drawn {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "%s  ", time.Now().Format(time.TimeOnly))
		clusterText(&b, doc, all)
	} else {
		var text bytes.Buffer
		clusterText(&text, doc, all)
		width, height, err := term.GetSize(s.fd)
		if err != nil {
			width, height = 80, 24
		}
		frame(&b, time.Now().Format(time.TimeOnly)+"  "+text.String(), width, height, !s.drawn)
	}
	s.drawn = true
	if _, err := s.a.stdout.Write(b.Bytes()); err != nil {
		return fmt.Errorf("write the answer: %w", err)
	}
	return nil
}

// timeless is a document without what changes while nothing happens.
func timeless(doc *wire.ClusterStatus) *wire.ClusterStatus {
	own := *doc
	own.Nodes, own.Logs = append([]wire.NodeStatus(nil), doc.Nodes...), append([]wire.LogStatus(nil), doc.Logs...)
	for i := range own.Nodes {
		own.Nodes[i].ForMillis = 0
	}
	for i := range own.Logs {
		own.Logs[i].StepMillis, own.Logs[i].StalledMillis = 0, 0
	}
	return &own
}

// frame appends what draws text from the top left corner of a terminal: no line is
// longer than it is wide, and none is left of what was there before.
func frame(b *bytes.Buffer, text string, width, height int, first bool) {
	const toTop, clearLine, clearBelow, clearAll = "\x1b[H", "\x1b[K", "\x1b[J", "\x1b[2J"
	if first {
		b.WriteString(clearAll)
	}
	b.WriteString(toTop)
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	if most := max(height-1, 2); len(lines) > most {
		more := fmt.Sprintf("… and %d more lines", len(lines)-most+1)
		lines = append(lines[:most-1], more)
	}
	for _, line := range lines {
		if r := []rune(line); len(r) > width && width > 1 {
			line = string(r[:width-1]) + "…"
		}
		b.WriteString(line + clearLine + "\r\n")
	}
	b.WriteString(clearBelow)
}

// errWaitOver is the end of a wait for the cluster to become something.
var errWaitOver = errors.New("the wait is over")

// await looks at the cluster until done says so, once if it does at once, and for no
// longer than a time if there is one. While it waits, a server that does not answer is
// asked again. It connects by itself if it is given no client.
func (a *app) await(ctx context.Context, within time.Duration, done func(*wire.ClusterStatus) (bool, error),
	c *pathlockd.Client) error {
	if within > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, within, errWaitOver)
		defer cancel()
	}
	const every = 500 * time.Millisecond
	t := time.NewTicker(every)
	defer t.Stop()
	told := a.json
	for {
		var doc *wire.ClusterStatus
		var err error
		if c == nil {
			if c, err = a.dial(ctx); err == nil {
				defer c.Close()
			} else if within > 0 && !told && passing(err) && ctx.Err() == nil {
				told = true
				a.note("%v; trying again", err)
			}
		}
		if err == nil {
			doc, err = a.look(ctx, c)
		}
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err == nil:
			if over, err := done(doc); over || err != nil {
				return err
			}
		case within == 0 || !passing(err):
			return err
		}
		select {
		case <-t.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// timedOut is the failure of a wait that is over, and otherwise the error itself.
func timedOut(err error, message string, data any) error {
	if !errors.Is(err, errWaitOver) {
		return err
	}
	return &failure{exit: ExitTimeout, code: codeTimeout, message: message, data: data,
		hints: []string{"look at what it waits for: pathlock cluster status"}}
}
