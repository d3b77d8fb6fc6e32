package compat

import (
	"context"
	"sync/atomic"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/pathlockd/pathlockd/compat/pathlockdv1"
	"github.com/pathlockd/pathlockd/wire"
)

// Service is the pathlockd.v1 service over a handler. Its methods convert, ask, and
// convert back; their errors are gRPC's, with the codes of contract.md section 2.
// They may be called by any number of goroutines.
type Service struct {
	pb.UnimplementedPathLockServer
	b       *bridge
	opt     Options
	backlog atomic.Int64 // events that wait for subscribers
	gather  atomic.Int64 // bytes of streams that are not whole, encoded
}

// Options is what a service says of the node that it speaks for.
type Options struct {
	NodeID    string
	ClusterID string
	// EventBacklog is how many events a subscriber may leave unread before it is cut
	// off; 0: 1024.
	EventBacklog int
	// Held is how many bytes of requests that are not answered yet all connections together may
	// make the server hold; 0: 256 MiB. Over it requests over 32 KiB are refused.
	Held int64
	// NewSession names a session for requests that come in here, so that the handler knows that what waits
	// in it ends with this process; nil: random names.
	NewSession func() [wire.SessionBytes]byte
}

// NewService makes the service of a handler.
func NewService(h wire.Handler, opt Options) *Service {
	if opt.EventBacklog <= 0 {
		opt.EventBacklog = 1024
	}
	if opt.Held <= 0 {
		opt.Held = maxHeld
	}
	s := &Service{b: newBridge(h, opt.Held), opt: opt}
	s.b.sessions.name = opt.NewSession
	return s
}

// Leave ends the calls that would stay open, with UNAVAILABLE, and waits until the
// acquires among them have left the queue, 2 s at most. It is called once, while the
// handler still takes requests.
func (s *Service) Leave() { s.b.leaveAll() }

// Leaving is closed by Leave.
func (s *Service) Leaving() <-chan struct{} { return s.b.leaving }

// Acquire implements the RPC.
func (s *Service) Acquire(ctx context.Context, in *pb.AcquireRequest) (*pb.AcquireResponse, error) {
	return s.acquire(ctx, in, 0)
}

// AcquireWait implements the RPC: the answer comes when the request is granted.
func (s *Service) AcquireWait(ctx context.Context, in *pb.AcquireRequest) (*pb.AcquireResponse, error) {
	return s.acquire(ctx, in, wire.FlagWait)
}

func (s *Service) acquire(ctx context.Context, in *pb.AcquireRequest, flags wire.Flags) (*pb.AcquireResponse, error) {
	c := s.b.begin(wire.OpAcquire)
	if err := fillAcquire(&c.req, in, flags); err != nil {
		s.b.end(c)
		return nil, err
	}
	res, err := s.b.do(ctx, c)
	if err != nil {
		return nil, err
	}
	return acquired(&res), nil
}

// fillAcquire converts an acquire.
func fillAcquire(req *wire.Request, in *pb.AcquireRequest, flags wire.Flags) error {
	req.Owner, req.TTLMillis, req.Token = in.OwnerId, in.TtlMs, in.FencingToken
	req.Key, req.QueueTTLMillis, req.Flags = in.IdempotencyKey, in.QueueTtlMs, flags
	if in.NoQueue {
		req.Flags |= wire.FlagNoQueue
	}
	if err := addLocks(req, in.Requests); err != nil {
		return err
	}
	if err := addReleases(req, "release_requests", in.ReleaseRequests); err != nil {
		return err
	}
	return setMetadata(req, in.Metadata)
}

func acquired(res *wire.Result) *pb.AcquireResponse {
	return &pb.AcquireResponse{
		Status: pb.AcquireStatus(res.Status), Path: res.Path, Owner: res.Owner, Reason: pb.ReasonCode(res.Reason),
		FencingToken: res.Token, CurrentFencingToken: res.Current, Namespace: res.Namespace, Position: res.Position,
	}
}

