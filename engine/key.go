package engine

import (
	"encoding/binary"
	"strings"

	"github.com/pathlockd/pathlockd/wire"
)

// Suffixes that follow a path key and a NUL, which no path contains.
const (
	readSuffix  = "\x00R"
	permSuffix  = "\x00S"
	writeQueue  = "\x00w"
	readQueue   = "\x00r"
	nul         = '\x00'
	keyHead     = 2 // bytes of the namespace's length
	slash       = '/'
	queueSuffix = len(writeQueue) + 8
)

// appendKey appends the key of path in namespace ns. A handler's root loses its
// slash, so that what lies below any path is its key, a slash, and more.
func appendKey(dst []byte, ns, path string) []byte {
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(ns)))
	return append(dst, strings.TrimSuffix(path, "/")...)
}

// pathOf is the path whose key is, or starts, key. It shares its memory.
func pathOf(key string) string {
	p := key[keyHead:]
	if i := strings.IndexByte(p, nul); i >= 0 {
		p = p[:i]
	}
	if strings.IndexByte(p, ':') == len(p)-1 {
		return p + "/" // the handler's root
	}
	return p
}

// namespaceOf is the namespace of the path whose key is, or starts, key.
func namespaceOf(key string) string {
	n := int(key[0])<<8 | int(key[1])
	p := key[keyHead:]
	if i := strings.IndexByte(p, nul); i >= 0 {
		p = p[:i]
	}
	if n <= len(p) {
		return p[:n]
	}
	return p + "/" // "h:/", whose path lost its slash
}

// appendLeaseKey appends the key of an owner's record in a namespace. Neither contains a
// NUL.
func appendLeaseKey(dst []byte, owner, ns string) []byte {
	dst = append(dst, owner...)
	dst = append(dst, nul)
	return append(dst, ns...)
}

// splitLeaseKey is its inverse; both parts share the key's memory.
func splitLeaseKey(key string) (owner, ns string) {
	i := strings.IndexByte(key, nul)
	return key[:i], key[i+1:]
}

// appendSeq appends an arrival number such that byte order is its order.
func appendSeq(dst []byte, seq uint64) []byte { return binary.BigEndian.AppendUint64(dst, seq) }

// seqOf is the arrival number at the end of a queue's key.
func seqOf(key string) uint64 { return binary.BigEndian.Uint64([]byte(key[len(key)-8:])) }

// isBoundary says that the first at bytes of key are the key of one of its
// path's ancestors.
func isBoundary(key string, at int) bool { return at < len(key) && key[at] == slash && at > keyHead }

// segments is how many segments a namespace root has below its handler.
func segments(ns string) int { return wire.Segments(ns) }
