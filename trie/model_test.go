package trie

import (
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// entry is what the model knows of a key.
type entry struct {
	val   int
	class Class
	rank  uint64
	mod   uint32
}

// model is the reference: a map, and every question answered by looking at all
// of it.
type model map[string]entry

func (m model) under(prefix string) []string {
	var keys []string
	for k := range m {
		if strings.HasPrefix(k, prefix) {
			keys = append(keys, k)
		}
	}
	sort.Strings(keys)
	return keys
}

func (m model) sum(prefix string) (s Sum) {
	for _, k := range m.under(prefix) {
		s.gain(m[k].class, m[k].rank)
	}
	return s
}

func (m model) byRank(prefix string, min uint64) []string {
	keys := m.under(prefix)
	keys = slices.DeleteFunc(keys, func(k string) bool { return m[k].rank < min || m[k].rank == 0 })
	slices.SortFunc(keys, func(a, b string) int { return int(m[a].rank) - int(m[b].rank) })
	return keys
}

// pair is a tree and the model it must agree with.
type pair struct {
	tree Tree[int]
	m    model
}

// check compares every answer of the tree with the model's.
func (p *pair) check(t *rapid.T, probe []string) {
	t.Helper()
	if got := collect(p.tree.All()); !slices.Equal(got, p.m.under("")) {
		t.Fatalf("keys: got %q, want %q", got, p.m.under(""))
	}
	for _, k := range probe {
		want, ok := p.m[k]
		if got := p.tree.Get(k); (got != nil) != ok || ok && *got != want.val {
			t.Fatalf("get %q: got %v, want %v %v", k, got, want, ok)
		}
		if key, found := p.tree.Key(k); found != ok || ok && key != k {
			t.Fatalf("key %q: got %q %v", k, key, found)
		}
		sub := p.tree.SubBytes([]byte(k))
		if got := collect(sub); !slices.Equal(got, p.m.under(k)) {
			t.Fatalf("below %q: got %q, want %q", k, got, p.m.under(k))
		}
		if got, want := sub.Sum(), p.m.sum(k); got != want {
			t.Fatalf("sum of %q: got %+v, want %+v", k, got, want)
		}
		if got, want := sub.First(), p.m.sum(k).First; got != want {
			t.Fatalf("first of %q: got %d, want %d", k, got, want)
		}
		p.checkClasses(t, k)
		p.checkWalk(t, k)
		min := uint64(len(k))
		if got, want := collectRanks(sub, min), p.m.byRank(k, min); !slices.Equal(got, want) {
			t.Fatalf("ranks from %d below %q: got %q, want %q", min, k, got, want)
		}
	}
	for _, k := range probe {
		for i := range len(k) + 1 {
			got, _, ok := p.tree.Ceiling(k[:i], k, uint64(i))
			want := slices.DeleteFunc(p.m.under(k[:i]), func(o string) bool { return o < k || p.m[o].rank < uint64(i) })
			if ok != (len(want) > 0) || ok && got != want[0] {
				t.Fatalf("ceiling of %q below %q: got %q %v, want %q", k, k[:i], got, ok, want)
			}
		}
	}
	for mod := uint32(0); mod < 5; mod++ {
		var got []string
		p.tree.All().AscendSince(mod, func(k string, _ *int) bool { got = append(got, k); return true })
		want := slices.DeleteFunc(p.m.under(""), func(k string) bool { return p.m[k].mod < mod })
		if !slices.Equal(got, want) {
			t.Fatalf("changed since %d: got %q, want %q", mod, got, want)
		}
	}
}

func (p *pair) checkClasses(t *rapid.T, k string) {
	t.Helper()
	for c := range None {
		if got, want := p.tree.Sub(k).Count(c), p.m.sum(k).Count[c]; got != want {
			t.Fatalf("count of class %d below %q: got %d, want %d", c, k, got, want)
		}
		inClass := func(keys []string) []string {
			return slices.DeleteFunc(keys, func(k string) bool { return p.m[k].class != c })
		}
		var got []string
		p.tree.Sub(k).AscendClass(c.Mask(), func(k string, _ *int) bool { got = append(got, k); return true })
		if want := inClass(p.m.under(k)); !slices.Equal(got, want) {
			t.Fatalf("class %d below %q: got %q, want %q", c, k, got, want)
		}
		got = nil
		prefix := k[:len(k)/2]
		p.tree.AscendFrom(prefix, c.Mask(), k, func(k string, _ *int) bool { got = append(got, k); return true })
		want := slices.DeleteFunc(inClass(p.m.under(prefix)), func(o string) bool { return o < k })
		if !slices.Equal(got, want) {
			t.Fatalf("class %d from %q below %q: got %q, want %q", c, k, prefix, got, want)
		}
		got = nil
		p.tree.AscendMarks(c.Mask(), k, func(o string, mod uint32) bool {
			if mod != p.m[o].mod {
				t.Fatalf("mark of %q: got %d, want %d", o, mod, p.m[o].mod)
			}
			got = append(got, o)
			return true
		})
		want = slices.DeleteFunc(inClass(p.m.under("")), func(o string) bool { return o < k })
		if !slices.Equal(got, want) {
			t.Fatalf("class %d from %q: got %q, want %q", c, k, got, want)
		}
		for _, o := range inClass(p.m.under("")) {
			if strings.HasPrefix(o, k) {
				below := slices.DeleteFunc(inClass(p.m.under(k)), func(x string) bool { return x >= o })
				if got := p.tree.Before(k, o, c); int(got) != len(below) {
					t.Fatalf("class %d before %q below %q: got %d, want %q", c, o, k, got, below)
				}
			}
		}
		// Every second key is mine, by its length.
		mine := func(k string) bool { return len(k)%2 == 0 }
		found := ""
		ok := p.tree.Foreign(k, c, '#', func(prefix []byte) (n uint32) {
			if len(prefix) > len(k) && strings.Contains(string(prefix[len(k):]), "#") {
				t.Fatalf("asked for a prefix %q beyond the stop byte", prefix)
			}
			for _, o := range inClass(p.m.under(string(prefix))) {
				if mine(o) {
					n++
				}
			}
			return n
		}, func(o string, _ *int) bool { found = o; return !mine(o) })
		foreign := slices.DeleteFunc(inClass(p.m.under(k)), mine)
		if ok != (len(foreign) > 0) || ok && found != foreign[0] {
			t.Fatalf("foreign of class %d below %q: got %q %v, want %q", c, k, found, ok, foreign)
		}
	}
}

// checkWalk holds the stops of a walk against the model: every key that is a
// prefix of k is met, in order, and what hangs off a stop is all there is.
func (p *pair) checkWalk(t *rapid.T, k string) {
	t.Helper()
	var got, want []string
	stops := make(map[int]bool)
	p.tree.Walk(k, func(at int, s Step[int]) bool {
		stops[at] = true
		if v := s.Value(); v != nil {
			if *v != p.m[k[:at]].val {
				t.Fatalf("walk to %q: wrong value at %d", k, at)
			}
			got = append(got, k[:at])
		}
		for _, b := range []string{"#", "a", "\xff"} {
			full := k[:at] + b
			if g, w := collect(s.Sub(full)), p.m.under(full); !slices.Equal(g, w) {
				t.Fatalf("walk to %q: below %q: got %q, want %q", k, full, g, w)
			}
		}
		return true
	})
	for i := range len(k) + 1 {
		if _, ok := p.m[k[:i]]; ok {
			want = append(want, k[:i])
		}
		if !stops[i] && len(p.m.under(k[:i]+"#")) > 0 && !strings.HasPrefix(k, k[:i]+"#") {
			t.Fatalf("walk to %q passed over %d, where something hangs off", k, i)
		}
	}
	if !slices.Equal(got, want) {
		t.Fatalf("walk to %q: met %q, want %q", k, got, want)
	}
}

func collect(s Sub[int]) (keys []string) {
	s.Ascend(func(k string, _ *int) bool { keys = append(keys, k); return true })
	return keys
}

func collectRanks(s Sub[int], min uint64) (keys []string) {
	for it := s.ByRank(min); ; {
		k, _, _, ok := it.Next()
		if !ok {
			return keys
		}
		keys = append(keys, k)
	}
}

// TestAgainstMap drives a tree and a map with the same random changes and
// compares every answer, on the live tree and on snapshots taken on the way.
func TestAgainstMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := NewWriter(1)
		live := pair{m: model{}}
		var frozen []pair
		key := rapid.OneOf(
			rapid.StringOfN(rapid.SampledFrom([]rune("ab#/")), 0, 6, -1),
			rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, 3), func(b []byte) string { return string(b) }),
			rapid.Map(rapid.IntRange(0, 255), func(i int) string { return "wide/" + string([]byte{byte(i)}) }),
		)
		rank := uint64(0)
		var probe []string
		steps := rapid.IntRange(1, 120).Draw(t, "steps")
		for range steps {
			k := key.Draw(t, "key")
			probe = append(probe, k)
			e, there := live.m[k]
			switch op := rapid.IntRange(0, 12).Draw(t, "op"); {
			case op < 4 && !there:
				e = entry{val: rapid.Int().Draw(t, "val"), class: Class(rapid.IntRange(0, Classes).Draw(t, "class")),
					mod: w.Mark()}
				if e.class == 2 {
					rank++
					e.rank = rank
				}
				*live.tree.Insert(w, k, e.class, e.rank) = e.val
				live.m[k] = e
			case op < 4:
				e.val, e.mod = rapid.Int().Draw(t, "val"), w.Mark()
				*live.tree.Edit(w, k) = e.val
				live.m[k] = e
			case op < 6 && there && e.rank == 0:
				e.class, e.mod = Class(rapid.IntRange(0, Classes).Draw(t, "class")), w.Mark()
				if e.class == 2 {
					e.class = 1
				}
				live.tree.SetClass(w, k, e.class)
				live.m[k] = e
			case op < 8:
				if got := live.tree.Delete(w, k); got != there {
					t.Fatalf("delete %q: %v", k, got)
				}
				delete(live.m, k)
			case op > 8 && op < 11 && e.rank == 0:
				e.val, e.class, e.mod = rapid.Int().Draw(t, "val"),
					Class(rapid.SampledFrom([]int{0, 1, 3, 4}).Draw(t, "class")), w.Mark()
				scratch := []byte(k)
				own, v, fresh := live.tree.Put(w, view(scratch), e.class)
				clear(scratch)
				if own != k || fresh == there {
					t.Fatalf("put %q: key %q, fresh %v", k, own, fresh)
				}
				*v = e.val
				live.m[k] = e
			case op == 11:
				gone := slices.DeleteFunc(live.m.under(""), func(string) bool { return !rapid.Bool().Draw(t, "gone") })
				live.tree.RemoveAll(w, gone)
				for _, k := range gone {
					delete(live.m, k)
				}
			case op == 8:
				frozen = append(frozen, pair{live.tree, maps.Clone(live.m)})
				w.Freeze()
			default:
				w.SetMark(w.Mark() + 1)
			}
		}
		if len(probe) > 24 {
			probe = probe[:24]
		}
		live.check(t, probe)
		for i := range frozen {
			frozen[i].check(t, probe)
		}
	})
}