// Release implements the RPC.
func (s *Service) Release(ctx context.Context, in *pb.ReleaseLocksRequest) (*pb.ReleaseResponse, error) {
	c := s.b.begin(wire.OpRelease)
	c.req.Owner, c.req.DelWait, c.req.Key = in.OwnerId, in.DelWaitKey, in.IdempotencyKey
	if err := addReleases(&c.req, "requests", in.Requests); err != nil {
		s.b.end(c)
		return nil, err
	}
	if _, err := s.b.do(ctx, c); err != nil {
		return nil, err
	}
	return &pb.ReleaseResponse{}, nil
}

// ReleaseAll implements the RPC.
func (s *Service) ReleaseAll(ctx context.Context, in *pb.ReleaseAllRequest) (*pb.ReleaseResponse, error) {
	c := s.b.begin(wire.OpReleaseAll)
	c.req.Owner, c.req.DelWait, c.req.Key, c.req.Domains = in.OwnerId, in.DelWaitKey, in.IdempotencyKey,
		append(c.req.Domains, in.Domains...)
	if _, err := s.b.do(ctx, c); err != nil {
		return nil, err
	}
	return &pb.ReleaseResponse{}, nil
}

// Renew implements the RPC.
func (s *Service) Renew(ctx context.Context, in *pb.RenewRequest) (*pb.RenewResponse, error) {
	c := s.b.begin(wire.OpRenew)
	c.req.Owner, c.req.TTLMillis, c.req.Key, c.req.Domains = in.OwnerId, in.TtlMs, in.IdempotencyKey,
		append(c.req.Domains, in.Domains...)
	res, err := s.b.do(ctx, c)
	if err != nil {
		return nil, err
	}
	return &pb.RenewResponse{
		Status: pb.RenewStatus(res.Status), Path: res.Path, Reason: pb.ReasonCode(res.Reason),
		RevokeRequested: res.Flag,
	}, nil
}

// ForceRelease implements the RPC.
func (s *Service) ForceRelease(ctx context.Context, in *pb.ForceReleaseRequest) (*pb.ForceReleaseResponse, error) {
	c := s.b.begin(wire.OpForceRelease)
	c.req.Owner, c.req.Key = in.VictimId, in.IdempotencyKey
	if _, err := s.b.do(ctx, c); err != nil {
		return nil, err
	}
	return &pb.ForceReleaseResponse{}, nil
}

// AssertFencing implements the RPC.
func (s *Service) AssertFencing(ctx context.Context, in *pb.AssertFencingRequest) (*pb.AssertFencingResponse, error) {
	c := s.b.begin(wire.OpAssertFencing)
	c.req.Owner, c.req.Token, c.req.Paths = in.OwnerId, in.FencingToken, append(c.req.Paths, in.Paths...)
	res, err := s.b.do(ctx, c)
	if err != nil {
		return nil, err
	}
	return &pb.AssertFencingResponse{Status: pb.AssertStatus(res.Status), Path: res.Path,
		Reason: pb.ReasonCode(res.Reason)}, nil
}

// DetectCycle implements the RPC.
func (s *Service) DetectCycle(ctx context.Context, in *pb.DetectCycleRequest) (*pb.DetectCycleResponse, error) {
	c := s.b.begin(wire.OpDetectCycle)
	c.req.Owner, c.req.Depth = in.StartOwnerId, in.MaxDepth
	res, err := s.b.do(ctx, c)
	if err != nil {
		return nil, err
	}
	return &pb.DetectCycleResponse{Kind: pb.CycleKind(res.Cycle), Chain: listOf(&res).Names}, nil
}

// IsBlocking implements the RPC.
func (s *Service) IsBlocking(ctx context.Context, in *pb.IsBlockingRequest) (*pb.IsBlockingResponse, error) {
	reason, err := reasonOf(in.Reason)
	if err != nil {
		return nil, err
	}
	c := s.b.begin(wire.OpIsBlocking)
	c.req.Path, c.req.Blocker, c.req.Reason = in.ConflictPath, in.ConflictOwner, reason
	res, err := s.b.do(ctx, c)
	if err != nil {
		return nil, err
	}
	return &pb.IsBlockingResponse{Blocking: res.Flag}, nil
}

// IncrFencingToken implements the RPC.
func (s *Service) IncrFencingToken(ctx context.Context,
	in *pb.IncrFencingTokenRequest) (*pb.IncrFencingTokenResponse, error) {
	c := s.b.begin(wire.OpIncrToken)
	c.req.Key = in.IdempotencyKey
	res, err := s.b.do(ctx, c)
	if err != nil {
		return nil, err
	}
	return &pb.IncrFencingTokenResponse{Token: res.Token}, nil
}

