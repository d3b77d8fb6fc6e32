package conformance_test

import (
	"context"
	"errors"
	"io"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/dynamicpb"
)

// grpcFace is a stock gRPC client with messages made from the descriptor.
type grpcFace struct {
	addr string
	conn *grpc.ClientConn
}

func dialGRPC(addr string) (*grpc.ClientConn, error) {
	return grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
}

func (g *grpcFace) has(rpc string) bool { return method(rpc) != nil }
func (g *grpcFace) full() bool          { return true }

func (g *grpcFace) call(ctx context.Context, rpc string, req message) (message, *refusal) {
	return unary(ctx, g.conn, rpc, req)
}

func path(rpc string) string { return "/pathlockd.v1.PathLock/" + rpc }

// encode makes the RPC's message of a request.
func encode(rpc string, req message) (*dynamicpb.Message, error) {
	d := method(rpc).Input()
	text, err := toJSON(d, req, style{})
	if err != nil {
		return nil, err
	}
	in := dynamicpb.NewMessage(d)
	return in, protojson.Unmarshal(text, in)
}

func unary(ctx context.Context, conn *grpc.ClientConn, rpc string, req message) (message, *refusal) {
	in, err := encode(rpc, req)
	if err != nil {
		return nil, broken(err)
	}
	out := dynamicpb.NewMessage(method(rpc).Output())
	if err := conn.Invoke(ctx, path(rpc), in, out); err != nil {
		return nil, refusedBy(err)
	}
	return fromProto(out), nil
}

// broken is what the test itself could not do.
func broken(err error) *refusal { return &refusal{"BROKEN", err.Error()} }

// grpcCodes are the names of the codes as the contract spells them.
var grpcCodes = map[codes.Code]string{
	codes.Canceled: "CANCELLED", codes.InvalidArgument: "INVALID_ARGUMENT", codes.DeadlineExceeded: "DEADLINE_EXCEEDED",
	codes.ResourceExhausted: "RESOURCE_EXHAUSTED", codes.FailedPrecondition: "FAILED_PRECONDITION",
	codes.Aborted: "ABORTED", codes.Unimplemented: "UNIMPLEMENTED", codes.Internal: "INTERNAL",
	codes.Unavailable: "UNAVAILABLE",
}

func refusedBy(err error) *refusal {
	s := status.Convert(err)
	name, ok := grpcCodes[s.Code()]
	if !ok {
		name = s.Code().String()
	}
	return &refusal{name, s.Message()}
}

func (g *grpcFace) start(t testing.TB, rpc string, req message) *open {
	t.Helper()
	conn, err := dialGRPC(g.addr)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(func() {
		cancel()
		conn.Close()
	})
	o := &open{
		told: make(chan message, 1), ended: make(chan outcome, 1),
		cancel: cancel, drop: func() { conn.Close() },
	}
	go func() {
		if method(rpc).IsStreamingServer() {
			o.ended <- watch(ctx, conn, rpc, req, o.told)
			return
		}
		answer, refused := unary(ctx, conn, rpc, req)
		o.ended <- outcome{answer, refused}
	}()
	return o
}

// watch takes the messages of a call that answers several: the last is the outcome,
// those before tell where the request stands.
func watch(ctx context.Context, conn *grpc.ClientConn, rpc string, req message, told chan<- message) outcome {
	in, err := encode(rpc, req)
	if err != nil {
		return outcome{refused: broken(err)}
	}
	s, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, path(rpc))
	if err == nil {
		err = errors.Join(s.SendMsg(in), s.CloseSend())
	}
	if err != nil {
		return outcome{refused: refusedBy(err)}
	}
	for last := message(nil); ; {
		out := dynamicpb.NewMessage(method(rpc).Output())
		switch err := s.RecvMsg(out); {
		case errors.Is(err, io.EOF):
			return outcome{answer: last}
		case err != nil:
			return outcome{refused: refusedBy(err)}
		}
		if last = fromProto(out); last["status"] == "QUEUED" {
			told <- last
		}
	}
}

func (g *grpcFace) acquireStream(ctx context.Context, chunks []message) (message, *refusal) {
	s, err := g.conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true}, path("AcquireStream"))
	if err != nil {
		return nil, refusedBy(err)
	}
	for _, c := range chunks {
		in, err := encode("AcquireStream", c)
		if err != nil {
			return nil, broken(err)
		}
		if err := s.SendMsg(in); err != nil {
			break // the server has said why already
		}
	}
	s.CloseSend()
	out := dynamicpb.NewMessage(method("AcquireStream").Output())
	if err := s.RecvMsg(out); err != nil {
		return nil, refusedBy(err)
	}
	return fromProto(out), nil
}

func (g *grpcFace) subscribe(t testing.TB, req message) (*stream, *refusal) {
	t.Helper()
	in, err := encode("Subscribe", req)
	if err != nil {
		return nil, broken(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s, err := g.conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, path("Subscribe"))
	if err == nil {
		err = errors.Join(s.SendMsg(in), s.CloseSend())
	}
	var headers metadata.MD
	if err == nil {
		headers, err = s.Header() // live from here on
	}
	if err == nil && headers == nil { // ended before it began
		err = s.RecvMsg(dynamicpb.NewMessage(method("Subscribe").Output()))
	}
	if err != nil {
		cancel()
		return nil, refusedBy(err)
	}
	out := &stream{events: make(chan message, 64), close: cancel}
	go func() {
		defer close(out.events)
		for {
			m := dynamicpb.NewMessage(method("Subscribe").Output())
			if err := s.RecvMsg(m); err != nil {
				return
			}
			select {
			case out.events <- fromProto(m):
			case <-ctx.Done():
				return
			}
		}
	}()
	return out, nil
}
