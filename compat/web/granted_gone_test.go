package web

import (
	"fmt"
	"io"
	"strings"
	"testing"
)

// TestGrantedAsItWent: a client waits for a lock over HTTP/1.1, has sent something behind its request, and closes
// its connection. The lock is free in the moment after. Its call has ended with its connection (contract section
// 7), and no answer was on its way: what it is granted is taken back, and not held by nobody for its TTL.
func TestGrantedAsItWent(t *testing.T) {
	f := serve(t, nil)
	c := client(t, true)
	for name, more := range map[string]string{
		"nothing": "", "a line break": "\r\n", "a request": "GET /v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			path := "web:/as-it-went/" + strings.ReplaceAll(name, " ", "-")
			lock := func(owner string) string {
				return fmt.Sprintf(`{"ownerId":%q,"ttlMs":3600000,"queueTtlMs":600000,"requests":[{"path":%q}]}`, owner, path)
			}
			defer f.post(t, c, "forceRelease", `{"victimId":"gone"}`)
			defer f.post(t, c, "forceRelease", `{"victimId":"holder"}`)
			if res := f.post(t, c, "acquire", lock("holder")); !strings.Contains(res.body, "STATUS_OK") {
				t.Fatal(res.body)
			}
			says := func(what string) bool {
				return strings.Contains(f.post(t, c, "describePath", fmt.Sprintf(`{"path":%q}`, path)).body, what)
			}
			conn := dial(t, f, "http/1.1")
			body := lock("gone")
			fmt.Fprintf(conn, "POST /v1/acquireWait HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"+
				"Content-Length: %d\r\n\r\n%s", len(body), body)
			await(t, "it waits", func() bool { return says(`"gone"`) })
			io.WriteString(conn, more)
			conn.Close()
			f.post(t, c, "releaseAll", `{"ownerId":"holder"}`)
			await(t, "it has no lock and waits for none", func() bool { return !says(`"gone"`) })
		})
	}
}
