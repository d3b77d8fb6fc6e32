package compat

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"

	pb "github.com/pathlockd/pathlockd/compat/pathlockdv1"
	"github.com/pathlockd/pathlockd/internal/tcp"
)

// Limits of one connection and of one message.
const (
	// MaxMessageBytes bounds a message that a client sends; over it the call ends
	// with RESOURCE_EXHAUSTED.
	MaxMessageBytes = 4 << 20
	// maxHeaderBytes bounds a call's headers; over it the stream is reset.
	maxHeaderBytes = 16 << 10
	// openCalls is how many calls that stay open (Subscribe, AcquireWait, AcquireWatch,
	// health's Watch, reflection) a connection may have. Over it the next is refused with
	// RESOURCE_EXHAUSTED.
	openCalls = 1024
	// spareStreams is how many streams a connection has beyond its turns and its open
	// calls: for those that are about to be refused, and those that wait for their turn.
	// Over all of them the client's library holds the next call back.
	spareStreams = 256
	// streamWindow is what a call may send before it is its turn, and connWindow what a
	// connection may; left alone, gRPC's library raises both to 16 MiB by itself. A
	// message that is being read may come whole.
	streamWindow, connWindow = 64 << 10, 1 << 20
	// handshakeWithin is how long a new connection may take to say what it speaks.
	handshakeWithin = 10 * time.Second
	// pingAfter is the silence after which a client is asked whether it lives, and
	// pingWithin how long it may take to answer, and to acknowledge anything else: together
	// tcp.GoneWithin. Its open calls end when it does not.
	pingAfter, pingWithin = tcp.GoneWithin - pingWithin, 20 * time.Second
	// pingsAtMost is how often clients may ping, with or without open calls
	// (contract.md section 14: every 30 s must do no harm).
	pingsAtMost = time.Second
)

// ServerOptions is what a gRPC server is made with.
type ServerOptions struct {
	InFlight int // unary calls of a connection under way at once; more wait. 0: 256
	// TurnWithin is how long they wait, until they are refused; 0: 10 s.
	TurnWithin time.Duration
	TLS        *tls.Config // nil: plain text
	// Connections is how many connections there may be at once; 0: 16 384. Over it the
	// one that has been without a call the longest is closed.
	Connections int
	// HalfOpen is how many of these may be such that have not said yet what they speak;
	// 0: MaxHalfOpen. Over it the oldest of them is closed.
	HalfOpen int
	// Unfinished is how many bytes of unfinished messages all connections together may
	// make the server hold; 0: 256 MiB. Over it those are closed that hold more than
	// 64 KiB of them.
	Unfinished int64
	Log        *slog.Logger
}

// Server serves a Service over gRPC, with the standard health service and reflection.
type Server struct {
	svc   *Service
	opt   ServerOptions
	grpc  *grpc.Server
	wg    sync.WaitGroup
	addr  string
	conns *Conns
}

// NewServer makes a server that does not listen yet.
func NewServer(svc *Service, opt ServerOptions) *Server {
	if opt.InFlight <= 0 {
		opt.InFlight = 256
	}
	if opt.Connections <= 0 {
		opt.Connections = maxConns
	}
	if opt.HalfOpen <= 0 {
		opt.HalfOpen = MaxHalfOpen
	}
	if opt.Unfinished <= 0 {
		opt.Unfinished = maxUnfinished
	}
	if opt.Log == nil {
		opt.Log = slog.Default()
	}
	s := &Server{svc: svc, opt: opt, conns: NewConns(opt.Connections, opt.HalfOpen, opt.Log.With("interface", "grpc"))}
	s.grpc = grpc.NewServer(
		grpc.Creds(newCredentials(opt, s.conns)),
		grpc.ForceServerCodecV2(newCodec()),
		grpc.MaxRecvMsgSize(MaxMessageBytes),
		grpc.MaxConcurrentStreams(uint32(opt.InFlight)+openCalls+KeptTurns+spareStreams),
		grpc.StreamInterceptor(streams),
		grpc.MaxHeaderListSize(maxHeaderBytes),
		grpc.InitialWindowSize(streamWindow),
		grpc.InitialConnWindowSize(connWindow),
		grpc.ConnectionTimeout(handshakeWithin),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: pingAfter, Timeout: pingWithin}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: pingsAtMost, PermitWithoutStream: true}),
		grpc.UnknownServiceHandler(unknown),
	)
	s.grpc.RegisterService(service(), svc)
	grpc_health_v1.RegisterHealthServer(s.grpc, &healthService{svc: svc})
	reflection.Register(s.grpc)
	return s
}

