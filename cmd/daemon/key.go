package daemon

import (
	"slices"
	"strings"
	"time"
)

// key is one row of the table of configuration keys.
type key struct {
	name     string
	section  string
	kind     kind
	def      string              // the default, as the environment would give it
	field    func(c *Config) any // where it goes: a pointer whose type fits the kind
	help     string              // one line
	unit     time.Duration       // of a kSpan
	least    int64               // of a number
	most     int64               // of a number
	odd      bool                // of a number
	choices  []string            // of a kChoice
	check    func(string) bool   // a further rule, or one for each of a list
	must     string              // says the whole rule, where the kind does not
	secret   bool                // is not shown
	optional bool                // "" and "off" switch it off

	// state says whether the key does something in this build.
	state state
	why   string // for ignored: what has no meaning
}

// state is what this build does with a key.
type state uint8

const (
	// served keys do what they say.
	served state = iota
	// ignored keys tuned other software; they have no meaning here. All of them
	// together are warned about in one line.
	ignored
)

// keyNamed answers the row of a key, nil when there is none.
func keyNamed(name string) *key {
	i := slices.IndexFunc(keys, func(k key) bool { return k.name == name })
	if i < 0 {
		return nil
	}
	return &keys[i]
}

// tunedOthers says that a name, which is no row of the table, is a key of files
// written for other software: it is accepted and has no meaning.
func tunedOthers(name string) bool {
	for _, prefix := range []string{"rocksdb_", "gossip_", "group_gc_"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return name == "peers" || name == "gc_compact_interval_secs"
}

// variable is the environment variable of a key.
func (k *key) variable() string { return envPrefix + strings.ToUpper(k.name) }

// keyNames lists every key, in the order of the table.
func keyNames() []string {
	names := make([]string, len(keys))
	for i := range keys {
		names[i] = keys[i].name
	}
	return names
}
