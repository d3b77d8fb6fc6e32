package conformance_test

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestOvertaken: a run is overtaken when something ends that it did not wait for. A wait is for what is shortest.
func TestOvertaken(t *testing.T) {
	type at struct {
		after time.Duration
		ttl   int64 // milliseconds; 0: it is a step
		waits bool
	}
	six, brief := at{ttl: 6000}, at{ttl: 50}
	for name, c := range map[string]struct {
		steps     []at
		overtaken bool
	}{
		"in time":                         {[]at{{ttl: 4000}, {after: time.Second}}, false},
		"it is over before the next step": {[]at{{ttl: 4000}, {after: 5 * time.Second}}, true},
		"it waits for that":               {[]at{{ttl: 4000}, {after: 5 * time.Second, waits: true}, {}}, false},
		"it waits for a shorter one":      {[]at{six, brief, {after: time.Second, waits: true}, {}}, false},
		"it waited for a shorter one alone": {[]at{six, brief, {after: time.Second, waits: true},
			{after: 6 * time.Second}}, true},
		"over while it waits for another": {[]at{six, brief, {after: 7 * time.Second, waits: true}}, true},
		"there to end":                    {[]at{{ttl: 999}, {after: 2 * time.Second}}, false},
		"for the length of the test":      {[]at{{ttl: 24 * 3_600_000}, {after: 20 * time.Second}}, false},
		"a step that takes too long":      {[]at{{after: 31 * time.Second}}, true},
		"a wait that takes long":          {[]at{{after: 31 * time.Second, waits: true}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var l lifetimes
				for _, s := range c.steps {
					if s.ttl > 0 {
						l.asked(message{"ttl_ms": s.ttl})
					}
					began := time.Now()
					time.Sleep(s.after)
					l.step(&step{eventually: s.waits}, began)
				}
				if l.overtaken != c.overtaken {
					t.Errorf("overtaken: %v, want %v", l.overtaken, c.overtaken)
				}
			})
		})
	}
}
