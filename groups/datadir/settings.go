package datadir

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/pathlockd/pathlockd/wire"
)

// Settings are those that are fixed when a cluster is founded. Nodes that join take them over.
type Settings struct {
	GroupCount  int    `json:"group_count"`
	LogCount    int    `json:"log_count"`
	Segments    int    `json:"routing_prefix_segments"`
	Algorithm   string `json:"default_lock_algorithm"`
	Replication int    `json:"replication_factor"`
}

// settingKeys are their configuration keys.
var settingKeys = [...]string{"group_count", "log_count", "routing_prefix_segments", "default_lock_algorithm",
	"replication_factor"}

// values are the settings in the order of their keys.
func (s *Settings) values() [len(settingKeys)]string {
	return [...]string{
		strconv.Itoa(s.GroupCount), strconv.Itoa(s.LogCount), strconv.Itoa(s.Segments), s.Algorithm,
		strconv.Itoa(s.Replication),
	}
}

// Told returns the settings by their keys, as nodes tell them to each other.
func (s *Settings) Told() map[string]string {
	told := make(map[string]string, len(settingKeys))
	for i, v := range s.values() {
		told[settingKeys[i]] = v
	}
	return told
}

// settingsOf reads what another node told.
func settingsOf(told map[string]string) (s Settings, err error) {
	s.Algorithm = told["default_lock_algorithm"]
	for _, n := range []struct {
		key string
		to  *int
	}{
		{"group_count", &s.GroupCount}, {"log_count", &s.LogCount}, {"routing_prefix_segments", &s.Segments},
		{"replication_factor", &s.Replication},
	} {
		if *n.to, err = strconv.Atoi(told[n.key]); err != nil || *n.to < 0 || *n.to > 1<<16 {
			return s, fmt.Errorf("%s = %q, which is no number of a cluster", n.key, told[n.key])
		}
	}
	if _, ok := wire.ParseAlgorithm(s.Algorithm); !ok || s.GroupCount == 0 || s.LogCount == 0 {
		return s, errors.New("settings that are none of a cluster")
	}
	return s, nil
}
