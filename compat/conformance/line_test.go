package conformance_test

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

var (
	padded   = regexp.MustCompile(`<(\d+)>$`)
	repeated = regexp.MustCompile(`\{([^{}*]+)\*(\d+)\}`)
	ranged   = regexp.MustCompile(`\{(\d+)\.\.(\d+)\}`)
)

// split divides a line into words: at spaces, but not inside of JSON or backquotes.
// A word with {1..3} in it is three words.
func split(line string) []string {
	var words []string
	depth, raw, from := 0, false, -1
	end := func(i int) {
		if from >= 0 {
			words = append(words, spread(line[from:i])...)
		}
		from = -1
	}
	for i, c := range line {
		switch {
		case c == '`':
			raw = !raw
		case raw:
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			depth--
		}
		if c == ' ' && depth == 0 && !raw {
			end(i)
		} else if from < 0 {
			from = i
		}
	}
	end(len(line))
	return words
}

func spread(w string) []string {
	r := ranged.FindStringSubmatch(w)
	if r == nil {
		return []string{w}
	}
	from, _ := strconv.Atoi(r[1])
	to, _ := strconv.Atoi(r[2])
	var all []string
	for n := from; n <= to; n++ {
		all = append(all, strings.Replace(w, r[0], strconv.Itoa(n), 1))
	}
	return slices.Clip(all)
}