// SetWaitEdge implements the RPC.
func (s *Service) SetWaitEdge(ctx context.Context, in *pb.SetWaitEdgeRequest) (*pb.SetWaitEdgeResponse, error) {
	reason, err := reasonOf(in.Reason)
	if err != nil {
		return nil, err
	}
	c := s.b.begin(wire.OpSetWaitEdge)
	c.req.Owner, c.req.Blocker, c.req.TTLMillis = in.OwnerId, in.ConflictOwner, in.TtlMs
	c.req.Path, c.req.Reason, c.req.Key = in.ConflictPath, reason, in.IdempotencyKey
	if _, err := s.b.do(ctx, c); err != nil {
		return nil, err
	}
	return &pb.SetWaitEdgeResponse{}, nil
}

// ClearWaitEdge implements the RPC.
func (s *Service) ClearWaitEdge(ctx context.Context, in *pb.ClearWaitEdgeRequest) (*pb.ClearWaitEdgeResponse, error) {
	c := s.b.begin(wire.OpClearWaitEdge)
	c.req.Owner, c.req.Key = in.OwnerId, in.IdempotencyKey
	if _, err := s.b.do(ctx, c); err != nil {
		return nil, err
	}
	return &pb.ClearWaitEdgeResponse{}, nil
}

// IsOwnerAlive implements the RPC.
func (s *Service) IsOwnerAlive(ctx context.Context, in *pb.IsOwnerAliveRequest) (*pb.IsOwnerAliveResponse, error) {
	c := s.b.begin(wire.OpIsOwnerAlive)
	c.req.Owner, c.req.Domains = in.OwnerId, append(c.req.Domains, in.Domains...)
	res, err := s.b.do(ctx, c)
	if err != nil {
		return nil, err
	}
	return &pb.IsOwnerAliveResponse{Alive: res.Flag}, nil
}

// RequestRevoke implements the RPC.
func (s *Service) RequestRevoke(ctx context.Context, in *pb.RequestRevokeRequest) (*pb.RequestRevokeResponse, error) {
	c := s.b.begin(wire.OpRequestRevoke)
	c.req.Owner = in.OwnerId
	if _, err := s.b.do(ctx, c); err != nil {
		return nil, err
	}
	return &pb.RequestRevokeResponse{}, nil
}

// SetNamespacePolicy implements the RPC.
func (s *Service) SetNamespacePolicy(ctx context.Context,
	in *pb.SetNamespacePolicyRequest) (*pb.SetNamespacePolicyResponse, error) {
	algorithm, err := enum[wire.Algorithm]("algorithm", int32(in.Algorithm), wire.Semaphore)
	if err != nil {
		return nil, err
	}
	c := s.b.begin(wire.OpSetPolicy)
	c.req.Namespace, c.req.Algorithm, c.req.Key = in.Namespace, algorithm, in.IdempotencyKey
	if _, err := s.b.do(ctx, c); err != nil {
		return nil, err
	}
	return &pb.SetNamespacePolicyResponse{}, nil
}

// GetNamespacePolicy implements the RPC.
func (s *Service) GetNamespacePolicy(ctx context.Context,
	in *pb.GetNamespacePolicyRequest) (*pb.GetNamespacePolicyResponse, error) {
	c := s.b.begin(wire.OpGetPolicy)
	c.req.Namespace = in.Namespace
	res, err := s.b.do(ctx, c)
	if err != nil {
		return nil, err
	}
	return &pb.GetNamespacePolicyResponse{Algorithm: pb.LockAlgorithm(res.Algorithm), Explicit: res.Flag}, nil
}

// DeleteNamespacePolicy implements the RPC.
func (s *Service) DeleteNamespacePolicy(ctx context.Context,
	in *pb.DeleteNamespacePolicyRequest) (*pb.DeleteNamespacePolicyResponse, error) {
	c := s.b.begin(wire.OpDeletePolicy)
	c.req.Namespace, c.req.Key = in.Namespace, in.IdempotencyKey
	if _, err := s.b.do(ctx, c); err != nil {
		return nil, err
	}
	return &pb.DeleteNamespacePolicyResponse{}, nil
}

