package daemon

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"

	"github.com/pathlockd/pathlockd/internal/near"
)

// takeFile takes the keys of a TOML file: flat, one a line. Errors name the line.
func (c *Config) takeFile(name string, text []byte) (errs []error) {
	var decoded map[string]any
	if err := toml.Unmarshal(text, &decoded); err != nil {
		var at *toml.DecodeError
		if errors.As(err, &at) {
			row, column := at.Position()
			return []error{fmt.Errorf("%s:%d:%d: %s", name, row, column, strings.TrimPrefix(at.Error(), "toml: "))}
		}
		return []error{fmt.Errorf("read %s: %w", name, err)}
	}
	for _, e := range fileKeys(text) {
		from := fmt.Sprintf("%s:%d", name, e.line)
		switch k := keyNamed(e.name); {
		case tunedOthers(e.first) && keyNamed(e.first) == nil:
			c.ignored = append(c.ignored, e.first)
		case e.table:
			errs = append(errs, fmt.Errorf("%s: [%s]: there are no tables in this file, keys stand at its top",
				from, e.name))
		case e.within:
			// Its table was refused.
		case k == nil:
			errs = append(errs, unknownKey(e.name, from))
		default:
			v, err := tomlValue(decoded[e.name])
			if err != nil {
				errs = append(errs, fmt.Errorf("%s: %s: %w", from, e.name, err))
				continue
			}
			v.from = from
			errs = append(errs, c.take(e.name, v))
		}
	}
	return errs
}

func unknownKey(name, from string) error {
	if meant := near.Name(name, keyNames()); meant != "" {
		return fmt.Errorf("%s: %s is no configuration key: did you mean %s?", from, name, meant)
	}
	return fmt.Errorf("%s: %s is no configuration key (pathlockd --help lists them)", from, name)
}

// fileKey is a key or the head of a table in a file.
type fileKey struct {
	name   string // dotted, as it stands there
	first  string // its first part, or that of the table it stands in
	line   int
	table  bool // it is the head of a table
	within bool // it stands below one
}

// fileKeys lists what a valid file names, with lines: decoding alone does not tell
// them.
func fileKeys(text []byte) (list []fileKey) {
	var p unstable.Parser
	p.Reset(text)
	table := ""
	for p.NextExpression() {
		e := p.Expression()
		if e.Kind != unstable.KeyValue && e.Kind != unstable.Table && e.Kind != unstable.ArrayTable {
			continue
		}
		var parts []string
		line := 0
		for it := e.Key(); it.Next(); {
			n := it.Node()
			if line == 0 {
				line = p.Shape(n.Raw).Start.Line
			}
			parts = append(parts, string(n.Data))
		}
		k := fileKey{name: strings.Join(parts, "."), first: parts[0], line: line}
		if e.Kind == unstable.KeyValue {
			if table != "" {
				k.first, k.within = table, true
			}
		} else {
			k.table, table = true, k.first
		}
		list = append(list, k)
	}
	return list
}

// tomlValue is a decoded value as the keys take it.
func tomlValue(decoded any) (value, error) {
	switch d := decoded.(type) {
	case string:
		return value{text: d, toml: "string"}, nil
	case int64:
		return value{text: strconv.FormatInt(d, 10), toml: "integer"}, nil
	case bool:
		return value{text: strconv.FormatBool(d), toml: "bool"}, nil
	case float64:
		return value{text: strconv.FormatFloat(d, 'g', -1, 64), toml: "float"}, nil
	case []any:
		v := value{toml: "array"}
		for _, item := range d {
			s, ok := item.(string)
			if !ok {
				return v, fmt.Errorf("must be a list of strings, and %v is none", item)
			}
			v.list = append(v.list, s)
		}
		return v, nil
	}
	return value{text: fmt.Sprint(decoded), toml: "value"}, nil
}
