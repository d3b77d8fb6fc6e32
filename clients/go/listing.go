package pathlockd

import (
	"context"
	"iter"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// LockInfo is one held lock as listings show it.
type LockInfo = wire.LockInfo

// WaiterInfo is one request in a queue as Describe shows it.
type WaiterInfo = wire.WaiterInfo

// Metadata says who holds a lock. Decode a LockInfo's with DecodeMetadata.
type Metadata = wire.Metadata

// DecodeMetadata decodes the Meta of a LockInfo or a WaiterInfo.
func DecodeMetadata(b []byte) (Metadata, error) { return wire.DecodeMetadata(b) }

// Inspection says who holds exactly one path.
type Inspection struct {
	WriteOwner      string
	ReadOwners      []string
	SemaphoreOwners []string
	HasFence        bool
	Fence           int64 // the highest token the path has seen
}

// InspectPath says who holds exactly that path, and its fence even if nobody does.
func (c *Client) InspectPath(ctx context.Context, path string) (*Inspection, error) {
	res, err := c.call(ctx, &wire.Request{Op: wire.OpInspectPath, Path: path})
	if err != nil {
		return nil, err
	}
	l := list(res)
	return &Inspection{
		WriteOwner: res.Owner, ReadOwners: l.Names, SemaphoreOwners: l.Names2, HasFence: res.Flag, Fence: res.Token,
	}, nil
}

// Description is all there is to know of one path.
type Description struct {
	Namespace    string
	Algorithm    wire.Algorithm
	HasFence     bool
	Fence        int64        // the highest token the path has seen
	Holders      []LockInfo   // of exactly the path
	Covering     []LockInfo   // what is held above and covers it
	Waiters      []WaiterInfo // in order, as many as were asked for
	WaitersTotal uint64
	WritesBelow  uint64
	ReadsBelow   uint64
}

// Describe says who holds a path, what covers it, who waits for it, and how much is
// held below. It shows at most maxWaiters waiters: 64 when 0, never above 1024.
func (c *Client) Describe(ctx context.Context, path string, maxWaiters uint32) (*Description, error) {
	res, err := c.call(ctx, &wire.Request{Op: wire.OpDescribe, Path: path, Page: maxWaiters})
	if err != nil {
		return nil, err
	}
	l := list(res)
	return &Description{
		Namespace: res.Namespace, Algorithm: res.Algorithm, HasFence: res.Flag, Fence: res.Token,
		Holders: l.Infos, Covering: l.Covering, Waiters: l.Waiters,
		WaitersTotal: res.Count, WritesBelow: l.Count2, ReadsBelow: l.Count3,
	}, nil
}

// ListOwnerLocks lists what an owner holds, everywhere or in the domains, and says
// whether it has a lease at all. It is of one instant in each namespace if the owner holds no more
// than 512 locks. More are asked for page by page, as what the program holds itself is renewed on the same
// connection and must not wait for a long answer; what changes meanwhile may be seen or not.
func (c *Client) ListOwnerLocks(ctx context.Context, owner string,
	domains ...string) (locks []LockInfo, alive bool, err error) {
	req := wire.Request{Op: wire.OpListLocks, Owner: owner, Domains: domains, Page: wire.MaxDumpPage}
	for l, err := range c.lists(ctx, req) {
		if err != nil {
			return nil, false, err
		}
		locks, alive = append(locks, list(l).Infos...), alive || l.Flag
	}
	return locks, alive, nil
}

// ScanLocks goes through the locks held at and below a path or namespace; all of
// them when prefix is empty. It asks for a page at a time, so what changes meanwhile
// may be seen or not. An error ends it.
func (c *Client) ScanLocks(ctx context.Context, prefix string) iter.Seq2[LockInfo, error] {
	return c.pages(ctx, wire.Request{Op: wire.OpScanLocks, Path: prefix, Page: wire.MaxDumpPage})
}

// DumpLocks goes through all held locks, like ScanLocks.
func (c *Client) DumpLocks(ctx context.Context) iter.Seq2[LockInfo, error] {
	return c.pages(ctx, wire.Request{Op: wire.OpDumpLocks, Page: wire.MaxDumpPage})
}

// pages finds how many entries to ask for at once, of a listing that does not fit into one answer: fewer when it is
// refused with code 8, and more again when some were answered, as a server that has too much to do refuses it so as
// well.
type pages struct {
	refused int // in a row
	told    int // since
}

// less makes the number lower, and says whether to ask again at once.
func (p *pages) less(entries *uint32) (now bool) {
	*entries = max(*entries/2, 1)
	p.told = 0
	p.refused++
	return p.refused <= 2
}

// more takes note that so many were answered.
func (p *pages) more(entries *uint32) {
	p.refused = 0
	if p.told++; p.told%2 == 0 {
		*entries = min(2**entries, wire.MaxDumpPage)
	}
}

// pause is how long to wait before it is asked for again.
func (p *pages) pause() time.Duration { return backoff(p.refused-2, minRenewRetry, maxRenewRetry) }

// pages goes through the entries of a listing, whose pages are asked for one after the other. An error ends it.
func (c *Client) pages(ctx context.Context, req wire.Request) iter.Seq2[LockInfo, error] {
	return func(yield func(LockInfo, error) bool) {
		for res, err := range c.lists(ctx, req) {
			if err != nil {
				yield(LockInfo{}, err)
				return
			}
			for _, info := range list(res).Infos {
				if !yield(info, nil) {
					return
				}
			}
		}
	}
}

// lists asks for a listing, page by page.
func (c *Client) lists(ctx context.Context, req wire.Request) iter.Seq2[*wire.Result, error] {
	return pagesOf(ctx, req, c.call)
}

// pagesOf is the pages of a listing, each of which is asked for when the one before was taken. An error ends them.
func pagesOf(
	ctx context.Context, req wire.Request, ask func(context.Context, *wire.Request) (*wire.Result, error),
) iter.Seq2[*wire.Result, error] {
	return func(yield func(*wire.Result, error) bool) {
		req.Cursor = nil
		var size pages
		for {
			res, err := ask(ctx, &req)
			if codeOf(err) == wire.ResourceExhausted && req.Page > 1 {
				if !size.less(&req.Page) {
					pauseFor(ctx, size.pause())
				}
				continue
			}
			if err != nil {
				yield(nil, err)
				return
			}
			l := list(res)
			if !yield(res, nil) || res.Done || len(l.Cursor) == 0 {
				return
			}
			req.Cursor = l.Cursor
			size.more(&req.Page)
		}
	}
}