// InspectPath implements the RPC.
func (s *Service) InspectPath(ctx context.Context, in *pb.InspectPathRequest) (*pb.InspectPathResponse, error) {
	c := s.b.begin(wire.OpInspectPath)
	c.req.Path = in.Path
	res, err := s.b.do(ctx, c)
	if err != nil {
		return nil, err
	}
	l := listOf(&res)
	return &pb.InspectPathResponse{
		WriteOwner: res.Owner, ReadOwners: l.Names, HasFence: res.Flag, Fence: res.Token, SemaphoreOwners: l.Names2,
	}, nil
}

// ListOwnerLocks implements the RPC.
func (s *Service) ListOwnerLocks(ctx context.Context,
	in *pb.ListOwnerLocksRequest) (*pb.ListOwnerLocksResponse, error) {
	c := s.b.begin(wire.OpListLocks)
	c.req.Owner, c.req.Domains = in.OwnerId, append(c.req.Domains, in.Domains...)
	res, err := s.b.do(ctx, c)
	if err != nil {
		return nil, err
	}
	return &pb.ListOwnerLocksResponse{Alive: res.Flag, Locks: convertAll(listOf(&res).Infos, ownedLock)}, nil
}

// DumpLocks implements the RPC.
func (s *Service) DumpLocks(ctx context.Context, in *pb.DumpLocksRequest) (*pb.DumpLocksResponse, error) {
	c := s.b.begin(wire.OpDumpLocks)
	c.req.Cursor, c.req.Page = in.Cursor, in.OwnerPage
	res, err := s.b.do(ctx, c)
	if err != nil {
		return nil, err
	}
	l := listOf(&res)
	return &pb.DumpLocksResponse{Entries: convertAll(l.Infos, lockEntry), NextCursor: l.Cursor, Done: res.Done}, nil
}

// ScanLocks implements the RPC.
func (s *Service) ScanLocks(ctx context.Context, in *pb.ScanLocksRequest) (*pb.ScanLocksResponse, error) {
	c := s.b.begin(wire.OpScanLocks)
	c.req.Path, c.req.Cursor, c.req.Page = in.Prefix, in.Cursor, in.OwnerPage
	res, err := s.b.do(ctx, c)
	if err != nil {
		return nil, err
	}
	l := listOf(&res)
	return &pb.ScanLocksResponse{Entries: convertAll(l.Infos, lockEntry), NextCursor: l.Cursor, Done: res.Done}, nil
}

// DescribePath implements the RPC.
func (s *Service) DescribePath(ctx context.Context, in *pb.DescribePathRequest) (*pb.DescribePathResponse, error) {
	c := s.b.begin(wire.OpDescribe)
	c.req.Path, c.req.Page = in.Path, in.MaxWaiters
	res, err := s.b.do(ctx, c)
	if err != nil {
		return nil, err
	}
	l := listOf(&res)
	return &pb.DescribePathResponse{
		Namespace: res.Namespace, Algorithm: pb.LockAlgorithm(res.Algorithm), HasFence: res.Flag, Fence: res.Token,
		Holders: convertAll(l.Infos, lockEntry), Covering: convertAll(l.Covering, lockEntry),
		Waiters:      convertAll(l.Waiters, waiter),
		WaitersTotal: res.Count, WritesBelow: l.Count2, ReadsBelow: l.Count3,
	}, nil
}

// Health implements the RPC. A node that does not serve is no error.
func (s *Service) Health(ctx context.Context, _ *pb.HealthRequest) (*pb.HealthResponse, error) {
	res, err := s.b.do(ctx, s.b.begin(wire.OpHealth))
	if err != nil {
		return nil, err
	}
	return &pb.HealthResponse{Ok: res.Flag, Detail: res.Message, NodeId: s.opt.NodeID, ClusterId: s.opt.ClusterID}, nil
}

// listOf is what a result lists, also when that is nothing.
func listOf(res *wire.Result) *wire.List {
	if res.List == nil {
		return new(wire.List)
	}
	return res.List
}

// invalid is the refusal of an argument that cannot even be converted.
func invalid(format string, args ...any) error {
	return status.Errorf(codes.InvalidArgument, format, args...)
}
