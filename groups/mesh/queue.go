package mesh

import "time"

const (
	// recordBytes is what TLS encrypts and writes at once.
	recordBytes = 16 << 10
	// spareRecords is how many empty records a connection keeps.
	spareRecords = 16
)

// record is a piece of what a connection sends.
type record struct {
	b  []byte    // room for recordBytes
	at time.Time // not to be sent before, with what is behind it; zero except for Faults
}

// queue is what a connection has not sent. The connection's lock guards it.
type queue struct {
	records []record
	head    int // of records: those before it were taken
	spare   [][]byte
	unsent  int // bytes, with those of the record that was taken last
}

// add appends bytes.
func (q *queue) add(b []byte) {
	q.unsent += len(b)
	for len(b) > 0 {
		last := len(q.records) - 1
		if last < q.head || len(q.records[last].b) == cap(q.records[last].b) {
			q.begin()
			continue
		}
		r := &q.records[last]
		n := min(len(b), cap(r.b)-len(r.b))
		r.b = append(r.b, b[:n]...)
		b = b[n:]
	}
}

// begin starts a record.
func (q *queue) begin() {
	var b []byte
	if n := len(q.spare); n > 0 {
		b, q.spare = q.spare[n-1], q.spare[:n-1]
	} else {
		b = make([]byte, 0, recordBytes)
	}
	q.records = append(q.records, record{b: b})
}

// hold starts a record that is not sent before a time. It has room for what is held
// only, so that many small ones cost what they are.
func (q *queue) hold(bytes int, at time.Time) {
	q.records = append(q.records, record{b: make([]byte, 0, min(bytes, recordBytes)), at: at})
}

// take takes the first record out; false if there is none. The one that was taken
// before comes back.
func (q *queue) take(done record) (record, bool) {
	q.unsent -= len(done.b)
	if cap(done.b) == recordBytes && len(q.spare) < spareRecords {
		q.spare = append(q.spare, done.b[:0])
	}
	if q.head == len(q.records) {
		// The list of a backlog does not stay when that is gone.
		if q.head = 0; cap(q.records) > spareRecords*2 {
			q.records = nil
		}
		q.records = q.records[:0]
		return record{}, false
	}
	r := q.records[q.head]
	q.records[q.head] = record{}
	if q.head++; q.head > spareRecords && 2*q.head > len(q.records) {
		n := copy(q.records, q.records[q.head:])
		clear(q.records[n:])
		q.records, q.head = q.records[:n], 0
	}
	return r, true
}