// Listen serves at an address, host:port, and answers where that is.
func (s *Server) Listen(addr string) (string, error) {
	l, err := tcp.Listen(addr)
	if err != nil {
		return "", err
	}
	s.addr = l.Addr().String()
	s.wg.Go(func() {
		if err := s.grpc.Serve(&counted{l, s.conns}); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			s.opt.Log.Error("gRPC is not served any more", "listen", s.addr, "error", err)
		}
	})
	return s.addr, nil
}

// Drain takes no further connection, and ends when every call is answered or ctx is
// over; streams that stay open should have been ended before (Service.Leave).
func (s *Server) Drain(ctx context.Context) {
	s.conns.End()
	done := make(chan struct{})
	go func() {
		s.grpc.GracefulStop()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
		s.grpc.Stop()
		<-done
	}
	s.wg.Wait()
}

// Close ends everything at once.
func (s *Server) Close() {
	s.conns.End()
	s.grpc.Stop()
	s.wg.Wait()
}

// service is the generated description of the service, with what a connection may
// have under way at once, and with clear refusals of messages that are none.
func service() *grpc.ServiceDesc {
	desc := pb.PathLock_ServiceDesc
	desc.Methods = append([]grpc.MethodDesc(nil), desc.Methods...)
	for i := range desc.Methods {
		desc.Methods[i].Handler = handler(&pb.PathLock_ServiceDesc.Methods[i])
	}
	desc.Streams = append([]grpc.StreamDesc(nil), desc.Streams...)
	for i := range desc.Streams {
		inner := desc.Streams[i].Handler
		desc.Streams[i].Handler = func(srv any, stream grpc.ServerStream) error { return inner(srv, decoded{stream}) }
	}
	return &desc
}

// streams lets calls that stream stay open, as many as a connection may have, but for
// the one that takes a turn.
func streams(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	calls := connOf(stream.Context()).calls
	if info.FullMethod == pb.PathLock_AcquireStream_FullMethodName {
		turn, err := calls.Enter(stream.Context(), false)
		if err != nil {
			return err
		}
		defer turn.Leave()
		ctx, done := followed(stream.Context())
		defer done()
		stream = followedStream{stream, ctx}
	} else if err := calls.Open(); err != nil {
		return err
	} else {
		defer calls.Shut()
	}
	return handle(srv, stream)
}

func handler(m *grpc.MethodDesc) grpc.MethodHandler {
	inner, stays, kept := m.Handler, m.MethodName == "AcquireWait", Keeps(m.MethodName)
	takes := stays || m.MethodName == "Acquire"
	return func(srv any, ctx context.Context, dec func(any) error, in grpc.UnaryServerInterceptor) (any, error) {
		calls := connOf(ctx).calls
		if stays {
			if err := calls.Open(); err != nil {
				return nil, err
			}
			defer calls.Shut()
		} else {
			turn, err := calls.Enter(ctx, kept)
			if err != nil {
				return nil, err
			}
			defer turn.Leave()
		}
		if takes {
			of, done := followed(ctx)
			defer done()
			ctx = of
		}
		return inner(srv, ctx, func(v any) error {
			if err := dec(v); err != nil {
				return err
			}
			return undecoded(v)
		}, in)
	}
}

// unknown answers calls of methods that there are not.
func unknown(_ any, stream grpc.ServerStream) error {
	name, _ := grpc.MethodFromServerStream(stream)
	return status.Error(codes.Unimplemented,
		fmt.Sprintf("%s: is no method of this server; reflection lists them", name))
}
