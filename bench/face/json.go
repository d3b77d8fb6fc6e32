package face

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/quic-go/quic-go/http3"
)

// JSON is a client of the JSON facade over one version of HTTP.
type JSON struct {
	base  string
	via   http.RoundTripper
	close func()
}

// Versions of HTTP.
const (
	HTTP1 = "http/1.1"
	HTTP2 = "h2"
	HTTP3 = "h3"
)

// DialJSON makes a client with a connection of its own, over a version of HTTP. The
// certificate is not verified.
func DialJSON(addr, version string) (*JSON, error) {
	conf := &tls.Config{InsecureSkipVerify: true} //nolint:gosec // the server is the bench's own
	j := &JSON{base: "https://" + addr + "/v1/"}
	if version == HTTP3 {
		t := &http3.Transport{TLSClientConfig: conf}
		j.via, j.close = t, func() { _ = t.Close() }
		return j, nil
	}
	var p http.Protocols
	p.SetHTTP1(version == HTTP1)
	p.SetHTTP2(version == HTTP2)
	t := &http.Transport{TLSClientConfig: conf, Protocols: &p, MaxConnsPerHost: 1, MaxIdleConnsPerHost: 1}
	j.via, j.close = t, t.CloseIdleConnections
	return j, nil
}

// Requests as a client of this interface writes them.
type (
	lock struct {
		Path string `json:"path"`
	}
	acquireRequest struct {
		OwnerID  string `json:"ownerId"`
		TTL      int    `json:"ttlMs"`
		Requests []lock `json:"requests"`
	}
	releaseRequest struct {
		OwnerID  string `json:"ownerId"`
		Requests []lock `json:"requests"`
	}
	acquireResponse struct {
		Status string `json:"status"`
	}
)

// Acquire takes a path.
func (j *JSON) Acquire(ctx context.Context, owner, path string) error {
	var res acquireResponse
	if err := j.post(ctx, "acquire", acquireRequest{owner, leaseMillis, []lock{{path}}}, &res); err != nil {
		return err
	}
	if res.Status != "ACQUIRE_STATUS_OK" {
		return fmt.Errorf("acquire %s: %s", path, res.Status)
	}
	return nil
}

// Release gives a path back.
func (j *JSON) Release(ctx context.Context, owner, path string) error {
	return j.post(ctx, "release", releaseRequest{owner, []lock{{path}}}, new(struct{}))
}

func (j *JSON) post(ctx context.Context, rpc string, in, out any) (err error) {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, j.base+rpc, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := j.via.RoundTrip(req)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, res.Body.Close()) }()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: HTTP status %d: %s", rpc, res.StatusCode, text)
	}
	return json.Unmarshal(text, out)
}

// Close closes the connection.
func (j *JSON) Close() { j.close() }
