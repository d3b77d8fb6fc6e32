package backup

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/groups/rows"
	"github.com/pathlockd/pathlockd/wire"
)

func TestVerify(t *testing.T) {
	p := full(t)
	r := verify(t, p.save(t, nil))
	total := r.Total()
	if total.Waiters != 2 || total.Writes < 20 || total.Fences == 0 || r.Highest == 0 || len(r.Logs) != testLogs+1 {
		t.Errorf("%+v, highest %d, %d logs", total, r.Highest, len(r.Logs))
	}
	if m := r.Manifest; m.ClusterID != "old" || m.ServerVersion != "v1" || m.GroupCount != testGroups ||
		m.Algorithm != "recursive_rw" || m.Replication != 3 {
		t.Errorf("manifest %+v", m)
	}
	for _, g := range p.groups {
		if g.Counter() > r.Highest {
			t.Errorf("highest token %d, a group has %d", r.Highest, g.Counter())
		}
	}
}

// TestHighestWaits: a token of a caller's own counts while it waits, when it has raised no counter yet.
func TestHighestWaits(t *testing.T) {
	const own = 1_767_225_600_000_000_000 // a clock's ns
	p := newPlace()
	p.write(t, "holder", "h:/0/x")
	p.ask(t, wire.GroupOf("h:/0", testGroups), "waits", "h:/0/x", own)
	if r := verify(t, p.save(t, nil)); r.Highest != own {
		t.Errorf("the highest token is %d, want %d, with which an owner waits", r.Highest, int64(own))
	}
}

