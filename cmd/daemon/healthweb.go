package daemon

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"github.com/quic-go/quic-go/http3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	pb "github.com/pathlockd/pathlockd/compat/pathlockdv1"
)

// unverified is how a health check does TLS.
func unverified() *tls.Config { return &tls.Config{InsecureSkipVerify: true} } //nolint:gosec // see AskHealth

// askGRPC asks over gRPC.
func askGRPC(ctx context.Context, at Target) (h Health, err error) {
	creds := insecure.NewCredentials()
	if at.Scheme == "grpcs" {
		creds = credentials.NewTLS(unverified())
	}
	conn, err := grpc.NewClient("passthrough:///"+at.Addr, grpc.WithTransportCredentials(creds))
	if err != nil {
		return h, err
	}
	defer conn.Close()
	res, err := pb.NewPathLockClient(conn).Health(ctx, &pb.HealthRequest{})
	if err != nil {
		return h, fmt.Errorf("health: %s", status.Convert(err).Message())
	}
	return Health{NodeID: res.NodeId, ClusterID: res.ClusterId, OK: res.Ok, Detail: res.Detail}, nil
}

// askWeb asks over HTTP.
func askWeb(ctx context.Context, at Target) (h Health, err error) {
	var via http.RoundTripper
	if at.Scheme == "h3" {
		t := &http3.Transport{TLSClientConfig: unverified()}
		defer t.Close()
		via = t
	} else {
		t := &http.Transport{TLSClientConfig: unverified(), ForceAttemptHTTP2: true}
		defer t.CloseIdleConnections()
		via = t
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+at.Addr+"/v1/health", nil)
	if err != nil {
		return h, err
	}
	res, err := via.RoundTrip(req)
	if err != nil {
		return h, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return h, fmt.Errorf("health: %w", err)
	}
	var body struct {
		OK        bool   `json:"ok"`
		Detail    string `json:"detail"`
		NodeID    string `json:"nodeId"`
		ClusterID string `json:"clusterId"`
	}
	if err := json.Unmarshal(text, &body); err != nil || body.Detail == "" {
		return h, fmt.Errorf("health: HTTP status %d and no answer of a pathlockd", res.StatusCode)
	}
	return Health{NodeID: body.NodeID, ClusterID: body.ClusterID, OK: body.OK, Detail: body.Detail}, nil
}
