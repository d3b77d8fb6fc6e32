package cli

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// span is a flag that takes a span of time.
type span struct {
	d           *time.Duration
	least, most time.Duration
}

// maxSpan is the longest lease and the longest wait that servers take.
const maxSpan = wire.MaxTTLMillis * time.Millisecond

// Set implements pflag.Value.
func (s *span) Set(text string) error {
	d, err := parseSpan(text)
	if err != nil || d < s.least || d > s.most {
		return fmt.Errorf("must be a time such as 30s, 5m or 1h30m, from %s to %s", short(s.least), short(s.most))
	}
	*s.d = d
	return nil
}

// String implements pflag.Value.
func (s *span) String() string {
	if s.d == nil {
		return ""
	}
	return short(*s.d)
}

// Type implements pflag.Value.
func (s *span) Type() string { return "duration" }

// parseSpan is time.ParseDuration that knows days.
func parseSpan(text string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		n, err := strconv.ParseUint(days, 10, 16)
		return time.Duration(n) * 24 * time.Hour, err
	}
	return time.ParseDuration(text)
}

// exact is a span of time as a flag takes it.
func exact(d time.Duration) string {
	s := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(s, zero) {
			s = s[:len(s)-len("0s")]
		}
	}
	return s
}

// forever is --wait without a limit.
const forever = "forever"

// patience is the flag --wait.
type patience struct{ d *time.Duration }

// Set implements pflag.Value.
func (p *patience) Set(text string) error {
	if text == forever {
		*p.d = maxSpan
		return nil
	}
	d, err := parseSpan(text)
	if err != nil || d < 0 || d > maxSpan {
		return fmt.Errorf("must be a time such as 30s, 5m or 1h30m, at most %s, or forever", short(maxSpan))
	}
	*p.d = d
	return nil
}

// String implements pflag.Value.
func (p *patience) String() string {
	if p.d == nil {
		return ""
	}
	return waitText(*p.d)
}

// Type implements pflag.Value.
func (p *patience) Type() string { return "duration" }

// waitText is a time to wait in words.
func waitText(d time.Duration) string {
	if d == maxSpan {
		return forever
	}
	return short(d)
}

// number is a flag that takes a whole number in a range.
type number[T int64 | uint32] struct {
	n           *T
	least, most T
	is          string // what the number is
}

// Set implements pflag.Value.
func (v *number[T]) Set(text string) error {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < int64(v.least) || n > int64(v.most) {
		return fmt.Errorf("must be %s, a whole number from %d to %d", v.is, v.least, v.most)
	}
	*v.n = T(n)
	return nil
}

// String implements pflag.Value.
func (v *number[T]) String() string {
	if v.n == nil || *v.n == 0 {
		return ""
	}
	return strconv.FormatInt(int64(*v.n), 10)
}

// Type implements pflag.Value.
func (v *number[T]) Type() string { return "number" }

// labels is a flag that takes KEY=VALUE, and may be repeated.
type labels map[string]string

// Set implements pflag.Value.
func (l labels) Set(text string) error {
	key, value, ok := strings.Cut(text, "=")
	if !ok || key == "" {
		return fmt.Errorf("must be KEY=VALUE, such as job=nightly")
	}
	l[key] = value
	return nil
}

// String implements pflag.Value.
func (l labels) String() string { return "" }

// Type implements pflag.Value.
func (l labels) Type() string { return "label" }
