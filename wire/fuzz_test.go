package wire

import (
	"bytes"
	"errors"
	"reflect"
	"slices"
	"testing"
	"unsafe"

	"github.com/vmihailenco/msgpack/v5"
)

// seeds are the payloads of the vectors of a direction, good and bad.
func seeds(f *testing.F, direction ...string) (payloads [][]byte) {
	f.Helper()
	for _, v := range readVectors(f) {
		if frame := v.frame(f); slices.Contains(direction, v.Direction) && len(frame) > frameHead {
			payloads = append(payloads, frame[frameHead:])
		}
	}
	return payloads
}

// FuzzDecodeRequest: whatever comes, the decoder neither panics nor writes to its
// input nor takes more memory than a multiple of it; and what it understood, the
// encoder says again.
func FuzzDecodeRequest(f *testing.F) {
	for _, p := range seeds(f, "request") {
		f.Add(p)
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		before := bytes.Clone(payload)
		var req Request
		id, body, nargs, err := DecodeRequest(payload, &req)
		if !bytes.Equal(before, payload) {
			t.Fatal("the decoder wrote to the payload")
		}
		if size, most := listBytes(&req), 64*len(payload)+4096; size > most {
			t.Fatalf("lists of %d bytes from a payload of %d", size, len(payload))
		}
		if id > MaxRequestID || id == 0 && err == nil {
			t.Fatalf("id %d, %v", id, err)
		}
		if err != nil {
			checkRefusal(t, err)
			return
		}
		if err := req.Validate(); err != nil {
			checkRefusal(t, err)
		}
		var alone Request
		err = DecodeArgs(req.Op, body, nargs, &alone)
		if alone.Settled = req.Settled; err != nil || !sameRequest(&req, &alone) {
			t.Fatalf("the arguments alone: %+v, %v, want %+v", alone, err, req)
		}
		frame := AppendRequest(nil, id, &req)
		again, size, _, frameErr := NextFrame(frame, MaxFrameBytes)
		if frameErr != nil || size != len(frame) {
			t.Fatalf("encoded: a frame of %d of %d bytes, %v", size, len(frame), frameErr)
		}
		var second Request
		id2, _, _, err := DecodeRequest(again, &second)
		if err != nil || id2 != id || !sameRequest(&req, &second) {
			t.Fatalf("decoded again: %d %+v, %v, want %d %+v", id2, second, err, id, req)
		}
		if frame2 := AppendRequest(nil, id, &second); !bytes.Equal(frame, frame2) {
			t.Fatalf("encoded again: %x, before %x", frame2, frame)
		}
	})
}

// checkRefusal: a refusal says something, at bounded length.
func checkRefusal(t *testing.T, err *Error) {
	t.Helper()
	if err.Code == OK || err.Message == "" || len(err.Message) > mostMessage {
		t.Fatalf("refused with %d and a message of %d bytes", err.Code, len(err.Message))
	}
}

// listBytes is the memory that a request's lists take.
func listBytes(req *Request) int {
	return cap(req.Locks)*int(unsafe.Sizeof(LockRequest{})) + cap(req.Releases)*int(unsafe.Sizeof(ReleaseRequest{})) +
		cap(req.Domains)*int(unsafe.Sizeof("")) + cap(req.Paths)*int(unsafe.Sizeof("")) +
		cap(req.Positions)*int(unsafe.Sizeof(Position{}))
}

// sameRequest compares what two requests say: an empty list is none.
func sameRequest(a, b *Request) bool {
	x, y := plain(*a), plain(*b)
	return reflect.DeepEqual(&x, &y)
}

func plain(req Request) Request {
	req.Locks, req.Releases = orNil(req.Locks), orNil(req.Releases)
	req.Domains, req.Paths, req.Positions = orNil(req.Domains), orNil(req.Paths), orNil(req.Positions)
	req.Cursor, req.Meta = orNil(req.Cursor), orNil(req.Meta)
	if req.Hello != nil {
		h := *req.Hello
		h.Session, h.Meta = orNil(h.Session), orNil(h.Meta)
		req.Hello = &h
	}
	return req
}

func orNil[T any](s []T) []T {
	if len(s) == 0 {
		return nil
	}
	return s
}

// FuzzDecodeReply does the same with what a client reads: replies to an operation,
// and pushes.
func FuzzDecodeReply(f *testing.F) {
	for _, v := range readVectors(f) {
		if frame := v.frame(f); v.Direction != "request" {
			f.Add(byte(opNamed(v.Op)), frame[frameHead:])
		}
	}
	f.Fuzz(func(t *testing.T, op byte, payload []byte) {
		before := bytes.Clone(payload)
		frame := readBack(t, Op(op), payload)
		if !bytes.Equal(before, payload) {
			t.Fatal("the decoder wrote to the payload")
		}
		if frame == nil {
			return
		}
		again := readBack(t, Op(op), frame[frameHead:])
		if !bytes.Equal(frame, again) {
			t.Fatalf("encoded %x, decoded and encoded again %x", frame, again)
		}
	})
}

