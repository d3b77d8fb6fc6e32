package backup

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/groups/rows"
	"github.com/pathlockd/pathlockd/wire"
)

// contents is one log of a backup, read back.
type contents struct {
	groups map[uint16]*engine.State
	system *engine.System // of the system log
	state  rows.State
	tally  engine.Tally
	fences map[uint16]int64 // highest fence of a path that nobody holds
}

// engineConfig is how states of the backup are made.
func (m *Manifest) engineConfig() engine.Config {
	c := engine.DefaultConfig()
	c.Algorithm, c.Segments = m.algorithm(), m.Segments
	return c
}

// read reads one log. Fences of paths that nobody holds are looked at and not kept.
func (m *Manifest) read(ctx context.Context, dir string, l *Saved) (*contents, error) {
	path := filepath.Join(dir, l.File)
	if err := l.same(ctx, path); err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	c := &contents{groups: make(map[uint16]*engine.State), fences: make(map[uint16]int64)}
	if l.Log == rows.SystemLog {
		c.system = engine.NewSystem()
	}
	if err := c.load(ctx, m, l, f); err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, damaged("%s: %w", l.File, err)
	}
	return c, nil
}

// same holds a file's length and checksum against the manifest.
func (l *Saved) same(ctx context.Context, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return damaged("%w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if info.Size() != l.Bytes {
		return damaged("%s has %d bytes, the manifest says %d", l.File, info.Size(), l.Bytes)
	}
	h := sha256.New()
	if _, err := io.Copy(h, &cancelReader{ctx, f}); err != nil {
		return fmt.Errorf("read %s: %w", l.File, err)
	}
	if sum := hex.EncodeToString(h.Sum(nil)); sum != l.SHA256 {
		return damaged("%s has the checksum %s, the manifest says %s: it was changed or swapped", l.File, sum, l.SHA256)
	}
	return nil
}

// cancelReader reads until a context ends.
type cancelReader struct {
	ctx context.Context
	r   io.Reader
}

func (r *cancelReader) Read(p []byte) (int, error) {
	if r.ctx.Err() != nil {
		return 0, context.Cause(r.ctx)
	}
	return r.r.Read(p)
}

// load makes the states of a log's rows, and holds them against each other.
func (c *contents) load(ctx context.Context, m *Manifest, l *Saved, f io.Reader) error {
	r := rows.NewReader(bufio.NewReader(&cancelReader{ctx, f}))
	count, states := 0, 0
	for ; ; count++ {
		key, val, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		k, err := rows.Parse(key)
		if err != nil {
			return err
		}
		switch {
		case k.Space == rows.SpaceGroup:
			err = c.groupRow(m, l, &k, val)
		case k.Space == rows.SpaceSystem && c.system != nil:
			err = c.system.Load(k.Row, val)
		case k.Space == rows.SpaceLog && k.Log == l.Log && k.Kind == rows.LogState:
			states++
			c.state, err = rows.ParseState(val)
		default:
			err = fmt.Errorf("row %q is none of log %d", key, l.Log)
		}
		if err != nil {
			return err
		}
	}
	sum, err := rows.ReadSum(r.Rest())
	switch {
	case err != nil:
		return err
	case count != l.Rows:
		return fmt.Errorf("has %d rows, the manifest says %d", count, l.Rows)
	case states != 1:
		return fmt.Errorf("has %d rows of the log's own state, want 1", states)
	case c.state.Applied != l.AppliedIndex:
		return fmt.Errorf("is as of entry %d, the manifest says %d", c.state.Applied, l.AppliedIndex)
	}
	return c.loaded(m, sum)
}

// groupRow takes a row of a group.
func (c *contents) groupRow(m *Manifest, l *Saved, k *rows.Key, val []byte) error {
	if int(k.Group) >= m.GroupCount || rows.Home(int(k.Group), m.LogCount) != l.Log {
		return fmt.Errorf("group %d does not live in log %d", k.Group, l.Log)
	}
	c.tally.Add(k.Row)
	if engine.IsFenceRow(k.Row) {
		token, err := engine.DecodeFence(val)
		c.fences[k.Group] = max(c.fences[k.Group], token)
		return err
	}
	s := c.groups[k.Group]
	if s == nil {
		s = engine.New(m.engineConfig(), nil, nil)
		c.groups[k.Group] = s
	}
	return s.Load(k.Row, val)
}

// loaded ends the rows: what was derived from them must agree with the sum that the
// node made of what it had in memory.
func (c *contents) loaded(m *Manifest, want [rows.SumBytes]byte) error {
	var sum rows.Sum
	for _, number := range c.numbers() {
		s := c.groups[number]
		if err := s.Loaded(); err != nil {
			return fmt.Errorf("group %d: %w", number, err)
		}
		err := s.Audit(func(ns string) bool { return wire.GroupOf(ns, m.GroupCount) == number })
		if err != nil {
			return fmt.Errorf("group %d: %w", number, err)
		}
		sum.Add(number, s.View().Digest())
	}
	for number, token := range c.fences {
		if s := c.groups[number]; s == nil || token > s.Counter() {
			return fmt.Errorf("group %d: has a fence %d above its counter", number, token)
		}
	}
	if c.system != nil {
		c.system.Loaded()
		sum.Add(rows.SystemGroup, c.system.Digest())
	}
	if got := sum.Append(nil); string(got) != string(want[:]) {
		return fmt.Errorf("its rows make a state with the sum %x, the node's had %x", got, want)
	}
	return nil
}

// numbers lists the groups in order.
func (c *contents) numbers() []uint16 { return slices.Sorted(maps.Keys(c.groups)) }

// highest is the highest token in the log: of a group's, those that wait in its queue too, or the cluster-wide.
func (c *contents) highest() (token int64) {
	for _, s := range c.groups {
		token = max(token, s.Highest())
	}
	if c.system != nil {
		token = max(token, c.system.Counter())
	}
	return token
}

// freezing is a root that is being moved while no policy change is under way, which
// nobody would ever end; "" for none.
func (c *contents) freezing() string {
	for _, number := range c.numbers() {
		if roots := c.groups[number].Freezing(); len(roots) > 0 {
			return wire.Quote(roots[0])
		}
	}
	return ""
}

// served says that a session is of a call of gRPC or HTTP, as far as the backup says which nodes there were: those
// of builds before did not.
func (c *contents) served(id engine.Session) bool {
	for mark := range slices.Chunk([]byte(c.state.Nodes), rows.NodeMark) {
		if bytes.HasPrefix(id[:], mark) {
			return true
		}
	}
	return false
}
