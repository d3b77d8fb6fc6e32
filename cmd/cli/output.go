package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// schemaVersion tells programs what to expect of an envelope. Fields may be added
// under one version, and never change or go.
const schemaVersion = 1

// envelope is everything pathlock says with --json.
type envelope struct {
	SchemaVersion int        `json:"schema_version"`
	OK            bool       `json:"ok"`
	Data          any        `json:"data,omitempty"`
	Error         *errorBody `json:"error,omitempty"`
}

type errorBody struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Details any    `json:"details,omitempty"`
}

// encode encodes an envelope as one line.
func encode(e *envelope) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(e); err != nil {
		panic("cli: an answer of our own does not encode: " + err.Error())
	}
	return b.Bytes()
}

// answer prints what a command found: data for programs, text for people.
func (a *app) answer(data any, text func(b *bytes.Buffer)) error {
	var b bytes.Buffer
	if a.json {
		b.Write(encode(&envelope{SchemaVersion: schemaVersion, OK: true, Data: data}))
	} else {
		text(&b)
	}
	if _, err := a.stdout.Write(b.Bytes()); err != nil {
		return fmt.Errorf("write the answer: %w", err)
	}
	return nil
}

// table is text in columns.
type table [][]string

func (t *table) add(cells ...string) { *t = append(*t, cells) }

// write appends the table, each column as wide as its widest cell.
func (t table) write(b *bytes.Buffer) {
	var widths []int
	for _, row := range t {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, row := range t {
		var line strings.Builder
		for i, cell := range row {
			line.WriteString(cell)
			line.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)+2))
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
}

// visible makes text fit for a terminal: names are chosen by others, and must not
// move the cursor.
func visible(s string) string {
	if !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) && utf8.ValidString(s) {
		return s
	}
	q := strconv.Quote(s)
	return q[1 : len(q)-1]
}

// quote makes text one word of a shell's command line.
func quote(s string) string {
	if s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("_-.:/@%+,=", r)
	}) {
		return s
	}
	return "'" + strings.ReplaceAll(visible(s), "'", `'\''`) + "'"
}

// short is a span of time in two units at most.
func short(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d < 0:
		return "0s"
	case d < time.Second:
		return fmt.Sprintf("%dms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return units(d, time.Minute, "m", time.Second, "s")
	case d < day:
		return units(d, time.Hour, "h", time.Minute, "m")
	}
	return units(d, day, "d", time.Hour, "h")
}

func units(d, large time.Duration, ofLarge string, small time.Duration, ofSmall string) string {
	s := fmt.Sprintf("%d%s", d/large, ofLarge)
	if rest := d % large / small; rest > 0 {
		s += fmt.Sprintf("%d%s", rest, ofSmall)
	}
	return s
}

// since is how long ago something was, by this machine's clock: for people only.
func since(unixMillis int64) string {
	if unixMillis <= 0 {
		return "?"
	}
	return short(time.Since(time.UnixMilli(unixMillis)))
}

// within is a span that a server counts in milliseconds.
func within(ms uint64) string { return short(time.Duration(min(ms, 1<<40)) * time.Millisecond) }

// stamp is a time as programs like it.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z07:00") }

// count is a number and what is counted.
func count(n uint64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
