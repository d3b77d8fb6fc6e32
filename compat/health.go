package compat

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	pb "github.com/pathlockd/pathlockd/compat/pathlockdv1"
)

// healthEvery is how often a watched health is looked at.
const healthEvery = time.Second

// healthService is the standard health service. It knows the whole server ("") and
// the one service, which are the same.
type healthService struct {
	grpc_health_v1.UnimplementedHealthServer
	svc *Service
}

// Check implements the RPC.
func (h *healthService) Check(ctx context.Context,
	in *grpc_health_v1.HealthCheckRequest) (*grpc_health_v1.HealthCheckResponse, error) {
	if !known(in.Service) {
		return nil, status.Errorf(codes.NotFound, "service %q: is not served here", in.Service)
	}
	s, err := h.status(ctx)
	if err != nil {
		return nil, err
	}
	return &grpc_health_v1.HealthCheckResponse{Status: s}, nil
}

// List implements the RPC.
func (h *healthService) List(ctx context.Context,
	_ *grpc_health_v1.HealthListRequest) (*grpc_health_v1.HealthListResponse, error) {
	s, err := h.status(ctx)
	if err != nil {
		return nil, err
	}
	now := &grpc_health_v1.HealthCheckResponse{Status: s}
	return &grpc_health_v1.HealthListResponse{Statuses: map[string]*grpc_health_v1.HealthCheckResponse{
		"": now, pb.PathLock_ServiceDesc.ServiceName: now,
	}}, nil
}

// Watch implements the RPC: the status now, and each time it is another one.
func (h *healthService) Watch(in *grpc_health_v1.HealthCheckRequest,
	stream grpc.ServerStreamingServer[grpc_health_v1.HealthCheckResponse]) error {
	look := time.NewTicker(healthEvery)
	defer look.Stop()
	ctx := stream.Context()
	for last := grpc_health_v1.HealthCheckResponse_ServingStatus(-1); ; {
		now := grpc_health_v1.HealthCheckResponse_SERVICE_UNKNOWN
		if known(in.Service) {
			var err error
			if now, err = h.status(ctx); err != nil {
				return err
			}
		}
		if now != last {
			last = now
			if err := stream.Send(&grpc_health_v1.HealthCheckResponse{Status: now}); err != nil {
				return err
			}
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return status.FromContextError(ctx.Err()).Err()
		case <-h.svc.Leaving():
			return errLeaving
		}
	}
}

func known(service string) bool {
	return service == "" || service == pb.PathLock_ServiceDesc.ServiceName
}

func (h *healthService) status(ctx context.Context) (grpc_health_v1.HealthCheckResponse_ServingStatus, error) {
	res, err := h.svc.Health(ctx, nil)
	switch {
	case err != nil:
		return 0, err
	case res.Ok:
		return grpc_health_v1.HealthCheckResponse_SERVING, nil
	}
	return grpc_health_v1.HealthCheckResponse_NOT_SERVING, nil
}
