package web

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestOpenRequests: acquires that wait, more than a connection may have or over HTTP/1.1
// than all may, leave room for the renewal of the lease that they wait for.
func TestOpenRequests(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Options, *limits)
		client func(*testing.T, *face) *http.Client
		most   int // that may wait
		asked  int
		before int // that waited when there was no limit of their own
		says   string
	}{
		"HTTP/1.1": {
			func(o *Options, _ *limits) { o.Connections = 8 },
			func(t *testing.T, _ *face) *http.Client { return client(t, false) },
			6, 8, 8, "6 requests over HTTP/1.1 stay open",
		},
		"HTTP/2": {
			func(o *Options, _ *limits) { o.InFlight = 4 },
			func(t *testing.T, _ *face) *http.Client {
				c := client(t, true)
				c.Transport.(*http.Transport).HTTP2 = &http.HTTP2Config{StrictMaxConcurrentRequests: true}
				return c
			},
			256, 300, 260, "256 calls that stay open",
		},
		"HTTP/3": {
			func(o *Options, _ *limits) { o.InFlight = 4 },
			func(t *testing.T, f *face) *http.Client { return h3Client(t, f) },
			256, 300, 260, "256 calls that stay open",
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := serve(t, c.change)
			aside := serve(t, nil)
			asks := c.client(t, f)
			path := "web:/open-" + strings.NewReplacer("/", "", ".", "").Replace(name)
			if got := f.post(t, asks, "acquire", `{"ownerId":"open","ttlMs":60000,"requests":[{"path":"`+path+
				`"}]}`); got.StatusCode != 200 {
				t.Fatal(got.body)
			}
			ctx, cancel := context.WithCancel(within(t))
			defer cancel()
			ends := make(chan string, c.asked)
			for i := range c.asked {
				go func() {
					body := fmt.Sprintf(`{"ownerId":"open-%d","ttlMs":1000,"requests":[{"path":"%s"}]}`, i, path)
					req, err := http.NewRequestWithContext(ctx, http.MethodPost, f.url+"/v1/acquireWait",
						strings.NewReader(body))
					if err != nil {
						ends <- err.Error()
						return
					}
					res, err := asks.Do(req)
					if err != nil {
						ends <- err.Error()
						return
					}
					defer res.Body.Close()
					b, _ := io.ReadAll(res.Body)
					ends <- res.Status + " " + string(b)
				}()
			}
			by := client(t, true)
			wait := func(n int) bool {
				return strings.Contains(aside.post(t, by, "describePath", `{"path":"`+path+`"}`).body,
					fmt.Sprintf(`"waitersTotal":"%d"`, n))
			}
			await(t, "all that may wait do, or nothing else may come", func() bool {
				return wait(c.most) && len(ends) == c.asked-c.most || wait(c.before)
			})
			soon, stop := context.WithTimeout(ctx, 20*time.Second)
			defer stop()
			req, err := http.NewRequestWithContext(soon, http.MethodPost, f.url+"/v1/renew",
				strings.NewReader(`{"ownerId":"open","ttlMs":60000}`))
			if err != nil {
				t.Fatal(err)
			}
			res, err := asks.Do(req)
			if err != nil {
				t.Fatalf("the renewal: %v", err)
			}
			defer res.Body.Close()
			if b, err := io.ReadAll(res.Body); err != nil ||
				!strings.Contains(string(b), `"status":"RENEW_STATUS_OK"`) {
				t.Errorf("the renewal: %s %s, %v", res.Status, b, err)
			}
			for range c.asked - c.most {
				if got := <-ends; !strings.HasPrefix(got, "429 ") || !strings.Contains(got, c.says) {
					t.Errorf("one too many: %s", got)
				}
			}
			cancel()
			for range c.most {
				<-ends
			}
			await(t, "nobody waits any more", func() bool { return wait(0) })
			aside.post(t, by, "releaseAll", `{"ownerId":"open"}`)
		})
	}
}
