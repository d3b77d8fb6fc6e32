package replica

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/groups/rows"
)

// The node's one database, whose keys are those of package rows.
//
// A checkpoint of a log writes what changed in its groups, its sessions and the
// index applied, in one batch, so that what is on disk is always one instant of
// the log.
const spaceSystem = rows.SpaceSystem

// Store is the database.
type Store struct {
	db *pebble.DB
}

// OpenStore opens or creates the database in dir.
func OpenStore(dir string, fs vfs.FS, log *slog.Logger, fail func(error)) (*Store, error) {
	opts := &pebble.Options{
		FS:                          &stateDisk{FS: fs, fail: fail},
		Logger:                      pebbleLogger{log, fail},
		LoggerAndTracer:             nil,
		MemTableSize:                32 << 20,
		MemTableStopWritesThreshold: 4,
		L0CompactionThreshold:       4,
		L0StopWritesThreshold:       64,
		MaxOpenFiles:                512,
		FormatMajorVersion:          pebble.FormatNewest,
	}
	cache := pebble.NewCache(64 << 20)
	defer cache.Unref()
	opts.Cache = cache
	for i := range opts.Levels {
		// Fences of paths never locked before are looked up too: the filter answers
		// for most of them.
		opts.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
	}
	db, err := pebble.Open(dir, opts)
	if err != nil {
		return nil, fmt.Errorf("open the state database %s: %w", dir, err)
	}
	return &Store{db: db}, nil
}

// Close closes the database. No replica may use it any more.
func (s *Store) Close() error { return s.db.Close() }

// GroupKey is the key of a group's row.
func GroupKey(dst []byte, group uint16, row []byte) []byte {
	return rows.Group(dst, group, row)
}

// LogKey is the key of a log's row.
func LogKey(shard uint64, row byte, rest []byte) []byte {
	return rows.Log(shard, row, rest)
}

// Get calls use with the value of key; ok is false when there is none.
func (s *Store) Get(key []byte, use func(val []byte) error) (ok bool, err error) {
	val, closer, err := s.db.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read the state database: %w", err)
	}
	err = use(val)
	if cerr := closer.Close(); err == nil {
		err = cerr
	}
	return true, err
}

// Clear deletes all rows of a log and of the groups that live in it.
func (s *Store) Clear(shard uint64, groups []uint16) error {
	b := s.db.NewBatch()
	defer b.Close()
	if err := clearRows(b, shard, groups); err != nil {
		return err
	}
	if err := b.Commit(pebble.Sync); err != nil {
		return fmt.Errorf("write the state database: %w", err)
	}
	return nil
}

// clearRows deletes what clear does, in a batch.
func clearRows(b *pebble.Batch, shard uint64, groups []uint16) error {
	heads := [][]byte{LogKey(shard, 's', nil), LogKey(shard, 'a', nil), LogKey(shard, rows.LogInstalling, nil)}
	for _, number := range groups {
		heads = append(heads, GroupKey(nil, number, nil))
	}
	if shard == rows.SystemLog {
		heads = append(heads, []byte{spaceSystem})
	}
	for _, head := range heads {
		if err := b.DeleteRange(head, upper(head), nil); err != nil {
			return err
		}
	}
	return nil
}

// each calls use with every row of [from, to), the common head of the keys cut
// off.
func each(r pebble.Reader, from, to []byte, head int, use func(row, val []byte) error) error {
	it, err := r.NewIter(&pebble.IterOptions{LowerBound: from, UpperBound: to})
	if err != nil {
		return fmt.Errorf("read the state database: %w", err)
	}
	for it.First(); it.Valid(); it.Next() {
		val, err := it.ValueAndErr()
		if err == nil {
			err = use(it.Key()[head:], val)
		}
		if err != nil {
			return errors.Join(err, it.Close())
		}
	}
	if err := it.Close(); err != nil {
		return fmt.Errorf("read the state database: %w", err)
	}
	return nil
}

// upper is the first key that does not start with prefix.
func upper(prefix []byte) []byte {
	end := append([]byte(nil), prefix...)
	for i := len(end) - 1; i >= 0; i-- {
		if end[i]++; end[i] != 0 {
			return end[:i+1]
		}
	}
	return nil
}

// fences answers fences that are only on disk, for one group.
type fences struct {
	store *Store
	group uint16
	fail  func(error) // stops the process: a failed read is no answer
}

// Fence implements engine.Fences.
func (f *fences) Fence(key string) (token int64, ok bool) {
	k := GroupKey(make([]byte, 0, 64), f.group, []byte(engine.FenceRow(key)))
	ok, err := f.store.Get(k, func(val []byte) (err error) {
		token, err = engine.DecodeFence(val)
		return err
	})
	if err != nil {
		f.fail(fmt.Errorf("fence of %q in group %d: %w", key, f.group, err))
	}
	return token, ok
}

// pebbleLogger passes pebble's messages on. It speaks to operators only of what
// they can act on.
type pebbleLogger struct {
	log  *slog.Logger
	fail func(error)
}

func (l pebbleLogger) Infof(format string, args ...any) { l.log.Debug(fmt.Sprintf(format, args...)) }
func (l pebbleLogger) Errorf(format string, args ...any) {
	l.log.Error(fmt.Sprintf(format, args...))
}
func (l pebbleLogger) Fatalf(format string, args ...any) {
	l.fail(fmt.Errorf(format, args...))
}
