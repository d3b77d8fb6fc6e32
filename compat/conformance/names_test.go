package conformance_test

import "strings"

// names keeps the scenarios of one node apart: what a scenario calls A is somebody
// else in each of its runs. Scenarios are written with the short names; requests and
// expectations get a prefix, by what their fields mean.
type names struct{ prefix string }

// prefixed are the fields whose text is a name: of an owner, of what lies in a
// handler, and of a key.
var prefixed = map[string]bool{
	"owner_id": true, "victim_id": true, "start_owner_id": true, "conflict_owner": true,
	"owner": true, "write_owner": true, "read_owners": true, "semaphore_owners": true, "chain": true,
	"path": true, "conflict_path": true, "paths": true, "namespace": true, "domains": true, "prefix": true,
	"idempotency_key": true,
}

// of gives a field's text its prefix. What stands between backquotes is meant as it
// is, and what is empty stays so.
func (n names) of(field, text string) string {
	if inner, raw := strings.CutPrefix(text, "`"); raw {
		return strings.TrimSuffix(inner, "`")
	}
	if text == "" || !prefixed[field] {
		return text
	}
	return n.prefix + text
}

// plain takes the prefix out of a message for people.
func (n names) plain(text string) string { return strings.ReplaceAll(text, n.prefix, "") }
