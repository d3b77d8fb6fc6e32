package compat

import (
	pb "github.com/pathlockd/pathlockd/compat/pathlockdv1"
	"github.com/pathlockd/pathlockd/wire"
)

// Conversions between the messages and the vocabulary of package wire. Enums have
// the same numbers in both; here they are only kept from being cut to a byte, so
// that what is unknown is refused and not taken for another value.

// enum converts an enum's number, whose known values go up to last.
func enum[E ~uint8](field string, v int32, last E) (E, error) {
	if v < 0 || v > int32(last) {
		return 0, invalid("%s %d: is no known value (0 to %d)", field, v, last)
	}
	return E(v), nil
}

// reasonOf converts the reason of a wait edge or a question about a blocker; which
// of them may be given is for the request's validation to say.
func reasonOf(r pb.ReasonCode) (wire.Reason, error) {
	return enum("reason", int32(r), wire.ReasonStaleOwner)
}

// addLocks appends the paths of an acquire.
func addLocks(req *wire.Request, locks []*pb.LockRequest) error {
	for _, l := range locks {
		mode, err := enum("requests: mode", int32(l.GetMode()), wire.ModeRead)
		if err != nil {
			return err
		}
		state, err := enum("requests: state", int32(l.GetState()), wire.StateHeld)
		if err != nil {
			return err
		}
		req.Locks = append(req.Locks, wire.LockRequest{Path: l.GetPath(), Mode: mode, State: state,
			Permits: l.GetPermits()})
	}
	return nil
}

// addReleases appends paths to give back.
func addReleases(req *wire.Request, field string, releases []*pb.ReleaseRequest) error {
	for _, r := range releases {
		mode, err := enum(field+": mode", int32(r.GetMode()), wire.ModeRead)
		if err != nil {
			return err
		}
		req.Releases = append(req.Releases, wire.ReleaseRequest{Path: r.GetPath(), Mode: mode})
	}
	return nil
}

// setMetadata encodes who asks.
func setMetadata(req *wire.Request, m *pb.Metadata) error {
	if m == nil {
		return nil
	}
	w := wire.Metadata{
		Host: m.Host, PID: m.Pid, StartUnixMillis: m.StartUnixMs, BootID: m.BootId, Command: m.Command,
		Labels: m.Labels,
	}
	b, err := w.Encode()
	if err != nil {
		return invalid("metadata: %v", err)
	}
	req.Meta = b
	return nil
}

// holder decodes who holds. What cannot be read was not written by this server,
// and is left out.
func holder(b []byte) *pb.Metadata {
	if len(b) == 0 {
		return nil
	}
	m, err := wire.DecodeMetadata(b)
	if err != nil {
		return nil
	}
	return &pb.Metadata{
		Host: m.Host, Pid: m.PID, StartUnixMs: m.StartUnixMillis, BootId: m.BootID, Command: m.Command,
		Labels: m.Labels,
	}
}

// convertAll converts a list.
func convertAll[A, B any](in []A, convert func(*A) *B) []*B {
	if len(in) == 0 {
		return nil
	}
	out := make([]*B, len(in))
	for i := range in {
		out[i] = convert(&in[i])
	}
	return out
}

func lockEntry(i *wire.LockInfo) *pb.LockEntry {
	return &pb.LockEntry{
		Owner: i.Owner, Path: i.Path, Mode: pb.Mode(i.Mode), HasFence: i.HasFence, Fence: i.Fence,
		SinceUnixMs: i.SinceUnixMillis, ExpiresInMs: i.ExpiresInMillis, Algorithm: pb.LockAlgorithm(i.Algorithm),
		Permits: i.Permits, Metadata: holder(i.Meta),
	}
}

func ownedLock(i *wire.LockInfo) *pb.OwnedLock {
	return &pb.OwnedLock{
		Path: i.Path, Mode: pb.Mode(i.Mode), HasFence: i.HasFence, Fence: i.Fence,
		SinceUnixMs: i.SinceUnixMillis, ExpiresInMs: i.ExpiresInMillis, Algorithm: pb.LockAlgorithm(i.Algorithm),
		Permits: i.Permits, Metadata: holder(i.Meta),
	}
}

func waiter(i *wire.WaiterInfo) *pb.Waiter {
	return &pb.Waiter{
		Owner: i.Owner, Path: i.Path, Mode: pb.Mode(i.Mode), FencingToken: i.Token, SinceUnixMs: i.SinceUnixMillis,
		ExpiresInMs: i.ExpiresInMillis, Position: i.Position, Open: i.Open, Permits: i.Permits,
		Metadata: holder(i.Meta),
	}
}
