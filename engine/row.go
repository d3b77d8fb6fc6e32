package engine

import (
	"fmt"

	"github.com/zeebo/xxh3"

	"github.com/pathlockd/pathlockd/trie"
	"github.com/pathlockd/pathlockd/wire"
)

// Rows are how a state is kept on disk and in snapshots: one for each leaf of its
// trees, keyed by a table's letter and the leaf's key. A value is a msgpack array
// that grows at its end, so that a node reads what an older one wrote.
const (
	tableHold   = 'H' // write holds, with the path's fence
	tableFence  = 'F' // fences of paths that nobody holds
	tableShared = 'S' // reads and permits
	tableLease  = 'L'
	tableWaiter = 'Q'
	tablePolicy = 'P'
	tableEdge   = 'E'
	tableKept   = 'I'
	tableMark   = 'K'
	tableMeta   = 'M'

	tableDeparture = 'D'
)

// FenceRow is the key of the row of a path's fence. It is the only table whose
// rows are not read back into memory at a start, and the last in no order: a
// loader passes over it.
func FenceRow(key string) string { return string(tableFence) + key }

// IsFenceRow says that a row's key is one of FenceRow's.
func IsFenceRow(row []byte) bool { return len(row) > 0 && row[0] == tableFence }

// FenceTable is the range of keys [from, to) that fences take.
func FenceTable() (from, to string) { return string(tableFence), string(tableFence + 1) }

// DecodeFence reads the value of a fence's row.
func DecodeFence(val []byte) (int64, error) {
	r := wire.NewReader(val)
	token := int64(0)
	for i := range r.Array() {
		if i == 0 {
			token = r.Int()
		} else {
			r.Skip()
		}
	}
	return token, r.Err()
}

// Rows calls emit with every row that differs from what was there before
// modification mark since: first rows that are gone, with a nil value, then rows
// to set. With since 0 it is every row of the state, but for those of fences
// that are only on disk. Key and value are reused after emit returns.
func (v *View) Rows(since uint32, emit func(key, val []byte) error) (err error) {
	var key, val []byte
	put := func(table byte, k string) bool {
		key = append(append(key[:0], table), k...)
		err = emit(key, val)
		return err == nil
	}
	gone := func(row string, _ *struct{}) bool {
		key = append(key[:0], row...)
		err = emit(key, nil)
		return err == nil
	}
	if since > 0 && v.dying.All().Ascend(gone) {
		v.tombs.All().Ascend(gone)
	}
	steps := []func(){
		func() {
			v.holds.All().AscendSince(since, func(k string, h *hold) bool {
				var table byte
				table, val = h.row(val[:0])
				return put(table, k)
			})
		},
		func() { each(v.leases, since, &val, tableLease, put, (*lease).row) },
		func() { each(v.waiters, since, &val, tableWaiter, put, (*waiter).row) },
		func() { each(v.policies, since, &val, tablePolicy, put, (*policy).row) },
		func() { each(v.edges, since, &val, tableEdge, put, (*edge).row) },
		func() { each(v.kept, since, &val, tableKept, put, (*kept).row) },
		func() { each(v.departing, since, &val, tableDeparture, put, (*departure).row) },
		func() {
			each(v.marks, since, &val, tableMark, put, func(m *int64, dst []byte) []byte {
				return wire.AppendInt(wire.AppendArray(dst, 1), *m)
			})
		},
		func() {
			val = v.metaRow(val[:0])
			put(tableMeta, "")
		},
	}
	for _, step := range steps {
		if err == nil {
			step()
		}
	}
	return err
}

// each emits the rows of one tree.
func each[V any](t trie.Tree[V], since uint32, val *[]byte, table byte,
	put func(byte, string) bool, row func(*V, []byte) []byte) {
	t.All().AscendSince(since, func(k string, v *V) bool {
		*val = row(v, (*val)[:0])
		return put(table, k)
	})
}

