package wire

import (
	"bytes"
	"runtime"
	"strings"
	"testing"
)

// TestDecodeMemory sends lists of as many one-byte elements as a frame holds: what
// is over a list's limit is refused before room is made for it.
func TestDecodeMemory(t *testing.T) {
	const elements = 4 << 20
	flood := append(AppendArray(nil, elements), bytes.Repeat([]byte{tNil}, elements)...)
	const most = 1 << 20 // bytes; the lists would take a hundred times as much
	for _, op := range Ops() {
		spec, _ := op.Spec()
		for i, f := range spec.Args {
			if !strings.HasPrefix(slotTypes[f.slot], "[") {
				continue
			}
			payload := AppendUint(AppendUint(AppendArray(nil, 3+i), 7), uint64(op))
			req := least(op)
			for _, before := range spec.Args[:i] {
				payload = req.append(payload, before.slot)
			}
			payload = append(payload, flood...)
			var got Request
			var err *Error
			took := allocated(func() { _, _, _, err = DecodeRequest(payload, &got) })
			if err == nil || !strings.Contains(err.Message, f.Name+": has 4194304 entries, at most ") {
				t.Errorf("%v: %s of 4 Mi elements: %v", op, f.Name, err)
			}
			if took > most {
				t.Errorf("%v: %s of 4 Mi elements took %d bytes", op, f.Name, took)
			}
		}
	}
}

// allocated is how many bytes f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestBulkLimit: the decoder takes as many paths as a bulk acquire may name, and
// not one more.
func TestBulkLimit(t *testing.T) {
	for _, n := range []int{MaxBulkPaths, MaxBulkPaths + 1} {
		req := with(OpAcquire, func(r *Request) {
			r.Flags, r.Locks = FlagBulk, repeat(LockRequest{Path: "h:/a"}, n)
		})
		payload, _, _, frameErr := NextFrame(AppendRequest(nil, 7, req), MaxFrameBytes)
		var got Request
		_, _, _, err := DecodeRequest(payload, &got)
		if frameErr != nil || (err == nil) != (n == MaxBulkPaths) {
			t.Errorf("%d paths: %v, %v", n, frameErr, err)
		}
	}
}

// TestResetLetsGo: a request that is used again holds on to neither the buffers of
// earlier ones nor the memory of one that was huge.
func TestResetLetsGo(t *testing.T) {
	var req Request
	decode := func(src *Request) {
		t.Helper()
		body, nargs := AppendArgs(nil, src)
		if err := DecodeArgs(src.Op, body, nargs, &req); err != nil {
			t.Fatal(err)
		}
	}
	lists := func(n int) *Request {
		return &Request{Op: OpAcquire, Owner: "alice", TTLMillis: 1, Locks: repeat(LockRequest{Path: "h:/a"}, n),
			Releases: repeat(ReleaseRequest{Path: "h:/a"}, n), Meta: holderMeta}
	}
	decode(lists(100))
	held := cap(req.Locks)
	decode(lists(1))
	if cap(req.Locks) != held {
		t.Errorf("the list's memory was not used again: room for %d, before %d", cap(req.Locks), held)
	}
	for i, l := range req.Locks[:cap(req.Locks)][1:] {
		if l.Path != "" {
			t.Fatalf("entry %d still says %q, of an earlier request's buffer", i+1, l.Path)
		}
	}
	decode(lists(MaxBulkPaths))
	req.Reset()
	if cap(req.Locks) > 2*MaxPaths || cap(req.Releases) > 2*MaxPaths {
		t.Errorf("room for %d locks and %d releases is kept after a bulk request", cap(req.Locks), cap(req.Releases))
	}
}

