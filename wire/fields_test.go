package wire

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"testing"
)

// fields is a message as testdata/vectors.json writes it (PROTOCOL.md section 10):
// every field by its name, 64-bit numbers as decimal text, binary as hexadecimal.
type fields map[string]any

// text is v as JSON, with keys in order: equal texts are equal values.
func text(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

func tokenText(v int64) string    { return strconv.FormatInt(v, 10) }
func uint64Text(v uint64) string  { return strconv.FormatUint(v, 10) }
func binText(b []byte) string     { return hex.EncodeToString(b) }
func namesOf(s []string) []string { return append([]string{}, s...) }
func positionFields(p Position) fields {
	return fields{"log": uint64Text(p.Log), "index": uint64Text(p.Index), "ordinal": uint64Text(p.Ordinal)}
}

func cursorFields(ps []Position) []fields {
	out := make([]fields, 0, len(ps))
	for _, p := range ps {
		out = append(out, positionFields(p))
	}
	return out
}

// metadataFields is nil for no metadata at all.
func metadataFields(raw []byte) any {
	if len(raw) == 0 {
		return nil
	}
	m, err := DecodeMetadata(raw)
	if err != nil {
		return fields{"broken": err.Error()}
	}
	labels := fields{}
	for k, v := range m.Labels {
		labels[k] = v
	}
	return fields{"host": m.Host, "pid": m.PID, "start_unix_ms": m.StartUnixMillis,
		"boot_id": m.BootID, "command": m.Command, "labels": labels}
}

// requestFields is the arguments of req.
func requestFields(req *Request) fields {
	out := fields{}
	spec, _ := req.Op.Spec()
	for _, f := range spec.Args {
		out[f.Name] = requestField(req, f.slot)
	}
	return out
}

func requestField(req *Request, s slot) any {
	switch s {
	case sOwner:
		return req.Owner
	case sBlocker:
		return req.Blocker
	case sPath:
		return req.Path
	case sNamespace:
		return req.Namespace
	case sKey:
		return req.Key
	case sTTL:
		return req.TTLMillis
	case sQueueTTL:
		return req.QueueTTLMillis
	case sGrace:
		return req.GraceMillis
	case sToken:
		return tokenText(req.Token)
	case sFlags:
		return uint64(req.Flags)
	case sReason:
		return uint8(req.Reason)
	case sAlgorithm:
		return uint8(req.Algorithm)
	case sDepth:
		return req.Depth
	case sPage:
		return req.Page
	case sTarget:
		return req.Target
	case sAttempt:
		return req.Attempt
	case sKinds:
		return req.Kinds
	case sDelWait:
		return req.DelWait
	case sWatch:
		return req.Watch
	case sExplicit:
		return req.Explicit
	case sDetail:
		return req.Detail
	case sNode:
		return req.Node
	case sDrain:
		return uint8(req.Drain)
	case sCursor:
		return binText(req.Cursor)
	case sMeta:
		return metadataFields(req.Meta)
	case sDomains:
		return namesOf(req.Domains)
	case sPaths:
		return namesOf(req.Paths)
	case sPositions:
		return cursorFields(req.Positions)
	case sLocks:
		out := make([]fields, 0, len(req.Locks))
		for _, l := range req.Locks {
			out = append(out, fields{"path": l.Path, "mode": uint8(l.Mode), "state": uint8(l.State),
				"permits": l.Permits})
		}
		return out
	case sReleases:
		out := make([]fields, 0, len(req.Releases))
		for _, l := range req.Releases {
			out = append(out, fields{"path": l.Path, "mode": uint8(l.Mode)})
		}
		return out
	case sHello:
		h := req.Hello
		if h == nil {
			h = new(Hello)
		}
		return fields{"min_version": h.MinVersion, "max_version": h.MaxVersion, "session": binText(h.Session),
			"epoch": h.Epoch, "credential": h.Credential, "client": h.Client, "features": h.Features,
			"window": h.Window, "metadata": metadataFields(h.Meta), "grace_ms": h.Grace}
	}
	panic(fmt.Sprintf("no argument in slot %d", s))
}

// resultFields is the results of an answer to op.
func resultFields(op Op, res *Result) fields {
	out := fields{}
	spec, _ := op.Spec()
	for _, f := range spec.Results {
		out[f.Name] = resultField(res, f.slot)
	}
	return out
}

func resultField(res *Result, s slot) any {
	switch s {
	case sStatus:
		return uint8(res.Status)
	case sReason:
		return uint8(res.Reason)
	case sAlgorithm:
		return uint8(res.Algorithm)
	case sCycle:
		return uint8(res.Cycle)
	case sFlag:
		return res.Flag
	case sDone:
		return res.Done
	case sText:
		return res.Message
	case sPath:
		return res.Path
	case sOwner:
		return res.Owner
	case sNamespace:
		return res.Namespace
	case sToken:
		return tokenText(res.Token)
	case sCurrent:
		return tokenText(res.Current)
	case sPosition:
		return res.Position
	case sCount:
		return res.Count
	case sCount2:
		return res.lists().Count2
	case sCount3:
		return res.lists().Count3
	case sNames:
		return namesOf(res.lists().Names)
	case sNames2:
		return namesOf(res.lists().Names2)
	case sCursor:
		return binText(res.lists().Cursor)
	case sPositions:
		return cursorFields(res.lists().Positions)
	case sInfos:
		return lockFields(res.lists().Infos)
	case sCovering:
		return lockFields(res.lists().Covering)
	case sWaiters:
		out := make([]fields, 0, len(res.lists().Waiters))
		for _, w := range res.lists().Waiters {
			out = append(out, fields{"owner": w.Owner, "path": w.Path, "mode": uint8(w.Mode),
				"token":         tokenText(w.Token),
				"since_unix_ms": w.SinceUnixMillis, "expires_in_ms": w.ExpiresInMillis, "position": w.Position,
				"open": w.Open, "permits": w.Permits, "metadata": metadataFields(w.Meta)})
		}
		return out
	case sWelcome:
		return welcomeFields(res.lists().Welcome)
	case sTopology:
		return topologyFields(res.lists().Topology)
	case sBackup:
		return backupFields(res.lists().Backup)
	case sRows:
		return binText(res.lists().Rows)
	}
	panic(fmt.Sprintf("no result in slot %d", s))
}

func lockFields(ls []LockInfo) []fields {
	out := make([]fields, 0, len(ls))
	for _, l := range ls {
		out = append(out, fields{"owner": l.Owner, "path": l.Path, "mode": uint8(l.Mode), "has_fence": l.HasFence,
			"fence": tokenText(l.Fence), "since_unix_ms": l.SinceUnixMillis, "expires_in_ms": l.ExpiresInMillis,
			"algorithm": uint8(l.Algorithm), "permits": l.Permits, "metadata": metadataFields(l.Meta)})
	}
	return out
}

func welcomeFields(w *Welcome) fields {
	if w == nil {
		w = new(Welcome)
	}
	l := w.Limits
	return fields{"version": w.Version, "node_id": w.NodeID, "cluster_id": w.ClusterID, "session": binText(w.Session),
		"epoch": w.Epoch, "features": w.Features, "server_version": w.ServerVersion,
		"limits": fields{"frame_bytes": l.FrameBytes, "in_flight": l.InFlight, "waiting": l.Waiting,
			"subscriptions": l.Subscriptions, "bound_owners": l.BoundOwners, "repeat_ms": l.RepeatMillis,
			"answers":      l.Answers,
			"unread_bytes": l.UnreadBytes, "unread_ms": l.UnreadMillis, "request_timeout_ms": l.RequestMillis,
			"group_in_flight": l.GroupInFlight}}
}

func backupFields(b *Backup) fields {
	if b == nil {
		b = new(Backup)
	}
	return fields{"id": b.ID, "log": b.Log, "applied_index": uint64Text(b.AppliedIndex), "made_unix_ms": b.UnixMillis,
		"changes": uint64Text(b.Changes), "cluster_id": b.ClusterID, "groups": b.GroupCount, "logs": b.LogCount,
		"prefix_segments": b.PrefixSegments, "algorithm": uint8(b.Algorithm), "replication_factor": b.Replication}
}

func topologyFields(t *Topology) fields {
	if t == nil {
		t = new(Topology)
	}
	nodes := make([]fields, 0, len(t.Nodes))
	for _, n := range t.Nodes {
		nodes = append(nodes, fields{"node_id": n.NodeID, "address": n.Native})
	}
	return fields{"version": t.Version, "self": t.Self, "nodes": nodes, "groups": t.GroupLogs,
		"leaders": namesOf(t.Leaders),
		"log_of":  append([]uint64{}, t.LogOf...), "prefix_segments": t.Segments, "roots": namesOf(t.Roots)}
}

// Pushes, by the names PROTOCOL.md section 6 gives them.
var pushNames = map[PushKind]string{
	PushQueued: "queued", PushEvent: "event", PushProgress: "progress",
	PushGap: "gap", PushTopology: "topology", PushGoodbye: "goodbye", PushLease: "lease",
}

// push is a decoded push of any kind.
type push struct {
	kind     PushKind
	queued   Queued
	event    Event
	progress Progress
	topology *Topology
	goodbye  *Error
	lease    LeaseEvent
}

// decodePush reads a push after its head; known is false for a kind to be ignored.
func decodePush(kind PushKind, r *Reader, n int) (p push, known bool, err error) {
	p.kind = kind
	switch kind {
	case PushQueued:
		err = p.queued.Decode(r, n)
	case PushEvent:
		err = p.event.Decode(r, n)
	case PushProgress, PushGap:
		err = p.progress.Decode(r, n)
	case PushTopology:
		p.topology, err = DecodeTopology(r, n)
	case PushGoodbye:
		p.goodbye, err = DecodeGoodbye(r, n)
	case PushLease:
		err = p.lease.Decode(r, n)
	default:
		return p, false, nil
	}
	return p, true, err
}

// frame is the push's whole frame.
func (p *push) frame() []byte {
	switch p.kind {
	case PushQueued:
		return AppendQueued(nil, &p.queued)
	case PushEvent:
		return AppendEvent(nil, &p.event)
	case PushProgress, PushGap:
		return AppendProgress(nil, p.kind, &p.progress)
	case PushTopology:
		return AppendTopology(nil, p.topology)
	case PushLease:
		return AppendLeaseEvent(nil, &p.lease)
	}
	return AppendGoodbye(nil, p.goodbye)
}

func (p *push) fields() fields {
	switch p.kind {
	case PushQueued:
		out := resultFields(OpAcquire, &p.queued.Result)
		out["request_id"] = p.queued.ID
		return out
	case PushEvent:
		e := &p.event
		return fields{"subscription": e.Subscription, "number": e.Number, "kind": uint8(e.Kind), "owner": e.Owner,
			"path": e.Path, "namespace": e.Namespace, "token": tokenText(e.Token), "position": positionFields(e.At)}
	case PushProgress, PushGap:
		return fields{"subscription": p.progress.Subscription, "cursor": cursorFields(p.progress.Cursor)}
	case PushTopology:
		return fields{"topology": topologyFields(p.topology)}
	case PushLease:
		marks := []string{}
		for _, mark := range p.lease.Acquires {
			marks = append(marks, strconv.FormatUint(mark, 10))
		}
		return fields{"kind": uint8(p.lease.Kind), "owner": p.lease.Owner, "namespace": p.lease.Namespace,
			"acquires": marks}
	}
	return fields{"code": uint8(p.goodbye.Code), "message": p.goodbye.Message}
}

// mustHex reads hexadecimal with spaces between the bytes.
func mustHex(t testing.TB, s string) []byte {
	t.Helper()
	b := make([]byte, 0, len(s)/2)
	for i := 0; i < len(s); {
		if s[i] == ' ' {
			i++
			continue
		}
		if i+2 > len(s) {
			t.Fatalf("odd hexadecimal %q", s)
		}
		v, err := strconv.ParseUint(s[i:i+2], 16, 8)
		if err != nil {
			t.Fatalf("hexadecimal %q: %v", s, err)
		}
		b = append(b, byte(v))
		i += 2
	}
	return b
}

// framed puts the length before a payload.
func framed(payload []byte) []byte {
	dst, from := beginFrame(nil)
	return endFrame(append(dst, payload...), from)
}
