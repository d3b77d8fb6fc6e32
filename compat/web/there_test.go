package web

import (
	"fmt"
	"io"
	"strings"
	"testing"
)

// TestGoneWithMoreSent: a client waits for a lock over HTTP/1.1 and sends something behind its request:
// the line break that some clients send behind a body, or its next request. Then it crashes. Its call
// ends with its connection (contract section 7), so its wait leaves the queue; it is not granted to
// nobody, for its whole TTL, also if the lock is free in the moment after: no answer was on its way then, so what it
// is granted is taken back.
func TestGoneWithMoreSent(t *testing.T) {
	f := serve(t, nil)
	c := client(t, true)
	for name, more := range map[string]string{
		"nothing": "", "a line break": "\r\n", "a request": "GET /v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n",
	} {
		gone := func(t *testing.T, free bool) {
			path := fmt.Sprintf("web:/more/%s/%v", strings.ReplaceAll(name, " ", "-"), free)
			lock := func(owner string) string {
				return fmt.Sprintf(`{"ownerId":%q,"ttlMs":3600000,"queueTtlMs":600000,"requests":[{"path":%q}]}`,
					owner, path)
			}
			defer f.post(t, c, "forceRelease", `{"victimId":"gone"}`)
			defer f.post(t, c, "forceRelease", `{"victimId":"holder"}`)
			if res := f.post(t, c, "acquire", lock("holder")); !strings.Contains(res.body, "STATUS_OK") {
				t.Fatal(res.body)
			}
			waits := func() bool {
				return strings.Contains(f.post(t, c, "describePath", fmt.Sprintf(`{"path":%q}`, path)).body, `"gone"`)
			}
			conn := dial(t, f, "http/1.1")
			body := lock("gone")
			fmt.Fprintf(conn, "POST /v1/acquireWait HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"+
				"Content-Length: %d\r\n\r\n%s", len(body), body)
			await(t, "it waits", waits)
			io.WriteString(conn, more)
			conn.Close()
			if free {
				f.post(t, c, "releaseAll", `{"ownerId":"holder"}`)
			}
			await(t, "it has no lock and waits for none", func() bool { return !waits() })
		}
		t.Run(name, func(t *testing.T) { gone(t, false) })
		t.Run(name+", and the lock is free", func(t *testing.T) { gone(t, true) })
	}
}
