package load

import (
	"context"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Result is what a workload measured.
type Result struct {
	Count   int64         // of pairs, hand-overs or frames, in the time measured
	Elapsed time.Duration // the time measured
	P50     time.Duration // of one
	P99     time.Duration
	P999    time.Duration // 99.9 of a hundred
	Max     time.Duration
}

// PerSecond is the rate.
func (r Result) PerSecond() float64 {
	if r.Elapsed == 0 {
		return 0
	}
	return float64(r.Count) / r.Elapsed.Seconds()
}

// pause waits, and says whether nothing ended it.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// count measures for a while how much a counter grows, and for as long again until
// it does: a rate of nothing says nothing.
func (r *Result) count(ctx context.Context, during time.Duration, counter func() int64) {
	before, began := counter(), time.Now()
	for r.Count == 0 && pause(ctx, during) {
		r.Count = counter() - before
	}
	r.Elapsed = time.Since(began)
}

// Latencies are recorded in microseconds, up to a minute, three digits of them.
const (
	highestMicros = 60_000_000
	digits        = 3
)

func newHistogram() *hdrhistogram.Histogram { return hdrhistogram.New(1, highestMicros, digits) }

// record takes note of a latency. What is out of range counts as the highest.
func record(h *hdrhistogram.Histogram, d time.Duration) {
	_ = h.RecordValue(min(max(d.Microseconds(), 1), highestMicros)) // in range: it cannot fail
}

// latencies fills in the percentiles of several histograms together.
func (r *Result) latencies(all []*hdrhistogram.Histogram) {
	total := newHistogram()
	for _, h := range all {
		total.Merge(h)
	}
	at := func(percent float64) time.Duration {
		return time.Duration(total.ValueAtPercentile(percent)) * time.Microsecond
	}
	r.P50, r.P99, r.P999, r.Max = at(50), at(99), at(99.9), time.Duration(total.Max())*time.Microsecond
}
