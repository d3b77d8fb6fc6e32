package web

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	pb "github.com/pathlockd/pathlockd/compat/pathlockdv1"
)

// discard is an answer that nobody reads: what is measured is the face, without the
// sockets.
type discard struct{ header http.Header }

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) Write(b []byte) (int, error) { return len(b), nil }
func (d *discard) WriteHeader(int)             {}

// BenchmarkFace is an acquire through the face and the node, without sockets: what it
// allocates beside what BenchmarkService does is the face's own.
func BenchmarkFace(b *testing.B) {
	f := serve(b, nil)
	ctx := f.connContext(b.Context())
	body := strings.NewReader("")
	in := io.NopCloser(body)
	text := `{"ownerId":"bench","ttlMs":30000,"requests":[{"path":"bench:/web/face"}]}`
	w := &discard{make(http.Header)}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://x/v1/acquire", in)
	if err != nil {
		b.Fatal(err)
	}
	r.ContentLength = int64(len(text))
	r.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"*/*"}}
	b.ReportAllocs()
	for b.Loop() {
		body.Reset(text)
		clear(w.header)
		f.ServeHTTP(w, r)
	}
}

// BenchmarkService is the same acquire without the face.
func BenchmarkService(b *testing.B) {
	f := serve(b, nil)
	m := &pb.AcquireRequest{OwnerId: "bench", TtlMs: 30_000, Requests: []*pb.LockRequest{{Path: "bench:/web/service"}}}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := f.svc.Acquire(b.Context(), m); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkHTTP is an acquire and a release over a socket, client included.
func BenchmarkHTTP(b *testing.B) {
	f := serve(b, nil)
	for _, h2 := range []bool{false, true} {
		for _, callers := range []int{1, 64} {
			b.Run(fmt.Sprintf("h2=%t/callers=%d", h2, callers), func(b *testing.B) {
				c := client(b, h2)
				b.SetParallelism(callers)
				b.ReportAllocs()
				b.RunParallel(func(p *testing.PB) {
					path := fmt.Sprintf("bench:/web/%p", p)
					for p.Next() {
						f.post(b, c, "acquire", `{"ownerId":"`+path+`","ttlMs":30000,"requests":[{"path":"`+path+`"}]}`)
						f.post(b, c, "release", `{"ownerId":"`+path+`","requests":[{"path":"`+path+`"}]}`)
					}
				})
			})
		}
	}
}