// readBack decodes a reply or push and encodes what it understood, nil if nothing.
func readBack(t *testing.T, op Op, payload []byte) []byte {
	id, code, r, n, err := DecodeReply(payload)
	if err != nil {
		return nil
	}
	if code > 255 {
		t.Fatalf("code %d", code)
	}
	if id == 0 {
		p, known, err := decodePush(PushKind(code), &r, n)
		if !known || err != nil {
			return nil
		}
		return p.frame()
	}
	var res Result
	if res.Decode(op, Code(code), &r, n) != nil {
		return nil
	}
	return AppendReply(nil, id, op, &res)
}

// FuzzNextFrame: a stream holds the same frames however it is cut into reads.
func FuzzNextFrame(f *testing.F) {
	var stream []byte
	for i, p := range seeds(f, "request", "reply", "push") {
		if len(p) > 40 {
			continue
		}
		stream = append(stream, framed(p)...)
		if i%7 == 0 {
			f.Add(stream, []byte{1, 2, 3, 250}, uint16(64))
			stream = nil
		}
	}
	f.Add(packed("00000000"), []byte{1}, uint16(10))
	f.Add(packed("ffffffff 00"), []byte{2}, uint16(10))
	f.Add(packed("00000003 92 01 02 00000004 00"), []byte{0, 0, 5}, uint16(3))
	f.Fuzz(func(t *testing.T, stream []byte, cuts []byte, most uint16) {
		want, wantErr := framesOf(t, [][]byte{stream}, int(most))
		pieces, rest := [][]byte{}, stream
		for _, c := range cuts {
			n := min(int(c), len(rest))
			pieces, rest = append(pieces, rest[:n]), rest[n:]
		}
		got, gotErr := framesOf(t, append(pieces, rest), int(most))
		if !errors.Is(gotErr, wantErr) || !slices.EqualFunc(got, want, bytes.Equal) {
			t.Fatalf("cut at %d: %d frames, %v; whole: %d frames, %v", cuts, len(got), gotErr, len(want), wantErr)
		}
		for at := 0; at <= len(stream) && len(stream) <= 512; at++ {
			got, gotErr := framesOf(t, [][]byte{stream[:at], stream[at:]}, int(most))
			if !errors.Is(gotErr, wantErr) || !slices.EqualFunc(got, want, bytes.Equal) {
				t.Fatalf("cut at %d: %d frames, %v; whole: %d frames, %v", at, len(got), gotErr, len(want), wantErr)
			}
		}
	})
}

// framesOf reads the frames of a stream that comes in pieces, as a server does.
func framesOf(t *testing.T, pieces [][]byte, most int) (frames [][]byte, err error) {
	var buf []byte
	for _, piece := range pieces {
		buf = append(buf, piece...)
		for {
			payload, size, need, err := NextFrame(buf, most)
			if err != nil {
				return frames, err
			}
			if size == 0 {
				if need != 0 && need <= len(buf) || need == 0 && len(buf) >= frameHead {
					t.Fatalf("with %d bytes the frame needs %d", len(buf), need)
				}
				break
			}
			if size != frameHead+len(payload) || size > len(buf) || len(payload) == 0 || len(payload) > most {
				t.Fatalf("a frame of %d bytes has a payload of %d, at most %d", size, len(payload), most)
			}
			frames = append(frames, bytes.Clone(payload))
			buf = buf[size:]
		}
	}
	return frames, nil
}

// FuzzMetadata: what Validate lets in can be shown, and is the same after it was
// encoded again, to us and to the library.
func FuzzMetadata(f *testing.F) {
	f.Add(holderMeta)
	f.Add([]byte{0x90})
	for _, r := range rules() {
		if len(r.req.Meta) > 0 && len(r.req.Meta) < 100 {
			f.Add(r.req.Meta)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		refused := checkMetadata("metadata", b)
		m, err := DecodeMetadata(b)
		if refused != nil {
			checkRefusal(t, refused)
			return
		}
		if err != nil {
			t.Fatalf("accepted, but does not decode: %v", err)
		}
		again, err := m.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if err := checkMetadata("metadata", again); err != nil && len(again) <= MaxMetadataBytes {
			t.Fatalf("encoded again it is refused: %v", err)
		}
		ours, err := DecodeMetadata(again)
		if err != nil || !reflect.DeepEqual(ours, m) {
			t.Fatalf("decoded again: %+v, %v, want %+v", ours, err, m)
		}
		var theirs Metadata
		if err := msgpack.Unmarshal(again, &theirs); err != nil || !reflect.DeepEqual(theirs, m) {
			t.Fatalf("the library reads %+v, %v, want %+v", theirs, err, m)
		}
	})
}