// TestRanksThatAscend drives a tree whose ranks ascend with its keys, as a queue's
// do, until a key out of line comes, and compares the ranges of ranks.
func TestRanksThatAscend(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := NewWriter(1)
		var live, frozen Tree[int]
		ranks, old := map[string]uint64{}, map[string]uint64{}
		next := map[string]uint64{} // by prefix
		rank := uint64(0)
		check := func(tree *Tree[int], ranks map[string]uint64) {
			for _, prefix := range []string{"", "a", "b", "a\x00", "a\x01", "b\x00", "b\x02"} {
				var want Sum
				for k, r := range ranks {
					if strings.HasPrefix(k, prefix) {
						want.gain(0, r)
					}
				}
				if got := tree.Sub(prefix).Sum(); got != want {
					t.Fatalf("below %q: %+v, want %+v", prefix, got, want)
				}
			}
			for k := range ranks {
				var want uint32
				for o := range ranks {
					if strings.HasPrefix(o, k[:1]) && o < k {
						want++
					}
				}
				if got := tree.Before(k[:1], k, 0); got != want {
					t.Fatalf("before %q: %d, want %d", k, got, want)
				}
			}
		}
		steps := rapid.IntRange(1, 300).Draw(t, "steps")
		for range steps {
			switch op := rapid.IntRange(0, 20).Draw(t, "op"); {
			case op < 12:
				p := rapid.SampledFrom([]string{"a", "b", "a\x00\x00\x07"}).Draw(t, "prefix")
				next[p] += uint64(rapid.SampledFrom([]int{1, 1, 1, 3, 90}).Draw(t, "gap"))
				k := p + string([]byte{byte(next[p] >> 8), byte(next[p])})
				if _, there := ranks[k]; !there && next[p] < 1<<16 {
					rank++
					live.Insert(w, k, 0, rank)
					ranks[k] = rank
				}
			case op == 12:
				k := string(rapid.SliceOfN(rapid.Byte(), 1, 3).Draw(t, "key"))
				if _, there := ranks[k]; !there && rapid.IntRange(0, 3).Draw(t, "out of line") == 0 {
					rank++
					live.Insert(w, k, 0, rank)
					ranks[k] = rank
				}
			case op == 13:
				w.Freeze()
				frozen, old = live, maps.Clone(ranks)
			case len(ranks) > 0:
				keys := slices.Sorted(maps.Keys(ranks))
				k := keys[0]
				if op > 16 {
					k = rapid.SampledFrom(keys).Draw(t, "gone")
				}
				live.Delete(w, k)
				delete(ranks, k)
			}
		}
		check(&live, ranks)
		check(&frozen, old)
	})
}

