package conformance_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/quic-go/quic-go/http3"
)

// webFace is a client of the JSON facade over one version of HTTP.
type webFace struct {
	url     string
	client  *http.Client
	tls     *tls.Config
	version int // of HTTP: 1, 2 or 3
	profile profile
	style   style
}

// webFaces are how each version speaks: together they use both profiles of answers,
// and both ways to write enums and 64-bit integers.
var webFaces = map[string]webFace{
	"http1": {version: 1, style: style{camel: true, longStrings: true}},
	"http2": {version: 2, style: style{camel: true, enumNumbers: true},
		profile: profile{accept: "application/json; profile=plain", plain: true}},
	"http3": {version: 3, style: style{camel: true}, profile: profile{accept: "application/json"}},
}

func newWeb(t testing.TB, n *node, name string) *webFace {
	t.Helper()
	w := webFaces[name]
	w.url, w.tls, w.client = "https://"+n.addrs[name], n.trust, n.clients[name]
	return &w
}

// dialWeb makes a client, and answers what loses its connections.
func dialWeb(version int, trust *tls.Config) (*http.Client, func()) {
	if version == 3 {
		tr := &http3.Transport{TLSClientConfig: trust.Clone()}
		return &http.Client{Transport: tr}, func() { tr.Close() }
	}
	tr := &http.Transport{TLSClientConfig: trust.Clone(), Protocols: new(http.Protocols), MaxIdleConnsPerHost: 64}
	tr.Protocols.SetHTTP1(version == 1)
	tr.Protocols.SetHTTP2(version == 2)
	var mu sync.Mutex
	var conns []net.Conn
	tr.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, network, addr)
		if err == nil {
			mu.Lock()
			conns = append(conns, c)
			mu.Unlock()
		}
		return c, err
	}
	return &http.Client{Transport: tr}, func() {
		mu.Lock()
		defer mu.Unlock()
		for _, c := range conns {
			c.Close()
		}
	}
}

func (w *webFace) has(rpc string) bool {
	m := method(rpc)
	return m != nil && !m.IsStreamingClient() && !m.IsStreamingServer()
}

func (w *webFace) full() bool { return false }

func (w *webFace) call(ctx context.Context, rpc string, req message) (message, *refusal) {
	return w.post(ctx, w.client, rpc, req)
}

func (w *webFace) post(ctx context.Context, c *http.Client, rpc string, req message) (message, *refusal) {
	text, err := toJSON(method(rpc).Input(), req, w.style)
	if err != nil {
		return nil, broken(err)
	}
	verb, body := http.MethodPost, io.Reader(bytes.NewReader(text))
	if rpc == "Health" && w.version == 1 {
		verb, body = http.MethodGet, nil
	}
	r, err := http.NewRequestWithContext(ctx, verb, w.url+"/v1/"+lowerCamel(rpc), body)
	if err != nil {
		return nil, broken(err)
	}
	r.Header.Set("Content-Type", "application/json")
	if w.profile.accept != "" {
		r.Header.Set("Accept", w.profile.accept)
	}
	res, err := c.Do(r)
	if err != nil {
		return nil, lost(err)
	}
	defer res.Body.Close()
	answer, err := w.read(res)
	if err != nil {
		return nil, lost(err)
	}
	if res.StatusCode != http.StatusOK {
		return nil, envelope(res.StatusCode, answer)
	}
	m, err := w.profile.fromJSONAnswer(output(rpc), answer)
	if err != nil {
		return nil, broken(err)
	}
	return m, nil
}

// lost is why there is no answer.
func lost(err error) *refusal {
	if errors.Is(err, context.Canceled) {
		return &refusal{"CANCELLED", err.Error()}
	}
	return broken(err)
}

