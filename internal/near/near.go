// Package near finds what was likely meant by a name that there is not: of a key, a command or a field.
package near

import "strings"

// longest is the length of a name that anybody compares, in bytes.
const longest = 64

// Name answers the known name that is likely meant, "" when none is near. What it costs grows with
// the length of the names, so one of over 64 bytes is near to none.
func Name(name string, known []string) string {
	if len(name) > longest {
		return ""
	}
	best, least := "", 1+max(len(name), 6)/3
	for _, k := range known {
		if d := distance(name, k); d < least {
			best, least = k, d
		}
	}
	if best == "" && len(name) >= 4 {
		for _, k := range known {
			if strings.HasPrefix(k, name) || strings.HasSuffix(k, "_"+name) {
				return k
			}
		}
	}
	return best
}

// distance is how many letters must be changed, put in or left out to make b of a.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}