// FuzzTree plays a byte string as changes against a tree and a map.
func FuzzTree(f *testing.F) {
	f.Add([]byte("\x00\x01a\x00\x02ab\x01\x01a\x02\x02ab\x03"))
	f.Fuzz(func(t *testing.T, script []byte) {
		w := NewWriter(1)
		var tree Tree[int]
		m := map[string]int{}
		var old Tree[int]
		var oldKeys []string
		for n := 0; len(script) >= 2; n++ {
			op, size := script[0]%4, min(int(script[1]%8), len(script)-2)
			k := string(script[2 : 2+size])
			script = script[2+size:]
			_, there := m[k]
			switch {
			case op == 3:
				old, oldKeys = tree, slices.Sorted(maps.Keys(m))
				w.Freeze()
			case op == 2:
				tree.Delete(w, k)
				delete(m, k)
			case there:
				*tree.Edit(w, k) = n
				m[k] = n
			default:
				*tree.Insert(w, k, Class(n%Classes), 0) = n
				m[k] = n
			}
		}
		if got, want := collect(tree.All()), slices.Sorted(maps.Keys(m)); !slices.Equal(got, want) {
			t.Fatalf("got %q, want %q", got, want)
		}
		if got := collect(old.All()); !slices.Equal(got, oldKeys) {
			t.Fatalf("snapshot changed: got %q, want %q", got, oldKeys)
		}
		for k, v := range m {
			if got := tree.Get(k); got == nil || *got != v {
				t.Fatalf("get %q: got %v, want %d", k, got, v)
			}
		}
	})
}

// TestReadersNeedNoLock lets readers walk snapshots while the writer goes on.
// The race detector is the judge of the claim; the sums tell a torn snapshot.
func TestReadersNeedNoLock(t *testing.T) {
	w := NewWriter(1)
	var tree Tree[int]
	published := make(chan Tree[int], 4)
	done := make(chan error, 2)
	for range 2 {
		go func() {
			for s := range published {
				n := 0
				s.All().Ascend(func(_ string, v *int) bool { n += *v; return true })
				if got := int(s.Sum().Count[0]); got != n {
					done <- fmt.Errorf("snapshot counts %d leaves and holds %d", got, n)
					return
				}
			}
			done <- nil
		}()
	}
	for i := range 20_000 {
		k := fmt.Sprintf("a/%d/%d", i%97, i%1009)
		if tree.Get(k) == nil {
			*tree.Insert(w, k, 0, 0) = 1
		} else {
			tree.Delete(w, k)
		}
		if i%50 == 0 {
			published <- tree
			w.Freeze()
		}
	}
	close(published)
	for range 2 {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
}
