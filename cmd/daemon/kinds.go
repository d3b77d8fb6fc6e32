package daemon

import (
	"fmt"
	"math"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// kind is what the values of a key look like.
type kind uint8

const (
	kText   kind = iota // *string
	kAddr               // *string: host:port
	kURL                // *string: host:port, given as that or as a URL
	kBool               // *bool
	kSpan               // *time.Duration, counted in the key's unit
	kInt                // *int
	kBytes              // *uint64
	kChoice             // *string: one of the key's choices
	kList               // *[]string
)

// String names the kind for the reference.
func (k kind) String() string {
	return [...]string{"string", "address", "address", "bool", "integer", "integer", "bytes", "string",
		"list of strings"}[k]
}

// value is what somebody gave for a key.
type value struct {
	text string
	list []string // of a TOML array
	toml string   // type it has in a TOML file: "string", "integer", "bool", "array", or another; "" elsewhere
	from string   // where: a flag, a variable, a file and its line
}

// badValue is a value that breaks its key's rule.
type badValue struct {
	key  *key
	v    value
	rule string
}

func (e *badValue) Error() string {
	shown := e.v.text
	switch {
	case e.key.secret:
		shown = fmt.Sprintf("(%d bytes)", len(e.v.text))
	case e.v.toml == "array":
		shown = fmt.Sprintf("%q", e.v.list)
	case e.v.toml == "string", e.key.quoted(), shown == "":
		shown = strconv.Quote(shown)
	}
	return fmt.Sprintf("%s = %s (%s): must be %s", e.key.name, shown, e.v.from, e.rule)
}

// quoted says that the key's values are written with quotes.
func (k *key) quoted() bool {
	switch k.kind {
	case kBool, kSpan, kInt, kBytes:
		return false
	}
	return true
}

// tomlType is the type a value of the key has in a TOML file.
func (k *key) tomlType() string {
	switch k.kind {
	case kBool:
		return "bool"
	case kSpan, kInt, kBytes:
		return "integer"
	case kList:
		return "array"
	}
	return "string"
}

// assign checks a value and puts it into its field of the configuration.
func (k *key) assign(c *Config, v value) error {
	bad := &badValue{key: k, v: v, rule: k.rule()}
	if v.toml != "" && v.toml != k.tomlType() && (k.kind != kBytes || v.toml != "string") {
		if v.toml == "string" && !k.quoted() {
			bad.rule += ", without quotes"
		} else {
			bad.rule += fmt.Sprintf(" (a TOML %s)", k.tomlType())
		}
		return bad
	}
	text := strings.TrimSpace(v.text)
	ok := false
	switch p := k.field(c).(type) {
	case *string:
		*p, ok = k.parseText(text)
	case *bool:
		*p, ok = parseBool(text)
	case *int:
		var n int64
		if n, ok = k.parseInt(text); ok {
			*p = int(n)
		}
	case *time.Duration:
		var n int64
		if n, ok = k.parseInt(text); ok {
			*p = time.Duration(n) * k.unit
		}
	case *uint64:
		var n int64
		if n, ok = k.parseInt(text); ok {
			*p = uint64(n)
		}
	case *[]string:
		list := v.list
		if v.toml == "" {
			list = splitList(text)
		}
		if ok = !slices.ContainsFunc(list, func(s string) bool { return k.check != nil && !k.check(s) }); ok {
			*p = list
		}
	}
	if !ok {
		return bad
	}
	return nil
}

// off is how an interface is switched off that is on by default.
const off = "off"

func (k *key) parseText(text string) (string, bool) {
	if k.optional && (text == "" || text == off) {
		return "", true
	}
	ok := true
	switch k.kind {
	case kAddr:
		ok = isAddr(text)
	case kURL:
		text, ok = parseURL(text)
	case kChoice:
		ok = slices.Contains(k.choices, text)
	}
	return text, ok && (k.check == nil || k.check(text))
}

func parseBool(text string) (b, ok bool) {
	switch strings.ToLower(text) {
	case "true", "1", "yes", "on":
		return true, true
	case "false", "0", "no", "off":
		return false, true
	}
	return false, false
}

// byteUnits are the suffixes of a number of bytes.
var byteUnits = map[string]int64{"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}

// parseInt parses a whole number in the key's range.
func (k *key) parseInt(text string) (int64, bool) {
	times := int64(1)
	if k.kind == kBytes {
		for suffix, n := range byteUnits {
			if cut, has := strings.CutSuffix(text, suffix); has {
				text, times = strings.TrimSpace(cut), n
			}
		}
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || n > math.MaxInt64/times {
		return 0, false
	}
	n *= times
	if n < k.least || n > k.most || k.odd && n%2 == 0 {
		return 0, false
	}
	return n, true
}

// splitList splits what the environment and flags write with commas.
func splitList(text string) []string {
	var list []string
	for s := range strings.SplitSeq(text, ",") {
		if s = strings.TrimSpace(s); s != "" {
			list = append(list, s)
		}
	}
	return list
}

// isAddr says that text is host:port, where the host may be missing.
func isAddr(text string) bool {
	host, port, err := net.SplitHostPort(text)
	if err != nil || strings.ContainsAny(host, " /") {
		return false
	}
	n, err := strconv.ParseUint(port, 10, 16)
	return err == nil && strconv.FormatUint(n, 10) == port
}

// isPeerAddr says that text is host:port with a host, which is a name or an IPv4
// address: raft takes no other.
func isPeerAddr(text string) bool {
	host, _, err := net.SplitHostPort(text)
	return isAddr(text) && err == nil && host != "" && !strings.Contains(host, ":")
}

// parseURL answers the host:port of a URL, or of what is one already.
func parseURL(text string) (string, bool) {
	if strings.Contains(text, "://") {
		u, err := url.Parse(text)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Path != "" && u.Path != "/" ||
			u.RawQuery != "" || u.Fragment != "" || u.User != nil {
			return "", false
		}
		text = u.Host
	}
	return text, isPeerAddr(text)
}

// rule says what a value must be. It stands in error messages, in --help and in
// the reference.
func (k *key) rule() string {
	var s string
	switch k.kind {
	case kText:
		s = "a string"
	case kAddr:
		s = "host:port, such as 127.0.0.1:50050"
	case kURL:
		s = "http://host:port or host:port"
	case kBool:
		s = "true or false"
	case kSpan:
		s = fmt.Sprintf("a whole number of %s from %d to %d", unitName(k.unit), k.least, k.most)
	case kInt:
		s = fmt.Sprintf("a whole number from %d to %d", k.least, k.most)
	case kBytes:
		s = fmt.Sprintf("a number of bytes, %d or more, or such as 512MiB", k.least)
	case kChoice:
		s = "one of " + strings.Join(k.choices, ", ")
	case kList:
		s = "a list"
	}
	if k.odd {
		s = strings.Replace(s, "a whole number", "an odd number", 1)
	}
	if k.must != "" {
		s = k.must
	}
	if k.optional && (k.kind == kAddr || k.kind == kText) && k.def != "" {
		s += `, or "off"`
	}
	return s
}

func unitName(u time.Duration) string {
	if u == time.Second {
		return "seconds"
	}
	return "milliseconds"
}

// show is the value of the key's field as assign takes it.
func (k *key) show(c *Config) string {
	switch p := k.field(c).(type) {
	case *string:
		return *p
	case *bool:
		return strconv.FormatBool(*p)
	case *int:
		return strconv.Itoa(*p)
	case *time.Duration:
		return strconv.FormatInt(int64(*p/k.unit), 10)
	case *uint64:
		return strconv.FormatUint(*p, 10)
	case *[]string:
		return strings.Join(*p, ",")
	}
	panic("daemon: key " + k.name + " has a field of unknown type")
}
