// Package rows is how the state of logs is laid out: the keys of a node's database,
// and the stream of rows that raft snapshots and backups are made of. It is the one
// place that knows, for those who keep the state (groups) and those who carry it from
// one cluster to another (groups/backup).
package rows

import (
	"encoding/binary"
	"fmt"
)

// Keys of the database, by their first byte.
//
//	'g' group(2) row                 a row of a virtual group (engine/row.go)
//	's' row                          a row of the system group
//	'l' log(8) 'a'                   a log's clock, leader epoch and applied index
//	'l' log(8) 's' session(16)       a session of the log
//	'l' log(8) 'i'                   a snapshot of the log is being installed: what is here is not state
const (
	SpaceGroup  = 'g'
	SpaceSystem = 's'
	SpaceLog    = 'l'

	LogState      = 'a'
	LogSession    = 's'
	LogInstalling = 'i'
)

// Numbers of logs: the system log, and the first of those that groups live in.
const (
	SystemLog = 1
	FirstLog  = 2
)

// NodeMark is how many bytes of the id of a session that a node made tell the node (groups/processes.go).
const NodeMark = 5

// Home is the log that a group lives in, in a cluster of so many logs.
func Home(group, logs int) uint64 { return FirstLog + uint64(group%logs) }

// LogsOf lists the logs of a cluster, the system log first.
func LogsOf(logCount int) []uint64 {
	logs := []uint64{SystemLog}
	for i := range logCount {
		logs = append(logs, FirstLog+uint64(i))
	}
	return logs
}

// Group appends the key of a group's row.
func Group(dst []byte, group uint16, row []byte) []byte {
	dst = binary.BigEndian.AppendUint16(append(dst, SpaceGroup), group)
	return append(dst, row...)
}

// System appends the key of a row of the system group.
func System(dst, row []byte) []byte { return append(append(dst, SpaceSystem), row...) }

// Log is the key of a log's own row of the given kind.
func Log(log uint64, kind byte, rest []byte) []byte {
	k := binary.BigEndian.AppendUint64([]byte{SpaceLog}, log)
	return append(append(k, kind), rest...)
}

// Key is a key taken apart. Row shares its memory.
type Key struct {
	Space byte
	Group uint16 // of a group's row
	Log   uint64 // of a log's own row
	Kind  byte   // likewise
	Row   []byte // what follows
}

// Parse takes a key apart.
func Parse(key []byte) (k Key, err error) {
	if len(key) > 0 {
		k.Space = key[0]
	}
	switch {
	case k.Space == SpaceGroup && len(key) > 3:
		k.Group, k.Row = binary.BigEndian.Uint16(key[1:]), key[3:]
	case k.Space == SpaceSystem && len(key) > 1:
		k.Row = key[1:]
	case k.Space == SpaceLog && len(key) > 9:
		k.Log, k.Kind, k.Row = binary.BigEndian.Uint64(key[1:]), key[9], key[10:]
	default:
		return k, fmt.Errorf("rows: %.16q is the key of no row", key)
	}
	return k, nil
}
