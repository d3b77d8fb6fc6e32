package compat

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"testing"

	"golang.org/x/net/http2"
	"pgregory.net/rapid"
)

// scripted is a connection that reads what a test wrote, in pieces of its choice.
type scripted struct {
	net.Conn
	pieces [][]byte
}

func (s *scripted) Read(b []byte) (int, error) {
	if len(s.pieces) == 0 {
		return 0, io.EOF
	}
	n := copy(b, s.pieces[0])
	if s.pieces[0] = s.pieces[0][n:]; len(s.pieces[0]) == 0 {
		s.pieces = s.pieces[1:]
	}
	return n, nil
}

func (s *scripted) Write(b []byte) (int, error) { return len(b), nil }
func (s *scripted) Close() error                { return nil }

// TestUnfinishedMessagesAreCounted holds the filter against a model that keeps every
// stream's bytes, however the reads are split.
func TestUnfinishedMessagesAreCounted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var wrote bytes.Buffer
		wrote.WriteString(clientPreface)
		framer := http2.NewFramer(&wrote, nil)
		model := make(map[uint32][]byte) // bytes of a stream that is open
		asked := make(map[uint32]bool)   // streams that their client ended, and the server not
		more := func(id uint32, b []byte) {
			if _, open := model[id]; open {
				model[id] = append(model[id], b...)
			}
		}
		for range rapid.IntRange(0, 40).Draw(t, "frames") {
			id := rapid.SampledFrom([]uint32{1, 3, 5}).Draw(t, "stream")
			switch rapid.SampledFrom([]string{"data", "data", "data", "padded", "last", "reset", "headers", "headers",
				"headers", "ping", "window"}).Draw(t, "kind") {
			case "data":
				b := message(t)
				framer.WriteData(id, false, b)
				more(id, b)
			case "padded":
				b := message(t)
				framer.WriteDataPadded(id, false, b, make([]byte, rapid.IntRange(0, 255).Draw(t, "pad")))
				more(id, b)
			case "last":
				framer.WriteData(id, true, message(t))
				if model[id] != nil {
					asked[id] = true
				}
				delete(model, id)
			case "reset":
				framer.WriteRSTStream(id, http2.ErrCodeCancel)
				delete(model, id)
				delete(asked, id)
			case "headers":
				if model[id] == nil && !asked[id] {
					model[id] = []byte{}
				}
				framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: []byte("xyz"),
					EndHeaders: true})
			case "ping":
				framer.WritePing(false, [8]byte{})
			case "window":
				framer.WriteWindowUpdate(id, 7)
			}
		}
		want := int64(0)
		for _, b := range model {
			for len(b) >= 5 {
				n := int(binary.BigEndian.Uint32(b[1:])) + 5
				if len(b) < n {
					break
				}
				b = b[n:]
			}
			if len(b) > 0 {
				want += streamCost + int64(max(len(b)-5, 0))
			}
		}
		s := new(scripted)
		for all := wrote.Bytes(); len(all) > 0; {
			n := rapid.IntRange(1, len(all)).Draw(t, "read")
			s.pieces, all = append(s.pieces, all[:n]), all[n:]
		}
		total := &budget{most: 1 << 40}
		var state http.ConnState
		f := newFiltered(s, total, func(now http.ConnState) bool { state = now; return true }, new(answers))
		if _, err := io.Copy(io.Discard, struct{ io.Reader }{f}); err != nil {
			t.Fatal(err)
		}
		if got := total.used.Load(); got != want || f.mu.held != want {
			t.Fatalf("counted %d and %d bytes, want %d", got, f.mu.held, want)
		}
		is := func(busy bool) {
			if busy && state != http.StateActive || !busy && state != http.StateIdle {
				t.Fatalf("the connection is told to be %v, with calls: %v", state, busy)
			}
		}
		is(len(model)+len(asked) > 0)
		// What the server ends is not counted any more, whatever the client does.
		var ends bytes.Buffer
		out := http2.NewFramer(&ends, nil)
		out.WriteSettings()
		out.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte("x"), EndHeaders: true,
			EndStream: true})
		out.WriteData(3, false, []byte("abc"))
		out.WriteRSTStream(3, http2.ErrCodeNo)
		f.Write(ends.Bytes())
		if f.mu.streams[1] != nil || f.mu.streams[3] != nil {
			t.Fatal("streams that were ended are counted")
		}
		is(model[5] != nil || asked[5])
		f.Close()
		if got := total.used.Load(); got != 0 {
			t.Fatalf("%d bytes are counted for a connection that is closed", got)
		}
	})
}

// message is part of some messages' bytes.
func message(t *rapid.T) []byte {
	var b []byte
	for range rapid.IntRange(0, 3).Draw(t, "messages") {
		n := rapid.IntRange(0, 20).Draw(t, "bytes")
		b = append(b, 0)
		b = binary.BigEndian.AppendUint32(b, uint32(n))
		b = append(b, make([]byte, n)...)
	}
	if len(b) == 0 {
		return nil
	}
	return b[:rapid.IntRange(1, len(b)).Draw(t, "cut")]
}
