package wire

import (
	"bytes"
	"io"
	"testing"

	"github.com/vmihailenco/msgpack/v5"
)

// go test ./wire -run XXX -bench . -count 6

// benchOps are the requests of the hot path, as a client sends them.
func benchOps() map[string]*Request {
	return map[string]*Request{
		"acquire": least(OpAcquire),
		"acquire_full": {Op: OpAcquire, Owner: "alice", TTLMillis: 30_000,
			Locks: []LockRequest{{Path: project}, {acme, ModeRead, StateHeld, 0}},
			Token: hiToken, Releases: []ReleaseRequest{{Path: acme + "/old"}}, Key: "key-1", QueueTTLMillis: 60_000,
			Flags: FlagBind, Meta: holderMeta},
		"release": least(OpRelease),
		"renew":   least(OpRenew),
		"ping":    least(OpPing),
	}
}

func payloadOf(req *Request) []byte { return AppendRequest(nil, 123_456, req)[frameHead:] }

func BenchmarkDecode(b *testing.B) {
	for _, name := range []string{"ping", "acquire", "acquire_full", "release", "renew"} {
		payload := payloadOf(benchOps()[name])
		b.Run(name, func(b *testing.B) {
			var req Request
			b.SetBytes(int64(len(payload)))
			b.ReportAllocs()
			for b.Loop() {
				if _, _, _, err := DecodeRequest(payload, &req); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkValidate(b *testing.B) {
	for _, name := range []string{"acquire", "acquire_full", "release", "renew"} {
		req := benchOps()[name]
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := req.Validate(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkEncode(b *testing.B) {
	for _, name := range []string{"ping", "acquire", "acquire_full", "release", "renew"} {
		req := benchOps()[name]
		b.Run(name, func(b *testing.B) {
			buf := make([]byte, 0, 4096)
			b.ReportAllocs()
			for b.Loop() {
				buf = AppendRequest(buf[:0], 123_456, req)
			}
		})
	}
}

// benchResults are the replies of the hot path.
var benchResults = []struct {
	name string
	op   Op
	res  Result
}{
	{"acquire_ok", OpAcquire, Result{Token: hiToken, Namespace: acme}},
	{"acquire_queued", OpAcquire, Result{Status: StatusQueued, Path: project, Owner: "bob", Reason: ReasonWriteLocked,
		Token: hiToken, Namespace: acme, Position: 2}},
	{"release", OpRelease, Result{}},
	{"renew", OpRenew, Result{}},
	{"refusal", OpAcquire, Result{Code: Unavailable, Message: "nothing was done, try again"}},
}

func BenchmarkEncodeReply(b *testing.B) {
	for _, row := range benchResults {
		b.Run(row.name, func(b *testing.B) {
			buf := make([]byte, 0, 4096)
			b.ReportAllocs()
			for b.Loop() {
				buf = AppendReply(buf[:0], 123_456, row.op, &row.res)
			}
		})
	}
}

func BenchmarkDecodeReply(b *testing.B) {
	for _, row := range benchResults {
		payload := AppendReply(nil, 123_456, row.op, &row.res)[frameHead:]
		b.Run(row.name, func(b *testing.B) {
			var res Result
			b.ReportAllocs()
			for b.Loop() {
				_, code, r, n, err := DecodeReply(payload)
				if err == nil {
					err = res.Decode(row.op, Code(code), &r, n)
				}
				if err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkNextFrame(b *testing.B) {
	stream := bytes.Repeat(AppendRequest(nil, 123_456, least(OpAcquire)), 100)
	b.SetBytes(int64(len(stream)))
	b.ReportAllocs()
	for b.Loop() {
		for rest := stream; len(rest) > 0; {
			_, size, _, err := NextFrame(rest, MaxFrameBytes)
			if err != nil {
				b.Fatal(err)
			}
			rest = rest[size:]
		}
	}
}

func BenchmarkCheckPath(b *testing.B) {
	for _, path := range []string{project, "tenant:/acme/projekte/Größe-42"} {
		b.Run(path[len(acme):], func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if CheckPath("path", path) != nil {
					b.Fatal("refused")
				}
			}
		})
	}
}

// BenchmarkFiveFields decodes [id, op, path, owner, reason], a request of five flat
// fields, in the ways there are to: by hand (the primitives alone, and the whole of
// DecodeRequest) and with the library.
func BenchmarkFiveFields(b *testing.B) {
	payload := payloadOf(least(OpIsBlocking))
	type asArray struct {
		_msgpack struct{} `msgpack:",as_array"` //nolint:unused // the library reads its tag

		ID, Op      uint64
		Path, Owner string
		Reason      uint8
	}
	check := func(b *testing.B, err error, owner string) {
		if err != nil || owner != "bob" {
			b.Fatal(owner, err)
		}
	}
	b.Run("primitives", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			r := NewReader(payload)
			r.Array()
			r.Uint()
			r.Uint()
			r.Str()
			owner := r.Str()
			r.Uint()
			check(b, r.Err(), owner)
		}
	})
	b.Run("DecodeRequest", func(b *testing.B) {
		var req Request
		b.ReportAllocs()
		for b.Loop() {
			if _, _, _, err := DecodeRequest(payload, &req); err != nil {
				b.Fatal(err)
			}
			check(b, nil, req.Blocker)
		}
	})
	b.Run("msgpack.Unmarshal", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var v asArray
			err := msgpack.Unmarshal(payload, &v)
			check(b, err, v.Owner)
		}
	})
	b.Run("msgpack.Decoder_strings", func(b *testing.B) {
		b.ReportAllocs()
		in := bytes.NewReader(nil)
		d := msgpack.NewDecoder(in)
		for b.Loop() {
			in.Reset(payload)
			d.Reset(in)
			var v asArray
			check(b, libraryFields(d, &v.ID, &v.Op, &v.Path, &v.Owner, &v.Reason), v.Owner)
		}
	})
	b.Run("msgpack.Decoder_buffers", func(b *testing.B) {
		b.ReportAllocs()
		in := bytes.NewReader(nil)
		d := msgpack.NewDecoder(in)
		path, owner := make([]byte, 0, 256), make([]byte, 0, 256)
		for b.Loop() {
			in.Reset(payload)
			d.Reset(in)
			err := libraryBuffers(d, &path, &owner)
			if err != nil || string(owner) != "bob" {
				b.Fatal(err)
			}
		}
	})
}

func libraryFields(d *msgpack.Decoder, id, op *uint64, path, owner *string, reason *uint8) (err error) {
	if _, err = d.DecodeArrayLen(); err != nil {
		return err
	}
	if *id, err = d.DecodeUint64(); err != nil {
		return err
	}
	if *op, err = d.DecodeUint64(); err != nil {
		return err
	}
	if *path, err = d.DecodeString(); err != nil {
		return err
	}
	if *owner, err = d.DecodeString(); err != nil {
		return err
	}
	*reason, err = d.DecodeUint8()
	return err
}

// libraryBuffers is the library's way without allocations.
func libraryBuffers(d *msgpack.Decoder, bufs ...*[]byte) error {
	if _, err := d.DecodeArrayLen(); err != nil {
		return err
	}
	for range 2 {
		if _, err := d.DecodeUint64(); err != nil {
			return err
		}
	}
	for _, buf := range bufs {
		n, err := d.DecodeBytesLen()
		if err != nil {
			return err
		}
		if n < 0 || n > cap(*buf) {
			return io.ErrShortBuffer
		}
		*buf = (*buf)[:n]
		if err := d.ReadFull(*buf); err != nil {
			return err
		}
	}
	_, err := d.DecodeUint8()
	return err
}
