package link

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/lni/dragonboat/v4/raftpb"
)

// Kind is what a connection, or a thing sent, is for.
type Kind uint8

// The kinds of connections and of what Faults sees.
const (
	Messages  Kind = 1 // batches of raft messages
	Snapshots Kind = 2 // chunks of snapshots
	Connect   Kind = 3 // Faults only: a connection is about to be handed out
	Requests  Kind = 4 // what goes through a Door
	Gossip    Kind = 5 // Faults only: datagrams, and connections, between gossip ports (groups/gossip)
)

// String names the kind.
func (k Kind) String() string {
	switch k {
	case Messages:
		return "messages"
	case Snapshots:
		return "snapshots"
	case Connect:
		return "connect"
	case Requests:
		return "requests"
	case Gossip:
		return "gossip"
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// A frame is a type, a length (uint32, big-endian) and that many bytes. TLS has the
// checksum.
const frameHead = 5

const (
	frameBatch = 1 // dialer to listener on connections for messages
	frameChunk = 2 // dialer to listener on connections for snapshots
	frameAlive = 3 // both ways, empty
	frameEnd   = 4 // both ways, empty: nothing follows, all that came was handled
)

const (
	// maxBatchBytes: dragonboat ends a batch at 64 MiB, and a message of it at 64 MiB
	// of entries (MaxMessageBatchSize, MaxEntrySize); the rest is for what surrounds
	// them.
	maxBatchBytes = 66 << 20
	// maxChunkBytes: dragonboat cuts snapshots into chunks of 2 MiB (SnapshotChunkSize)
	// and adds membership, names and addresses.
	maxChunkBytes = 4 << 20
	// keptBytes is the largest buffer that a connection keeps, each way.
	keptBytes = 256 << 10
	// maxLargeBytes is what frames above keptBytes may occupy on a node, each way. It
	// must hold the largest.
	maxLargeBytes = 256 << 20
	// pieceBytes is what must pass within stall.
	pieceBytes = 256 << 10
)

// errTooLong says that a batch or chunk is longer than any that dragonboat makes.
var errTooLong = errors.New("longer than a frame may be")

func limitOf(k Kind) int {
	if k == Snapshots {
		return maxChunkBytes
	}
	return maxBatchBytes
}

func putHead(b []byte, kind byte, n int) {
	b[0] = kind
	binary.BigEndian.PutUint32(b[1:], uint32(n))
}

// writePieces writes with a deadline for each piece.
func writePieces(c net.Conn, b []byte, stall time.Duration) error {
	for len(b) > 0 {
		n := min(len(b), pieceBytes)
		if err := c.SetWriteDeadline(time.Now().Add(stall)); err != nil {
			return err
		}
		if _, err := c.Write(b[:n]); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// frameReader reads the frames of one connection. It is used by one goroutine.
type frameReader struct {
	c       net.Conn
	limit   int // of a frame
	large   *budget
	silence time.Duration
	stall   time.Duration
	head    [frameHead]byte
	kept    []byte
	taken   int // from large, for the frame that was read last
}

// next answers the next frame. Its bytes are valid until the next call or done.
func (r *frameReader) next(ctx context.Context) (kind byte, body []byte, err error) {
	r.done()
	if err := r.c.SetReadDeadline(time.Now().Add(r.silence)); err != nil {
		return 0, nil, err
	}
	if _, err := io.ReadFull(r.c, r.head[:]); err != nil {
		return 0, nil, err
	}
	kind = r.head[0]
	n := int(binary.BigEndian.Uint32(r.head[1:]))
	switch {
	case kind < frameBatch || kind > frameEnd:
		return 0, nil, fmt.Errorf("a frame of unknown type %d", kind)
	case (kind == frameAlive || kind == frameEnd) && n != 0:
		return 0, nil, fmt.Errorf("a frame of type %d with %d bytes, which has none", kind, n)
	case n > r.limit:
		return 0, nil, fmt.Errorf("a frame of %d bytes, at most %d are allowed: %w", n, r.limit, errTooLong)
	}
	if body, err = r.room(ctx, n); err != nil {
		return 0, nil, err
	}
	for rest := body; len(rest) > 0; {
		piece := rest[:min(len(rest), pieceBytes)]
		if err := r.c.SetReadDeadline(time.Now().Add(r.stall)); err != nil {
			return 0, nil, err
		}
		if _, err := io.ReadFull(r.c, piece); err != nil {
			return 0, nil, err
		}
		rest = rest[len(piece):]
	}
	return kind, body, nil
}

func (r *frameReader) room(ctx context.Context, n int) ([]byte, error) {
	if n > keptBytes {
		if err := r.large.take(ctx, n); err != nil {
			return nil, err
		}
		r.taken = n
		return make([]byte, n), nil
	}
	if n > len(r.kept) {
		r.kept = make([]byte, min(max(n, 2*len(r.kept)), keptBytes))
	}
	return r.kept[:n], nil
}

// done gives back what the last frame took.
func (r *frameReader) done() {
	if r.taken > 0 {
		r.large.give(r.taken)
		r.taken = 0
	}
}

// unmarshal decodes what a peer sent. dragonboat's decoders are written for bytes that
// a checksum vouches for and may panic on others, which must not end the node.
func unmarshal(m raftpb.Unmarshaler, b []byte) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("decode: %v", p)
		}
	}()
	if err := m.Unmarshal(b); err != nil {
		return errors.New("decode: " + err.Error()) // its unexpected end is not the connection's
	}
	return nil
}
