package wire

import (
	"bytes"

	"github.com/vmihailenco/msgpack/v5"
)

// Metadata says who holds a lock, for the people who will look: it has no part
// in any rule. On the wire it is a positional array in the order of the fields.
// Encoded, it is at most MaxMetadataBytes long.
type Metadata struct {
	Host            string
	PID             int64
	StartUnixMillis int64  // when the process started
	BootID          string // which boot of the host
	Command         string
	Labels          map[string]string
}

// Encode answers m's encoding, labels in the order of their names.
func (m *Metadata) Encode() ([]byte, error) {
	var b bytes.Buffer
	enc := msgpack.NewEncoder(&b)
	enc.UseArrayEncodedStructs(true)
	enc.SetSortMapKeys(true)
	enc.UseCompactInts(true)
	if err := enc.Encode(m); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// DecodeMetadata is the inverse of Encode. Missing trailing fields are empty,
// further ones are ignored.
func DecodeMetadata(b []byte) (Metadata, error) {
	var m Metadata
	if len(b) == 0 {
		return m, nil
	}
	r := NewReader(b)
	n := r.Array()
	for i := range n {
		switch i {
		case 0:
			m.Host = string(r.Bin())
		case 1:
			m.PID = r.Int()
		case 2:
			m.StartUnixMillis = r.Int()
		case 3:
			m.BootID = string(r.Bin())
		case 4:
			m.Command = string(r.Bin())
		case 5:
			for k := r.Map(); k > 0 && r.Err() == nil; k-- {
				if m.Labels == nil {
					m.Labels = make(map[string]string)
				}
				name := string(r.Bin())
				m.Labels[name] = string(r.Bin())
			}
		default:
			r.Skip()
		}
	}
	return m, r.Err()
}
