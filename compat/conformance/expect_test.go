package conformance_test

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Fields that no expectation need name: their values differ from run to run. The
// times of a lock that is listed must be there all the same.
var unnamed = map[string]bool{"cursor": true, "since_unix_ms": true, "expires_in_ms": true}

// compare says how an answer differs from what is expected of it. What variables
// stand for is noted in vars, those that stand for something already are compared.
func compare(at string, want, got any, vars map[string]any) []string {
	switch want := want.(type) {
	case variable:
		return bind(at, string(want), got, vars)
	case anything:
		if got == nil {
			return []string{at + ": is missing"}
		}
		return nil
	case count:
		if list, _ := got.([]any); len(list) != int(want) {
			return []string{fmt.Sprintf("%s: has %d elements, want %d", at, len(list), want)}
		}
		return nil
	case message:
		g, ok := got.(message)
		if !ok {
			return []string{fmt.Sprintf("%s: is %v, want %v", at, got, want)}
		}
		return compareFields(at, want, g, vars)
	case []any:
		g, _ := got.([]any)
		if len(g) != len(want) {
			return []string{fmt.Sprintf("%s: has %d elements %s, want %d", at, len(g), show(got), len(want))}
		}
		var diffs []string
		for i := range want {
			diffs = append(diffs, compare(fmt.Sprintf("%s[%d]", at, i), want[i], g[i], vars)...)
		}
		return diffs
	}
	if want != got {
		return []string{fmt.Sprintf("%s: is %v, want %v", at, show(got), show(want))}
	}
	return nil
}

func compareFields(at string, want, got message, vars map[string]any) []string {
	var diffs []string
	for _, name := range slices.Sorted(maps.Keys(want)) {
		v, there := got[name]
		if !there && isDefault(want[name]) {
			continue
		}
		diffs = append(diffs, compare(at+"."+name, want[name], v, vars)...)
		if to, ok := want[name].(variable); ok && name == "fencing_token" && len(diffs) == 0 {
			diffs = append(diffs, inOrder(at, got["namespace"], string(to), v, vars)...)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(got)) {
		if _, named := want[name]; !named && !unnamed[name] {
			diffs = append(diffs, fmt.Sprintf("%s.%s: is %v, want its default", at, name, show(got[name])))
		}
	}
	if _, timed := got["since_unix_ms"]; got["expires_in_ms"] != nil && !timed {
		diffs = append(diffs, at+".since_unix_ms: is missing")
	}
	return diffs
}

func isDefault(v any) bool {
	switch v := v.(type) {
	case string:
		return v == "" || slices.Contains(zeroNames, v)
	case int64:
		return v == 0
	case bool:
		return !v
	}
	return false
}

// zeroNames are the names of the enums' zero values, as scenarios write them.
var zeroNames = func() (all []string) {
	for i := range file.Enums().Len() {
		e := file.Enums().Get(i)
		all = append(all, enumName(e, 0))
	}
	return all
}()

func show(v any) string {
	if v == nil {
		return "its default"
	}
	s, ok := v.(string)
	if ok {
		s = strconv.Quote(s)
	} else {
		s = fmt.Sprint(v)
	}
	if len(s) > 500 {
		s = s[:500] + "…"
	}
	return s
}

// bind notes what a variable stands for; $name+1 stands for what is known already.
func bind(at, name string, got any, vars map[string]any) []string {
	if got == nil {
		return []string{fmt.Sprintf("%s: is its default, want $%s", at, name)}
	}
	if base, plus, sum := strings.Cut(name, "+"); sum {
		v, _ := vars[base].(int64)
		n, err := strconv.ParseInt(plus, 10, 64)
		if err != nil || got != v+n {
			return []string{fmt.Sprintf("%s: is %v, want $%s, which is %d", at, show(got), name, v+n)}
		}
		return nil
	}
	if v, set := vars[name]; set {
		if v != got {
			return []string{fmt.Sprintf("%s: is %v, want $%s, which is %v", at, show(got), name, show(v))}
		}
		return nil
	}
	vars[name] = got
	return nil
}

// holds says whether "$a > $b" or "$a = $b" is so.
func holds(relation string, vars map[string]any) (bool, error) {
	w := strings.Fields(relation)
	if len(w) != 3 {
		return false, fmt.Errorf("%q: want $a > $b", relation)
	}
	side := func(t string) (int64, error) {
		name, isVar := strings.CutPrefix(t, "$")
		if !isVar {
			return strconv.ParseInt(t, 10, 64)
		}
		base, plus, _ := strings.Cut(name, "+")
		more, _ := strconv.ParseInt(plus, 10, 64)
		v, ok := vars[base].(int64)
		if !ok {
			return 0, fmt.Errorf("$%s is no number", base)
		}
		return v + more, nil
	}
	a, err := side(w[0])
	if err != nil {
		return false, err
	}
	b, err := side(w[2])
	if err != nil {
		return false, err
	}
	switch w[1] {
	case ">":
		return a > b, nil
	case "=":
		return a == b, nil
	}
	return false, fmt.Errorf("%q: no relation %s", relation, w[1])
}

// minted is a variable that stands for a token, by the namespace it was answered in.
type minted struct {
	namespace any
	number    int
}

// inOrder notes a token. Tokens whose variables have numbers for names were minted in
// that order: in a namespace one with a higher number stands for a higher token.
func inOrder(at string, namespace any, name string, got any, vars map[string]any) []string {
	number, err := strconv.Atoi(name)
	token, isInt := got.(int64)
	if err != nil || !isInt {
		return nil
	}
	tokens, _ := vars["minted"].(map[minted]int64)
	tokens = maps.Clone(tokens)
	if tokens == nil {
		tokens = make(map[minted]int64)
	}
	for m, t := range tokens {
		if m.namespace == namespace && m.number != number && (m.number < number) != (t < token) {
			return []string{fmt.Sprintf("%s.fencing_token: $%d is %d, but $%d is %d", at, number, token, m.number, t)}
		}
	}
	tokens[minted{namespace, number}] = token
	vars["minted"] = tokens
	return nil
}
