package conformance_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// acquireStream sends chunks, which stand between bars. The owner is the first
// chunk's; "none" is a stream without any.
func (r *runner) acquireStream(ctx context.Context, s *step) (message, *refusal) {
	r.t.Helper()
	var chunks []message
	for words := s.words; len(words) > 0; {
		n := slices.Index(words, "|")
		if n < 0 {
			n = len(words)
		}
		chunk := words[:n]
		words = words[min(n+1, len(words)):]
		if i := slices.IndexFunc(chunk, func(w string) bool { return w[0] == '|' }); i >= 0 {
			size, err := strconv.Atoi(chunk[i][1:])
			if err != nil {
				r.fatal("%v", err)
			}
			var more []string
			for part := range slices.Chunk(chunk[i+1:], size) {
				more = append(append(more, part...), "|")
			}
			words, chunk = append(more, words...), chunk[:i]
		}
		if slices.Equal(chunk, []string{"none"}) {
			continue
		}
		if len(chunks) == 0 {
			chunks = append(chunks, r.requestOf(s.rpc, chunk))
			continue
		}
		m := message{}
		sc := &scribe{names: r.names, vars: r.vars}
		for _, w := range chunk {
			name, text, named := cutName(method(s.rpc).Input(), w)
			if !named {
				name, text = "requests", w
			}
			if err := sc.set(m, method(s.rpc).Input(), name, text); err != nil {
				r.fatal("%v", err)
			}
		}
		r.seen.message(method(s.rpc).Input(), m)
		chunks = append(chunks, m)
	}
	return r.face.(streamFace).acquireStream(ctx, chunks)
}

// allPages reads all pages of a dump or scan and leaves out what others hold, who share the node. What is left is
// sorted: groups come in an order of their own. A page that is not full must be the last, and no page is too long.
func (r *runner) allPages(ctx context.Context, s *step) (message, *refusal) {
	r.t.Helper()
	req := r.request(s)
	size := 64
	if n, _ := req["owner_page"].(int64); n > 0 {
		size = min(int(n), 512)
	}
	var own []any
	for {
		answer, refused := r.face.call(ctx, s.rpc, req)
		if refused != nil {
			return nil, refused
		}
		page, _ := answer["entries"].([]any)
		for _, e := range page {
			if path, _ := e.(message)["path"].(string); strings.HasPrefix(path, r.names.prefix) {
				own = append(own, e)
			}
		}
		done := answer["done"] == true
		if len(page) > size || len(page) < size && !done {
			r.fatal("a page has %d entries of at most %d, and done is %v", len(page), size, done)
		}
		if done {
			slices.SortFunc(own, func(a, b any) int {
				return strings.Compare(key(a), key(b))
			})
			return message{"entries": own, "done": true}, nil
		}
		req = maps.Clone(req)
		req["cursor"] = answer["next_cursor"]
	}
}

// key sorts entries by path and owner.
func key(entry any) string {
	e := entry.(message)
	return fmt.Sprint(e["path"], "\x00", e["owner"])
}