// read decodes a body, and looks at what surrounds it.
func (w *webFace) read(res *http.Response) (answer map[string]any, err error) {
	if res.ProtoMajor != w.version {
		return nil, fmt.Errorf("answered over %s", res.Proto)
	}
	if kind, _, _ := strings.Cut(res.Header.Get("Content-Type"), ";"); kind != "application/json" {
		return nil, fmt.Errorf("the answer is %q", kind)
	}
	d := json.NewDecoder(res.Body)
	d.UseNumber()
	if err := d.Decode(&answer); err != nil {
		return nil, fmt.Errorf("status %d: %w", res.StatusCode, err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("something follows the answer")
	}
	return answer, nil
}

// statuses are those of the codes (contract.md section 13).
var statuses = map[string]int{
	"INVALID_ARGUMENT": 400, "OUT_OF_RANGE": 400, "UNAUTHENTICATED": 401, "PERMISSION_DENIED": 403, "NOT_FOUND": 404,
	"ALREADY_EXISTS": 409, "ABORTED": 409, "FAILED_PRECONDITION": 412, "RESOURCE_EXHAUSTED": 429, "CANCELLED": 499,
	"UNIMPLEMENTED": 501, "UNAVAILABLE": 503, "DEADLINE_EXCEEDED": 504, "INTERNAL": 500,
}

// envelope reads {"error":{"code":…,"message":…}}.
func envelope(status int, answer map[string]any) *refusal {
	e, _ := answer["error"].(map[string]any)
	code, okCode := e["code"].(string)
	text, okText := e["message"].(string)
	if len(answer) != 1 || len(e) != 2 || !okCode || !okText {
		return broken(fmt.Errorf("status %d with %v, which is no envelope of an error", status, answer))
	}
	if statuses[code] != status {
		return broken(fmt.Errorf("status %d for %s: %s", status, code, text))
	}
	return &refusal{code, text}
}

func (w *webFace) start(t testing.TB, rpc string, req message) *open {
	t.Helper()
	client, drop := dialWeb(w.version, w.tls)
	ctx, cancel := context.WithCancel(context.Background())
	o := &open{ended: make(chan outcome, 1), cancel: cancel, drop: drop}
	t.Cleanup(func() {
		cancel()
		client.CloseIdleConnections()
		drop()
	})
	go func() {
		answer, refused := w.post(ctx, client, rpc, req)
		o.ended <- outcome{answer, refused}
	}()
	return o
}

// subscribe reads server-sent events. The stream is live once its headers are here.
func (w *webFace) subscribe(t testing.TB, req message) (*stream, *refusal) {
	t.Helper()
	owner, _ := req["owner_id"].(string)
	ctx, cancel := context.WithCancel(context.Background())
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, w.url+"/v1/events/sse?owner_id="+
		url.QueryEscape(owner), nil)
	if err != nil {
		cancel()
		return nil, broken(err)
	}
	// A cursor is the id of an event here. It may come in a header or in the query.
	if after, _ := req["cursor"].(string); after != "" && w.version == 2 {
		r.Header.Set("Last-Event-ID", after)
	} else if after != "" {
		r.URL.RawQuery += "&after=" + after
	}
	client, drop := dialWeb(w.version, w.tls)
	end := func() {
		cancel()
		client.CloseIdleConnections()
		drop()
	}
	res, err := client.Do(r)
	if err != nil {
		end()
		return nil, lost(err)
	}
	if res.StatusCode != http.StatusOK {
		defer end()
		defer res.Body.Close()
		answer, err := w.read(res)
		if err != nil {
			return nil, broken(err)
		}
		return nil, envelope(res.StatusCode, answer)
	}
	s := &stream{events: make(chan message, 64), close: end}
	if kind := res.Header.Get("Content-Type"); kind != "text/event-stream" {
		end()
		return nil, broken(fmt.Errorf("the stream is %q", kind))
	}
	go func() {
		defer close(s.events)
		defer res.Body.Close()
		if err := readEvents(ctx, res.Body, owner, s.events); err != nil {
			s.events <- message{"broken": err.Error()} // the next event that is waited for
		}
	}()
	return s, nil
}

// sseTypes are the events that there are.
var sseTypes = []string{"killed", "revoke", "grant"}

// readEvents reads frames "id: N" and "data: {…}", until the stream ends. Ids grow by
// one, and are told twice alike.
func readEvents(ctx context.Context, body io.Reader, owner string, to chan<- message) error {
	var id, last int64
	started := false
	lines := bufio.NewScanner(body)
	for lines.Scan() {
		line := lines.Text()
		if text, ok := strings.CutPrefix(line, "id: "); ok {
			if _, err := fmt.Sscanf(text, "%d", &id); err != nil {
				return fmt.Errorf("%q: %w", line, err)
			}
			if !started {
				last, started = id, true // where the stream starts
			}
		}
		data, ok := strings.CutPrefix(line, "data: ")
		if !ok {
			continue
		}
		var e struct {
			ID      int64  `json:"id"`
			Type    string `json:"type"`
			OwnerID string `json:"ownerId"`
		}
		d := json.NewDecoder(strings.NewReader(data))
		d.DisallowUnknownFields()
		if err := d.Decode(&e); err != nil {
			return fmt.Errorf("%q: %w", line, err)
		}
		if e.ID != id || e.ID != last+1 || e.OwnerID != owner || !slices.Contains(sseTypes, e.Type) {
			return fmt.Errorf("%q after id %d, in a frame with id %d", data, last, id)
		}
		last = e.ID
		select {
		case to <- message{"type": strings.ToUpper(e.Type), "owner_id": e.OwnerID,
			"cursor": strconv.FormatInt(e.ID, 10)}:
		case <-ctx.Done():
			return nil
		}
	}
	return nil // ended by whoever asked for it, or too early, which the scenario sees
}