// TestDamageIsFound breaks a backup in every way a disk or a person can, and looks for
// it with verify and restore.
func TestDamageIsFound(t *testing.T) {
	flip := func(at int) func([]byte) []byte {
		return func(b []byte) []byte {
			b = bytes.Clone(b)
			b[(at+len(b))%len(b)] ^= 0x40
			return b
		}
	}
	log := FileOf(2)
	for _, c := range []struct {
		name string
		do   func(t *testing.T, dir string)
		want error
		says string
	}{
		{"a byte at the start", func(t *testing.T, dir string) { edit(t, dir, log, flip(0)) }, ErrDamaged, "checksum"},
		{"a byte in the middle", func(t *testing.T, dir string) { edit(t, dir, log, flip(200)) },
			ErrDamaged, "checksum"},
		{"the last byte", func(t *testing.T, dir string) { edit(t, dir, FileOf(3), flip(-1)) }, ErrDamaged, "checksum"},
		{"truncated", func(t *testing.T, dir string) {
			edit(t, dir, log, func(b []byte) []byte { return b[:len(b)-1] })
		}, ErrDamaged, "bytes, the manifest says"},
		{"empty", func(t *testing.T, dir string) { edit(t, dir, log, func([]byte) []byte { return nil }) }, ErrDamaged,
			"has 0 bytes"},
		{"longer", func(t *testing.T, dir string) {
			edit(t, dir, log, func(b []byte) []byte { return append(b, 0) })
		}, ErrDamaged, "bytes, the manifest says"},
		{"missing", func(t *testing.T, dir string) {
			if err := os.Remove(filepath.Join(dir, log)); err != nil {
				t.Fatal(err)
			}
		}, ErrDamaged, "no such file"},
		{"swapped files", func(t *testing.T, dir string) { swap(t, dir, FileOf(2), FileOf(3)) }, ErrDamaged,
			"the manifest says"},
		{"swapped files, and the manifest knows", func(t *testing.T, dir string) {
			swap(t, dir, FileOf(2), FileOf(3))
			forge(t, dir, func(m *Manifest) {
				a, b := &m.Logs[1], &m.Logs[2]
				a.Bytes, b.Bytes, a.Rows, b.Rows, a.SHA256, b.SHA256 = b.Bytes, a.Bytes, b.Rows, a.Rows,
					b.SHA256, a.SHA256
			})
		}, ErrDamaged, "does not live in log"},
		{"another's log, and the manifest knows", func(t *testing.T, dir string) {
			other := newPlace().stream(t, 3, nil)
			edit(t, dir, FileOf(2), func([]byte) []byte { return other })
			forge(t, dir, func(m *Manifest) { m.Logs[1].like(other) })
		}, ErrDamaged, "log"},
		{"no manifest", func(t *testing.T, dir string) {
			if err := os.Remove(filepath.Join(dir, manifestFile)); err != nil {
				t.Fatal(err)
			}
		}, os.ErrNotExist, "is no backup"},
		{"a manifest cut short", func(t *testing.T, dir string) {
			edit(t, dir, manifestFile, func(b []byte) []byte { return b[:len(b)/2] })
		}, ErrDamaged, manifestFile},
		{"a manifest without end", func(t *testing.T, dir string) {
			edit(t, dir, manifestFile, func(b []byte) []byte {
				return append(b,
					bytes.Repeat([]byte(" "), maxManifest)...)
			})
		}, ErrDamaged, "is longer than"},
		{"a manifest that was changed", func(t *testing.T, dir string) {
			edit(t, dir, manifestFile, func(b []byte) []byte {
				return bytes.Replace(b, []byte(`"replication_factor": 3`), []byte(`"replication_factor": 1`), 1)
			})
		}, ErrDamaged, "checksum"},
		{"a manifest that says more", func(t *testing.T, dir string) {
			edit(t, dir, manifestFile, func(b []byte) []byte { return append([]byte(`{"more": 1,`), b[1:]...) })
		}, ErrDamaged, "checksum"},
		{"another format", func(t *testing.T, dir string) { forge(t, dir, func(m *Manifest) { m.Format = 2 }) },
			ErrFormat, "2, this build reads 1"},
		{"another format of rows", func(t *testing.T, dir string) {
			edit(t, dir, log, func(b []byte) []byte { return append([]byte{9}, b[1:]...) })
			reseal(t, dir, 1)
		}, ErrDamaged, "format 9, this build reads 1"},
		{"a log too few", func(t *testing.T, dir string) { forge(t, dir, func(m *Manifest) { m.Logs = m.Logs[:2] }) },
			ErrDamaged, "has 2 logs"},
		{"a file elsewhere", func(t *testing.T, dir string) {
			forge(t, dir, func(m *Manifest) { m.Logs[1].File = "../" + m.Logs[1].File })
		}, ErrDamaged, "../"},
		{"other settings", func(t *testing.T, dir string) { forge(t, dir, func(m *Manifest) { m.GroupCount = 3 }) },
			ErrDamaged, "group"},
		{"no groups", func(t *testing.T, dir string) { forge(t, dir, func(m *Manifest) { m.GroupCount = 0 }) },
			ErrDamaged, "group_count"},
		{"an algorithm of another world", func(t *testing.T, dir string) {
			forge(t, dir, func(m *Manifest) { m.Algorithm = "optimistic" })
		}, ErrDamaged, "optimistic"},
		{"a row too many", func(t *testing.T, dir string) { forge(t, dir, func(m *Manifest) { m.Logs[1].Rows++ }) },
			ErrDamaged, "rows, the manifest says"},
		{"logs in another order", func(t *testing.T, dir string) {
			forge(t, dir, func(m *Manifest) { m.Logs[1], m.Logs[2] = m.Logs[2], m.Logs[1] })
		}, ErrDamaged, "entry 2 of its logs is log 3"},
		{"another index", func(t *testing.T, dir string) {
			forge(t, dir, func(m *Manifest) { m.Logs[2].AppliedIndex++ })
		}, ErrDamaged, "as of entry 77"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := full(t).save(t, nil)
			verify(t, dir)
			c.do(t, dir)
			for _, err := range []error{
				func() error { _, err := Verify(context.Background(), dir); return err }(),
				func() error {
					data := filepath.Join(t.TempDir(), "data")
					_, err := Restore(context.Background(), Options{From: dir, DataDir: data, NodeID: "pathlockd-0"})
					if _, there := os.Stat(data); there == nil {
						t.Error("a restore of it made a data directory")
					}
					return err
				}(),
			} {
				if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
					t.Errorf("answered %v, want %v that says %q", err, c.want, c.says)
				}
			}
		})
	}
}

