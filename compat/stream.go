package compat

import (
	"context"
	"errors"
	"io"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	pb "github.com/pathlockd/pathlockd/compat/pathlockdv1"
	"github.com/pathlockd/pathlockd/wire"
)

const (
	// maxStreamBytes bounds the chunks of one AcquireStream together, encoded
	// (contract.md section 2).
	maxStreamBytes = 4 << 20
	// maxGathered bounds those of all streams that are not whole yet; over it the
	// stream that brings more is ended with RESOURCE_EXHAUSTED.
	maxGathered = 64 << 20
	// wholeWithin is how long a stream may take to be whole.
	wholeWithin = 30 * time.Second
)

// AcquireStream implements the RPC: the chunks make one acquire.
func (s *Service) AcquireStream(stream grpc.ClientStreamingServer[pb.AcquireRequest, pb.AcquireResponse]) error {
	c := s.b.begin(wire.OpAcquire)
	whole := make(chan error, 1)
	go func() { whole <- s.receive(c, stream) }()
	late := time.NewTimer(wholeWithin)
	defer late.Stop()
	select {
	case err := <-whole:
		if err != nil {
			s.b.end(c)
			return err
		}
	case <-late.C: // receive ends with the stream
		return status.Errorf(codes.DeadlineExceeded, "the stream: was not whole within %v; nothing was done",
			wholeWithin)
	case <-s.b.leaving:
		return errStopping
	}
	c.req.Flags |= wire.FlagBulk
	res, err := s.b.do(stream.Context(), c)
	if err != nil {
		return err
	}
	return stream.SendAndClose(acquired(&res))
}

// receive gathers a stream's chunks into one request.
func (s *Service) receive(c *call, stream grpc.ClientStreamingServer[pb.AcquireRequest, pb.AcquireResponse]) error {
	var all gathered
	defer func() { s.gather.Add(-int64(all.bytes)) }()
	for {
		in, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		before := all.bytes
		if err := all.add(&c.req, in); err != nil {
			s.gather.Add(int64(all.bytes - before))
			return err
		}
		if s.gather.Add(int64(all.bytes-before)) > maxGathered {
			return status.Errorf(codes.ResourceExhausted,
				"the stream: all streams that are not whole have over %d bytes together, which is the most that is "+
					"taken; nothing was done, try again", maxGathered)
		}
	}
	if all.chunks == 0 {
		return invalid("the stream has no chunk: send at least one AcquireRequest")
	}
	return nil
}

// gathered is what a stream brought so far.
type gathered struct {
	chunks, paths, bytes int
}

// add appends a chunk to the request. Of what can be said once, the first chunk that
// says it counts, and no later one may differ.
func (g *gathered) add(req *wire.Request, in *pb.AcquireRequest) error {
	g.chunks++
	n := len(in.Requests) + len(in.ReleaseRequests)
	g.paths, g.bytes = g.paths+n, g.bytes+proto.Size(in)
	switch {
	case n > wire.MaxPaths:
		return invalid("requests and release_requests: chunk %d names %d paths together, at most %d are "+
			"allowed in a chunk", g.chunks, n, wire.MaxPaths)
	case g.bytes > maxStreamBytes:
		return status.Errorf(codes.ResourceExhausted, "the stream: is %d bytes encoded so far, at most %d are allowed",
			g.bytes, maxStreamBytes)
	case g.paths > wire.MaxBulkPaths:
		return invalid("requests and release_requests: the stream names over %d paths", wire.MaxBulkPaths)
	}
	err := errors.Join(
		once(&req.Owner, in.OwnerId, "owner_id"), once(&req.TTLMillis, in.TtlMs, "ttl_ms"),
		once(&req.Token, in.FencingToken, "fencing_token"), once(&req.QueueTTLMillis, in.QueueTtlMs, "queue_ttl_ms"),
		once(&req.Key, in.IdempotencyKey, "idempotency_key"))
	if err != nil {
		return invalid("chunk %d: %v", g.chunks, err)
	}
	if in.NoQueue {
		req.Flags |= wire.FlagNoQueue
	}
	if in.Metadata != nil && req.Meta == nil {
		if err := setMetadata(req, in.Metadata); err != nil {
			return err
		}
	}
	if err := addLocks(req, in.Requests); err != nil {
		return err
	}
	return addReleases(req, "release_requests", in.ReleaseRequests)
}

// once sets what is empty yet; what is set may only be repeated.
func once[T comparable](to *T, v T, field string) error {
	var empty T
	switch {
	case v == empty || v == *to:
	case *to == empty:
		*to = v
	default:
		return errors.New(field + ": differs from an earlier chunk's")
	}
	return nil
}

// AcquireWatch implements the RPC: first where the request stands, if it waits, then
// what became of it.
func (s *Service) AcquireWatch(in *pb.AcquireRequest, stream grpc.ServerStreamingServer[pb.AcquireResponse]) error {
	c := s.b.begin(wire.OpAcquire)
	if err := fillAcquire(&c.req, in, wire.FlagWait); err != nil {
		s.b.end(c)
		return err
	}
	if err := s.b.beginWait(); err != nil {
		s.b.end(c)
		return err
	}
	defer s.b.endWait()
	ctx := stream.Context()
	queued := make(chan *wire.Result, 1)
	c.queued = queued
	if err := s.b.start(c); err != nil {
		s.b.end(c)
		return statusOf(err)
	}
	for {
		select {
		case place := <-queued:
			if err := stream.Send(acquired(place)); err != nil {
				return s.leaveWatch(ctx, c, err)
			}
		case <-c.done:
			return s.endWatch(stream, c, queued)
		case <-ctx.Done():
			return s.leaveWatch(ctx, c, nil)
		case <-s.b.leaving:
			if err := s.b.stay(ctx, c); err != nil {
				return err
			}
			return s.endWatch(stream, c, queued)
		}
	}
}

// endWatch sends what became of a watched acquire, after its place if that has not
// been sent yet.
func (s *Service) endWatch(stream grpc.ServerStreamingServer[pb.AcquireResponse], c *call,
	queued <-chan *wire.Result) error {
	ctx := stream.Context()
	if ctx.Err() != nil {
		return s.b.tooLate(ctx, c)
	}
	select {
	case place := <-queued:
		if err := stream.Send(acquired(place)); err != nil {
			_ = s.b.tooLate(ctx, c)
			return err
		}
	default:
	}
	if err := c.Res.Err(); err != nil {
		s.b.end(c)
		return statusOf(err)
	}
	if err := stream.Send(acquired(&c.Res)); err != nil {
		_ = s.b.tooLate(ctx, c)
		return err
	}
	s.b.end(c)
	return nil
}

// leaveWatch ends the wait of a watched acquire whose caller has gone.
func (s *Service) leaveWatch(ctx context.Context, c *call, err error) error {
	left := s.b.leave(ctx, c)
	if ctx.Err() == nil {
		return err
	}
	return left
}
