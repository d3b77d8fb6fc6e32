package link

import (
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/lni/dragonboat/v4/raftpb"
)

// receive hands on what a guest sends until it ends or errs.
func (t *transport) receive(v *visit) error {
	w := &frameWriter{c: v.secure, stall: t.c.timing.stall}
	done := make(chan struct{})
	var alive sync.WaitGroup
	alive.Go(func() { w.beat(done, t.c.timing.alive) })
	defer alive.Wait()
	defer t.shut(v.raw) // the beat may hang in it
	defer close(done)
	r := &frameReader{c: v.secure, limit: limitOf(v.kind), large: t.in, silence: t.c.timing.silence,
		stall: t.c.timing.stall}
	defer r.done()
	for {
		frame, body, err := r.next(t.ctx)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return fmt.Errorf("silent for too long: %w", err)
		}
		if err != nil {
			return err
		}
		switch {
		case frame == frameAlive:
		case frame == frameEnd:
			return w.signal(frameEnd)
		case frame == frameBatch && v.kind == Messages:
			var b raftpb.MessageBatch
			if err := unmarshal(&b, body); err != nil {
				return fmt.Errorf("a batch of messages: %w", err)
			}
			t.onBatch(b)
		case frame == frameChunk && v.kind == Snapshots:
			var s raftpb.Chunk
			if err := unmarshal(&s, body); err != nil {
				return fmt.Errorf("a chunk of a snapshot: %w", err)
			}
			if !t.onChunk(s) {
				return fmt.Errorf("chunk %d of a snapshot of log %d is not wanted", s.ChunkId, s.ShardID)
			}
		default:
			return fmt.Errorf("a frame of type %d on a connection for %s", frame, v.kind)
		}
	}
}