// TestReplyTooLarge: an answer that no frame can carry becomes a refusal, and what
// was in the buffer before stays.
func TestReplyTooLarge(t *testing.T) {
	res := &Result{Flag: true, List: &List{}}
	for range 600 {
		res.List.Infos = append(res.List.Infos, LockInfo{Owner: strings.Repeat("o", 1024), Path: longPath(4096),
			Meta: append(AppendArray(nil, 1), AppendStr(nil, strings.Repeat("m", 4000))...)})
	}
	first := AppendReply(nil, 1, OpPing, &Result{})
	out := AppendReply(bytes.Clone(first), 7, OpListLocks, res)
	if !bytes.HasPrefix(out, first) {
		t.Fatal("what was in the buffer is gone")
	}
	payload, size, _, err := NextFrame(out[len(first):], MaxFrameBytes)
	if err != nil || size != len(out)-len(first) {
		t.Fatalf("a frame of %d of %d bytes, %v", size, len(out)-len(first), err)
	}
	id, code, r, n, err := DecodeReply(payload)
	var got Result
	if err == nil {
		err = got.Decode(OpListLocks, Code(code), &r, n)
	}
	if err != nil || id != 7 || got.Code != ResourceExhausted || !strings.Contains(got.Message, "list_owner_locks") ||
		!strings.Contains(got.Message, "at most 4259840") {
		t.Errorf("answer %d: %+v, %v", id, got, err)
	}
	res.List.Infos = res.List.Infos[:400]
	if out := AppendReply(nil, 7, OpListLocks, res); len(out) < 3<<20 {
		t.Errorf("an answer that fits takes %d bytes", len(out))
	}
}

// TestSlotsAreComplete: every field of every operation, internal ones too, can be
// read and written.
func TestSlotsAreComplete(t *testing.T) {
	for op := Op(1); op < numOps; op++ {
		spec, ok := op.Spec()
		if !ok {
			continue
		}
		var all []byte
		for range spec.Args {
			all = AppendNil(all)
		}
		var req Request
		if err := DecodeArgs(op, all, len(spec.Args), &req); err != nil {
			t.Errorf("%v: %v", op, err)
		}
		for _, f := range spec.Args {
			if req.has(f.slot) && f.slot != sHello {
				t.Errorf("%v: nil is no default for %s", op, f.Name)
			}
			req.append(nil, f.slot)
		}
		all = all[:0]
		for range spec.Results {
			all = AppendNil(all)
		}
		r := NewReader(all)
		var res Result
		if err := res.Decode(op, OK, &r, len(spec.Results)); err != nil {
			t.Errorf("results of %v: %v", op, err)
		}
		for _, f := range spec.Results {
			if res.has(f.slot) && f.slot != sWelcome && f.slot != sTopology && f.slot != sBackup {
				t.Errorf("results of %v: nil is no default for %s", op, f.Name)
			}
			res.append(nil, f.slot)
		}
	}
}

// TestHotPathAllocatesNothing: a request that is used again costs no memory.
func TestHotPathAllocatesNothing(t *testing.T) {
	var req Request
	buf := make([]byte, 0, 4096)
	for _, op := range []Op{OpPing, OpAcquire, OpRelease, OpRenew, OpReleaseAll, OpAssertFencing, OpSubscribe,
		OpDumpLocks} {
		src := fullRequests()[op]
		src.Op = op
		src.Flags &^= FlagWait
		frame := AppendRequest(nil, 7, src)
		if n := testing.AllocsPerRun(100, func() {
			payload, _, _, _ := NextFrame(frame, MaxFrameBytes)
			if _, _, _, err := DecodeRequest(payload, &req); err != nil {
				t.Fatal(err)
			}
			if err := req.Validate(); err != nil {
				t.Fatal(err)
			}
			buf = AppendRequest(buf[:0], 7, &req)
		}); n != 0 {
			t.Errorf("%v: %v allocations for decode, validate and encode", op, n)
		}
		if spec, _ := op.Spec(); len(spec.Results) == 0 || op == OpAcquire || op == OpRenew {
			res := fullResults()[op]
			if n := testing.AllocsPerRun(100, func() { buf = AppendReply(buf[:0], 7, op, res) }); n != 0 {
				t.Errorf("%v: %v allocations for a reply", op, n)
			}
		}
	}
}