// row appends the row of a hold and answers its table.
func (h *hold) row(dst []byte) (byte, []byte) {
	switch {
	case h.mode == wire.ModeRead || h.alg == wire.Semaphore:
		dst = wire.AppendArray(dst, 7+h.further())
		dst = wire.AppendStr(dst, h.owner)
		dst = wire.AppendInt(dst, h.since)
		dst = wire.AppendUint(dst, uint64(h.alg))
		dst = wire.AppendUint(dst, uint64(h.mode))
		dst = wire.AppendUint(dst, uint64(h.permits))
		return tableShared, h.appendAlso(wire.AppendUint(appendMeta(dst, h.meta), h.by))
	case h.owner == "":
		return tableFence, h.fenceRow(dst)
	}
	dst = wire.AppendArray(dst, 7+h.further())
	dst = wire.AppendStr(dst, h.owner)
	dst = wire.AppendInt(dst, h.token)
	dst = wire.AppendInt(dst, h.since)
	dst = wire.AppendUint(dst, uint64(h.alg))
	return tableHold, h.appendAlso(wire.AppendBool(wire.AppendUint(appendMeta(dst, h.meta), h.by), h.own))
}

func appendMeta(dst []byte, m *string) []byte {
	if m == nil {
		return wire.AppendNil(dst)
	}
	return wire.AppendBin(dst, []byte(*m))
}

func appendBinding(dst []byte, b *binding) []byte {
	if b == nil {
		return wire.AppendNil(dst)
	}
	n := 3
	switch {
	case b.past != 0:
		n = 6
	case b.loose:
		n = 5
	case b.spent != 0:
		n = 4
	}
	dst = wire.AppendBin(wire.AppendArray(dst, n), b.session[:])
	dst = wire.AppendInt(wire.AppendUint(dst, b.epoch), b.grace)
	if n > 3 {
		dst = wire.AppendUint(dst, b.spent)
	}
	if n > 4 {
		dst = wire.AppendBool(dst, b.loose)
	}
	if n > 5 {
		dst = wire.AppendUint(dst, b.past)
	}
	return dst
}

func (l *lease) row(dst []byte) []byte {
	n := 4
	switch {
	case len(l.pledges) > 0:
		n = 6
	case len(l.also) > 0:
		n = 5
	}
	dst = wire.AppendArray(dst, n)
	dst = wire.AppendInt(dst, l.deadline)
	dst = wire.AppendInt(dst, l.revoke)
	dst = wire.AppendBool(dst, l.quiet)
	dst = appendBinding(dst, l.bind)
	if n > 4 {
		dst = wire.AppendArray(dst, len(l.also))
		for _, b := range l.also {
			dst = appendBinding(dst, b)
		}
	}
	if n > 5 {
		dst = wire.AppendArray(dst, len(l.pledges))
		for i := range l.pledges {
			p, n := &l.pledges[i], 3
			if p.over != 0 {
				n = 5
			}
			dst = wire.AppendInt(wire.AppendBin(wire.AppendArray(dst, n), p.session[:]), p.until)
			if dst = wire.AppendBool(dst, p.several); n > 3 {
				dst = wire.AppendInt(wire.AppendUint(dst, p.over), p.grace)
			}
		}
	}
	return dst
}

func (w *waiter) row(dst []byte) []byte {
	n := 18
	if w.of != markOf(w.caller.Session) { // a polled entry has no caller
		n = 19
	}
	if w.past != 0 {
		n = 20
	}
	dst = wire.AppendArray(dst, n)
	dst = wire.AppendStr(dst, w.owner)
	dst = wire.AppendStr(dst, w.ns)
	dst = wire.AppendUint(dst, uint64(w.alg))
	dst = wire.AppendArray(dst, len(w.wants))
	for i := range w.wants {
		k := &w.wants[i]
		dst = wire.AppendStr(wire.AppendArray(dst, 4), k.key)
		dst = wire.AppendUint(dst, uint64(k.mode))
		dst = wire.AppendUint(dst, uint64(k.state))
		dst = wire.AppendUint(dst, uint64(k.permits))
	}
	dst = wire.AppendArray(dst, len(w.releases))
	for _, r := range w.releases {
		dst = wire.AppendUint(wire.AppendStr(wire.AppendArray(dst, 2), r.Path), uint64(r.Mode))
	}
	dst = wire.AppendInt(dst, w.token)
	dst = wire.AppendBool(dst, w.own)
	dst = wire.AppendBool(dst, w.open)
	dst = wire.AppendBin(dst, w.caller.Session[:])
	dst = wire.AppendUint(dst, w.caller.ID)
	dst = wire.AppendUint(dst, w.ttl)
	dst = wire.AppendInt(dst, w.deadline)
	dst = wire.AppendInt(dst, w.since)
	dst = appendBinding(dst, w.bind)
	dst = appendMeta(dst, w.meta)
	dst = wire.AppendUint(dst, w.epoch)
	dst = wire.AppendUint(wire.AppendBool(dst, w.adrift), w.hash)
	if n > 18 {
		dst = wire.AppendUint(dst, w.of)
	}
	if n > 19 {
		dst = wire.AppendUint(dst, w.past)
	}
	return dst
}

