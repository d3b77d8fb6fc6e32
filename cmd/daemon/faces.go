package daemon

import (
	"cmp"
	"context"
	"fmt"
	"sync"

	"github.com/pathlockd/pathlockd/compat"
)

// faces are the interfaces beside the native one: gRPC, and JSON and event streams
// over HTTP. They are views of one service over the node.
type faces struct {
	svc  *compat.Service
	grpc *compat.Server
	addr string // of gRPC, "" when off
}

// openFaces makes what the configuration asks for, and listens.
func (d *Daemon) openFaces() (err error) {
	c := &d.cfg
	d.faces.svc = compat.NewService(d.node, compat.Options{NodeID: d.node.NodeID(), ClusterID: d.node.ClusterID()})
	if c.Listen != "" {
		d.faces.grpc = compat.NewServer(d.faces.svc, compat.ServerOptions{InFlight: c.MaxConcurrent, Log: d.log})
		if d.faces.addr, err = d.faces.grpc.Listen(c.Listen); err != nil {
			return fmt.Errorf("listen: %w", err)
		}
	}
	return nil
}

// closeFaces ends them at once.
func (d *Daemon) closeFaces() {
	if d.faces.grpc != nil {
		d.faces.grpc.Close()
	}
}

// partFaces ends what stays open and lets the clients go, until ctx ends.
func (d *Daemon) partFaces(ctx context.Context) {
	d.faces.svc.Leave()
	var all sync.WaitGroup
	if d.faces.grpc != nil {
		all.Go(func() { d.faces.grpc.Drain(ctx) })
	}
	all.Wait()
}

// GRPCAddr is the address of gRPC, host:port, "" when that is off.
func (d *Daemon) GRPCAddr() string { return d.faces.addr }

// where tells in the log where the daemon serves.
func (d *Daemon) where() []any {
	return []any{
		"native", cmp.Or(d.addr, off), "unix", cmp.Or(d.unix, off), "grpc", cmp.Or(d.faces.addr, off),
	}
}
