package rows

import (
	"encoding/binary"
	"fmt"
	"io"

	"github.com/zeebo/xxh3"
)

// SystemGroup is the number of the system group in a Sum.
const SystemGroup = 0xffff

// SumBytes is the length of a Sum, as it stands behind the stream of a backup.
const SumBytes = 8

// Sum is a checksum of what the rows of a log mean, not of how they are written: it is
// made of the digests of the states they came from, and checked with those of the
// states that are made of them.
type Sum struct{ h xxh3.Hasher }

// Add adds a group's digest. Groups are added in the order of their numbers.
func (s *Sum) Add(group uint16, digest uint64) {
	b := binary.BigEndian.AppendUint16(nil, group)
	if _, err := s.h.Write(binary.BigEndian.AppendUint64(b, digest)); err != nil {
		panic(err) // a hash takes every write
	}
}

// Append appends the sum.
func (s *Sum) Append(dst []byte) []byte { return binary.BigEndian.AppendUint64(dst, s.h.Sum64()) }

// ReadSum reads the sum behind a stream, of which it must be the end.
func ReadSum(r io.Reader) (sum [SumBytes]byte, err error) {
	if _, err = io.ReadFull(r, sum[:]); err != nil {
		return sum, cut(err)
	}
	n, err := io.Copy(io.Discard, r)
	if err == nil && n > 0 {
		err = fmt.Errorf("rows: %d bytes follow after the end", n)
	}
	return sum, err
}