func (p *policy) row(dst []byte) []byte {
	return wire.AppendUint(wire.AppendArray(dst, 1), uint64(p.algorithm))
}

func (e *edge) row(dst []byte) []byte {
	n := 4
	if e.of != 0 {
		n = 5
	}
	dst = wire.AppendArray(dst, n)
	dst = wire.AppendStr(dst, e.blocker)
	dst = wire.AppendStr(dst, e.path)
	dst = wire.AppendUint(dst, uint64(e.reason))
	dst = wire.AppendInt(dst, e.deadline)
	if e.of != 0 {
		dst = wire.AppendUint(dst, e.of)
	}
	return dst
}

func (k *kept) row(dst []byte) []byte {
	n := 5
	switch {
	case k.ends != 0:
		n = 13
	case k.attempt != 0:
		n = 10
	case k.of != 0:
		n = 9
	case k.by != 0:
		n = 8
	case k.at != "":
		n = 7
	case k.plan != "":
		n = 6
	}
	dst = wire.AppendArray(dst, n)
	dst = wire.AppendUint(dst, k.hash)
	dst = wire.AppendUint(dst, uint64(k.status))
	dst = wire.AppendInt(dst, k.token)
	dst = wire.AppendUint(dst, k.seq)
	dst = wire.AppendInt(dst, k.deadline)
	if n > 5 {
		dst = wire.AppendStr(dst, k.plan)
	}
	if n > 6 {
		dst = wire.AppendStr(dst, k.at)
	}
	if n > 7 {
		dst = wire.AppendUint(dst, k.by)
	}
	if n > 8 {
		dst = wire.AppendUint(dst, k.of)
	}
	if n > 9 {
		dst = wire.AppendUint(dst, k.attempt)
	}
	if n > 10 {
		dst = wire.AppendUint(wire.AppendInt(wire.AppendInt(dst, k.ends), k.turn), k.version)
	}
	return dst
}

func (v *View) metaRow(dst []byte) []byte {
	dst = wire.AppendArray(dst, 9)
	dst = wire.AppendInt(dst, v.now)
	dst = wire.AppendInt(dst, v.wall)
	dst = wire.AppendInt(dst, v.counter)
	dst = wire.AppendUint(dst, v.seq)
	dst = wire.AppendUint(dst, v.version)
	dst = wire.AppendArray(dst, len(v.floors))
	for _, f := range v.floors {
		dst = wire.AppendInt(wire.AppendStr(wire.AppendArray(dst, 3), f.Root), f.Token)
		dst = wire.AppendStr(dst, f.NS)
	}
	dst = wire.AppendArray(dst, len(v.frozen))
	for _, f := range v.frozen {
		dst = wire.AppendStr(dst, f.root)
	}
	dst = wire.AppendUint(dst, v.attempt)
	dst = wire.AppendArray(dst, len(v.frozen))
	for _, f := range v.frozen {
		dst = wire.AppendUint(wire.AppendStr(wire.AppendArray(dst, 2), f.above), f.until)
	}
	return dst
}

// Digest is a hash of all that the state means: equal for replicas that applied
// the same commands, whatever each of them has in memory.
func (v *View) Digest() uint64 {
	h := xxh3.New()
	err := v.Rows(0, func(key, val []byte) error {
		if IsFenceRow(key) {
			return nil // which of them are in memory is each replica's own business
		}
		_, err := fmt.Fprintf(h, "%d %s %d %s\n", len(key), key, len(val), val)
		return err
	})
	if err != nil {
		panic(err) // a hash takes every write
	}
	return h.Sum64()
}
