package pathlockd

import (
	"context"

	"github.com/pathlockd/pathlockd/wire"
)

// What operators ask of a cluster (PROTOCOL.md section 4). Notes are for people: what
// they should know of what they just asked for.

// ClusterStatus answers the cluster as the server that is asked sees it.
func (c *Client) ClusterStatus(ctx context.Context) (*wire.ClusterStatus, error) {
	res, err := c.call(ctx, &wire.Request{Op: wire.OpClusterStatus})
	if err != nil {
		return nil, err
	}
	return wire.DecodeClusterStatus(res.Message)
}

// TransferLog hands the leadership of a log to a node, and waits until it has it.
func (c *Client) TransferLog(ctx context.Context, log uint64, node string) error {
	_, err := c.call(ctx, &wire.Request{Op: wire.OpClusterTransfer, Target: log, Node: node})
	return err
}

// DrainNode moves leaderships (wire.DrainLeads) or replicas too (wire.DrainReplicas)
// away from a node. It returns when that is decided, and not when it is done.
func (c *Client) DrainNode(ctx context.Context, node string, mode wire.Drain) (note string, err error) {
	res, err := c.call(ctx, &wire.Request{Op: wire.OpNodeDrain, Node: node, Drain: mode})
	if err != nil {
		return "", err
	}
	return res.Message, nil
}

// ResumeNode takes back what was asked of a node.
func (c *Client) ResumeNode(ctx context.Context, node string) error {
	_, err := c.call(ctx, &wire.Request{Op: wire.OpNodeResume, Node: node})
	return err
}

// RemoveNode gives a node up for good; force: although it is alive and not drained.
func (c *Client) RemoveNode(ctx context.Context, node string, force bool) (note string, err error) {
	res, err := c.call(ctx, &wire.Request{Op: wire.OpNodeRemove, Node: node, Explicit: force})
	if err != nil {
		return "", err
	}
	return res.Message, nil
}