// TestWrongRowsAreFound: a stream that is whole, and makes no state or another one.
func TestWrongRowsAreFound(t *testing.T) {
	const own = 0 // the log's own row
	table := func(key []byte) byte {
		k, err := rows.Parse(key)
		if err != nil || k.Space != rows.SpaceGroup {
			return own
		}
		return k.Row[0]
	}
	once := func(letter byte, f func(key, val []byte) ([]byte, []byte)) func(key, val []byte) ([]byte, []byte) {
		done := false
		return func(key, val []byte) ([]byte, []byte) {
			if done || table(key) != letter {
				return key, val
			}
			done = true
			return f(bytes.Clone(key), bytes.Clone(val))
		}
	}
	drop := func(key, val []byte) ([]byte, []byte) { return nil, nil }
	for _, c := range []struct {
		name   string
		change func(key, val []byte) ([]byte, []byte)
		says   string
	}{
		{"a hold is missing", once('H', drop), "sum"},
		{"a lease is missing", once('L', drop), "has no lease"},
		{"a waiter is missing", once('Q', drop), "sum"},
		{"the counter is missing", once('M', drop), "above"},
		{"a hold is another path's", once('H', func(key, val []byte) ([]byte, []byte) { return append(key, 'x'), val }),
			"sum"},
		{"a hold is another namespace's", once('H', func(key, val []byte) ([]byte, []byte) {
			return bytes.Replace(key, []byte("h:/"), []byte("g:/"), 1), val
		}), "has no lease"},
		{"a row is of another group", once('H', func(key, val []byte) ([]byte, []byte) {
			key[2] ^= 1
			return key, val
		}), "does not live in log"},
		{"a row of no table", once('H', func(key, val []byte) ([]byte, []byte) {
			key[3] = '?'
			return key, val
		}), "unknown table"},
		{"a row of no space", once('H', func(key, val []byte) ([]byte, []byte) {
			return append([]byte{'?'}, key...),
				val
		}), "the key of no row"},
		{"a fence is above all", once('F', func(key, val []byte) ([]byte, []byte) {
			return key, wire.AppendInt(wire.AppendArray(nil, 1), 1<<40)
		}), "has a fence 1099511627776 above its counter"},
		{"the log's own row is missing", once(own, drop), "has 0 rows of the log's own state"},
		{"the log's own row is another's", once(own, func(key, val []byte) ([]byte, []byte) {
			return rows.Log(9, rows.LogState, nil), val
		}), "is none of log 1"},
		{"a session is among the rows", once(own, func(key, val []byte) ([]byte, []byte) {
			return rows.Log(1, rows.LogSession, []byte("id")), val
		}), "is none of log 1"},
		{"a value cut short", once('H', func(key, val []byte) ([]byte, []byte) { return key, val[:len(val)-2] }),
			"row"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Verify(context.Background(), full(t).save(t, c.change))
			if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("answered %v, want one that says %q", err, c.says)
			}
		})
	}
}

// TestWrongHomeIsFound: rows that are all well, of a namespace that lives in another group.
func TestWrongHomeIsFound(t *testing.T) {
	p := newPlace()
	home := wire.GroupOf("h:/0", testGroups)
	p.writeAt(t, (home+testLogs)%testGroups, "o", "h:/0/x") // another group of the same log
	_, err := Verify(context.Background(), p.save(t, nil))
	if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "none of the group's") {
		t.Error(err)
	}
}

// TestMoveWithoutChangeIsFound: what is being moved while no policy change is under way
// would stay so for ever.
func TestMoveWithoutChangeIsFound(t *testing.T) {
	p := full(t)
	const root = "h:/0/alone"
	ns := wire.GroupOf("h:/0", testGroups)
	var out engine.Output
	freeze := &engine.Command{Req: &wire.Request{Op: wire.OpFreeze, Namespace: root}, NS: "h:/0"}
	if res := p.groups[ns].Apply(engine.Clock{Now: p.now, Wall: p.now}, freeze, &out); res.Code != wire.OK ||
		res.Status != wire.StatusOK {
		t.Fatal(res)
	}
	_, err := Verify(context.Background(), p.save(t, nil))
	if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), root) ||
		!strings.Contains(err.Error(), "no policy change is under way") {
		t.Error(err)
	}
}

func swap(t *testing.T, dir, a, b string) {
	t.Helper()
	for _, r := range [][2]string{{a, "x"}, {b, a}, {"x", b}} {
		if err := os.Rename(filepath.Join(dir, r[0]), filepath.Join(dir, r[1])); err != nil {
			t.Fatal(err)
		}
	}
}

// forge changes the manifest, and makes its checksum fit.
func forge(t *testing.T, dir string, change func(*Manifest)) {
	t.Helper()
	m, err := readManifest(dir)
	if err != nil {
		t.Fatal(err)
	}
	change(m)
	b, err := m.encode()
	if err != nil {
		t.Fatal(err)
	}
	edit(t, dir, manifestFile, func([]byte) []byte { return b })
}

// like makes a manifest's entry fit a file.
func (s *Saved) like(b []byte) {
	sum := sha256.Sum256(b)
	s.Bytes, s.SHA256 = int64(len(b)), hex.EncodeToString(sum[:])
}

// reseal makes an entry of the manifest fit its file.
func reseal(t *testing.T, dir string, i int) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, FileOf(rows.LogsOf(testLogs)[i])))
	if err != nil {
		t.Fatal(err)
	}
	forge(t, dir, func(m *Manifest) { m.Logs[i].like(b) })
}
