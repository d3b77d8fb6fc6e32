package compat_test

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/protobuf/proto"

	"github.com/pathlockd/pathlockd/compat"
	pb "github.com/pathlockd/pathlockd/compat/pathlockdv1"
)

// TestCrossedAnswers: a client that cancels its call before it has the answer, as it says
// by resetting the stream, does not hold what the answer grants. One that has had its
// answer does not say so, whatever it cancels later.
func TestCrossedAnswers(t *testing.T) {
	svc, addr := serve(t, compat.ServerOptions{}, 0)
	by, _ := client(t, addr)
	r := dialRaw(t, addr)
	ask := func(method string, req *pb.AcquireRequest) uint32 {
		t.Helper()
		body, err := proto.Marshal(req)
		if err != nil {
			t.Fatal(err)
		}
		id, err := r.open(method)
		if err == nil {
			err = r.WriteData(id, true, append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(body))), body...))
		}
		if err != nil {
			t.Fatal(err)
		}
		for { // until the server has said all that it has to say
			f, err := r.ReadFrame()
			if err != nil {
				t.Fatal(err)
			}
			if s, is := f.(*http2.SettingsFrame); is && !s.IsAck() {
				if err := r.WriteSettingsAck(); err != nil {
					t.Fatal(err)
				}
			}
			if h := f.Header(); h.StreamID == id && h.Type == http2.FrameHeaders && h.Flags.Has(http2.FlagHeadersEndStream) {
				return id
			}
		}
	}
	holder := func(path string) string {
		res, err := svc.InspectPath(within(t), &pb.InspectPathRequest{Path: path})
		if err != nil {
			t.Fatal(err)
		}
		return res.WriteOwner
	}
	for i, test := range []struct {
		method string
		keyed  bool
		code   http2.ErrCode
		back   bool
	}{
		{"Acquire", false, http2.ErrCodeCancel, true},
		{"AcquireWait", false, http2.ErrCodeCancel, true},
		{"AcquireStream", false, http2.ErrCodeCancel, true},
		{"AcquireStream", true, http2.ErrCodeCancel, false},
		{"AcquireStream", false, http2.ErrCodeNo, false},
		{"AcquireWatch", false, http2.ErrCodeCancel, false}, // who reads the grant may hang up
		{"Acquire", true, http2.ErrCodeCancel, false},
		{"AcquireWait", false, http2.ErrCodeNo, false},
	} {
		path := fmt.Sprintf("grpc:/answers/%d", i)
		req := acquire("d", path, path+"/below")
		if test.keyed {
			req.IdempotencyKey = rand.Text() // the node knows those of earlier runs
		}
		id := ask(test.method, req)
		if h := holder(path); h != "d" {
			t.Fatalf("%s: %s is held by %q", test.method, path, h)
		}
		if err := r.WriteRSTStream(id, test.code); err != nil {
			t.Fatal(err)
		}
		if test.back {
			poll(t, func() bool { return holder(path) == "" && holder(path+"/below") == "" }, func() string {
				return test.method + ": what nobody was told of is held"
			})
			continue
		}
		ask("Acquire", acquire("d", "grpc:/answers/next")) // the reset has been read when this is answered
		if h := holder(path); h != "d" {
			t.Errorf("%s, %v: %s is held by %q", test.method, test.code, path, h)
		}
	}

	// A stock client cancels the context of each call, as it must, when it is answered.
	for i := range 200 {
		ctx, cancel := context.WithTimeout(within(t), time.Minute)
		path := fmt.Sprintf("grpc:/answers-stock/%d", i)
		res, err := by.AcquireWait(ctx, acquire("c", path))
		cancel()
		if err != nil || res.Status != pb.AcquireStatus_ACQUIRE_STATUS_OK {
			t.Fatalf("%v, %v", res, err)
		}
		ctx, cancel = context.WithTimeout(within(t), time.Minute)
		stream, err := by.AcquireStream(ctx)
		if err == nil {
			err = stream.Send(acquire("c", path+"/bulk"))
		}
		if err == nil {
			res, err = stream.CloseAndRecv()
		}
		cancel()
		if err != nil || res.Status != pb.AcquireStatus_ACQUIRE_STATUS_OK {
			t.Fatalf("%v, %v", res, err)
		}
	}
	res, err := by.ListOwnerLocks(within(t), &pb.ListOwnerLocksRequest{OwnerId: "c"})
	if err != nil || len(res.Locks) != 400 {
		t.Errorf("%d locks of 400 are left, %v", len(res.GetLocks()), err)
	}
}
