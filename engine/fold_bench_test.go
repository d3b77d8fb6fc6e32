package engine_test

import (
	"fmt"
	"testing"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/wire"
)

// BenchmarkFold raises floors of as many namespaces as may have one.
func BenchmarkFold(b *testing.B) {
	s := engine.New(engine.DefaultConfig(), nil, nil)
	var out engine.Output
	c := engine.Clock{Now: 1}
	lock := wire.Request{
		Op: wire.OpAcquire, Owner: "o", TTLMillis: 1000, Token: 1 << 40, Locks: []wire.LockRequest{{Path: "h:/a/b"}},
	}
	s.Apply(c, &engine.Command{Req: &lock, NS: "h:/a"}, &out)
	spaces := make([]string, 1024)
	for i := range spaces {
		spaces[i] = fmt.Sprintf("tenant:/%d", i)
	}
	b.ReportAllocs()
	token := int64(0)
	for i := 0; b.Loop(); i++ {
		token++
		ns := spaces[i%len(spaces)]
		req := wire.Request{Op: wire.OpFold, Namespace: ns, Token: token}
		if res := s.Apply(c, &engine.Command{Req: &req, NS: ns}, &out); res.Code != wire.OK {
			b.Fatal(res.Message)
		}
	}
}
