package mesh

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"testing"
	"time"
)

// pieces reads what it has in pieces of lengths that a seed says.
type pieces struct {
	b    []byte
	luck *rand.Rand
}

func (p *pieces) Read(b []byte) (int, error) {
	if len(p.b) == 0 {
		return 0, io.EOF
	}
	n := copy(b, p.b[:min(len(p.b), 1+p.luck.IntN(1<<p.luck.IntN(18)))])
	p.b = p.b[n:]
	return n, nil
}

// TestReadSplits: however the bytes come, the frames are the same, and little is kept.
func TestReadSplits(t *testing.T) {
	for seed := range uint64(50) {
		luck := rand.New(rand.NewPCG(seed, 1))
		var all []byte
		var want [][]byte
		var own []bool
		for i := range 100 {
			n := luck.IntN(1 << luck.IntN(20))
			mine := luck.IntN(4) == 0
			head := uint32(0)
			if mine {
				n, head = n%(maxTextBytes+1), ownFrame
			}
			f := pattern(i, n)
			all = append(appendHead(all, head|uint32(n)), f...)
			want, own = append(want, f), append(own, mine)
		}
		f := newFrames(&pieces{all, luck})
		for i := range want {
			got, mine, err := f.next()
			if err != nil || mine != own[i] || !bytes.Equal(got, want[i]) {
				t.Fatalf("seed %d: frame %d of %d bytes, %v, came as one of %d, %v: %v", seed, i, len(want[i]), own[i],
					len(got), mine, err)
			}
		}
		if _, _, err := f.next(); !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
		if len(f.buf) > keptRead {
			t.Errorf("%d bytes are kept", len(f.buf))
		}
	}
}

// TestClaims: a length alone does not cost its bytes, and one that is too long costs
// nothing.
func TestClaims(t *testing.T) {
	for _, n := range []int{3, firstRead, trusted - frameHead} {
		f := newFrames(bytes.NewReader(append(appendHead(nil, MaxFrameBytes), pattern(1, n)...)))
		if _, _, err := f.next(); !errors.Is(err, io.EOF) || len(f.buf) > 2*trusted {
			t.Errorf("%v; %d bytes for %d", err, len(f.buf), n)
		}
	}
	for _, head := range []uint32{MaxFrameBytes + 1, ownFrame | (maxTextBytes + 1), ownFrame - 1, ^uint32(0)} {
		f := newFrames(bytes.NewReader(append(appendHead(nil, head), 1, 2, 3)))
		if _, _, err := f.next(); !errors.Is(err, errTooLong) || len(f.buf) > firstRead {
			t.Errorf("%#x: %v", head, err)
		}
	}
}

// FuzzFrames: any bytes are frames, an error or too few, and nothing else.
func FuzzFrames(f *testing.F) {
	f.Add([]byte{0, 0, 0, 1, 7, 0x80, 0, 0, 0}, uint64(1))
	f.Add([]byte{0xff, 0, 0, 1}, uint64(2))
	f.Fuzz(func(t *testing.T, b []byte, seed uint64) {
		r := newFrames(&pieces{b, rand.New(rand.NewPCG(seed, 1))})
		for {
			body, own, err := r.next()
			if err != nil {
				if !errors.Is(err, io.EOF) && !errors.Is(err, errTooLong) {
					t.Fatal(err)
				}
				return
			}
			head := uint32(len(body))
			if own {
				head |= ownFrame
			}
			want := append(appendHead(nil, head), body...)
			if !bytes.HasPrefix(b, want) {
				t.Fatalf("%x is not what follows in %x", want, b)
			}
			b = b[len(want):]
		}
	})
}

// TestQueue: bytes come out as they went in, whatever is taken when; the count is right,
// holds keep their place, and a backlog leaves nothing behind.
func TestQueue(t *testing.T) {
	luck := rand.New(rand.NewPCG(1, 1))
	for round := range 100 {
		var q queue
		var in, out []byte
		var r record
		held := 0
		pull := func() bool {
			out = append(out, r.b...) // until now it may have been being written
			next, ok := q.take(r)
			if r = next; ok && !r.at.IsZero() {
				held--
			}
			return ok
		}
		for i := range 300 {
			b := pattern(i, luck.IntN(1<<luck.IntN(17)))
			if luck.IntN(8) == 0 {
				q.hold(len(b), time.Unix(1, 0))
				held++
			}
			q.add(b)
			in = append(in, b...)
			for range luck.IntN(1 + round%4) {
				pull()
			}
			if q.unsent != len(in)-len(out) {
				t.Fatalf("%d bytes are unsent, it says %d", len(in)-len(out), q.unsent)
			}
		}
		for pull() {
		}
		if !bytes.Equal(in, out) || q.unsent != 0 || held != 0 {
			t.Fatalf("%d bytes went in, %d came out, %d are left, %d holds", len(in), len(out), q.unsent, held)
		}
		if len(q.spare) > spareRecords || cap(q.records) > 2*spareRecords {
			t.Fatalf("%d spare records, a list for %d", len(q.spare), cap(q.records))
		}
	}
}

// TestQueueNeverEmpty: a queue in which there is always something does not grow with
// what went through it.
func TestQueueNeverEmpty(t *testing.T) {
	var q queue
	var r record
	b := make([]byte, recordBytes)
	for range 3 {
		q.add(b)
	}
	for range 10_000 {
		q.add(b)
		r, _ = q.take(r)
	}
	if cap(q.records) > 8*spareRecords || len(q.spare) > spareRecords || q.unsent != 4*recordBytes {
		t.Errorf("a list for %d records, %d spare, %d bytes unsent", cap(q.records), len(q.spare), q.unsent)
	}
}
