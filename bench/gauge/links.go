package gauge

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/pathlockd/pathlockd/groups/mesh"
)

// linkWithin is how long all connections may take.
const linkWithin = time.Minute

// Links is what was measured of the connections between nodes.
type Links struct {
	Nodes int
	Conns int     // from each node to each other
	Bytes float64 // heap and stacks of one end of one
	Made  time.Duration
}

// MeasureLinks connects nodes with each other as the nodes of a cluster are, each to
// each, and answers what that took.
func MeasureLinks(ctx context.Context, nodes int) (l Links, err error) {
	l.Nodes, l.Conns = nodes, nodes*(nodes-1)
	var all []*mesh.Mesh
	defer func() {
		for _, m := range all {
			_ = m.Close() // what is measured is over
		}
	}()
	var ends atomic.Int64
	for i := range nodes {
		m, err := mesh.New(mesh.Config{
			Cluster: cluster, Node: fmt.Sprintf("pathlockd-%d", i), Host: hostID(i), FormatMin: 1, FormatMax: 1,
			Token: token, Listen: "127.0.0.1:0", Log: quiet,
			Frame: func(*mesh.Conn, []byte) {}, Opened: func(*mesh.Conn) { ends.Add(1) },
			Closed: func(*mesh.Conn, error) { ends.Add(-1) },
		})
		if err != nil {
			return l, err
		}
		all = append(all, m)
	}
	before, began := memory(), time.Now()
	err = poll(ctx, linkWithin, func() bool {
		for i, m := range all {
			for j, other := range all {
				if i != j {
					m.Conn(hostID(j), other.Addr())
				}
			}
		}
		return ends.Load() == int64(2*l.Conns)
	})
	if err != nil {
		return l, fmt.Errorf("%d connections, %d ends are there: %w", l.Conns, ends.Load(), err)
	}
	l.Made = time.Since(began)
	l.Bytes = float64(memory()-before) / float64(2*l.Conns)
	return l, nil
}

// memory is heap and stacks in use, after a forced collection.
func memory() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // what finalizers let go
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}
