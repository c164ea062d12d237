package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"
)

// A Key is one setting, under its three names.
type Key struct {
	Name string // in the file: tls.cert
	Env  string // MINTAGE_TLS_CERT
	Flag string // tls-cert
	Doc  string
	// Default is the text of the default, "" if there is none.
	Default string
	IsBool  bool
	isList  bool
	field   []int
}

// Keys lists every setting in the order of Config.
func Keys() []Key { return keysOf(reflect.TypeFor[Config](), reflect.ValueOf(Default()), "", nil) }

func keysOf(t reflect.Type, def reflect.Value, prefix string, path []int) (keys []Key) {
	for i := range t.NumField() {
		f := t.Field(i)
		name := prefix + f.Tag.Get("yaml")
		at := append(append([]int(nil), path...), i)
		if f.Type.Kind() == reflect.Struct {
			keys = append(keys, keysOf(f.Type, def.Field(i), name+".", at)...)
			continue
		}
		k := Key{
			Name: name, Env: "MINTAGE_" + strings.ToUpper(strings.ReplaceAll(name, ".", "_")),
			Flag: strings.NewReplacer(".", "-", "_", "-").Replace(name),
			Doc:  f.Tag.Get("doc"), IsBool: f.Type.Kind() == reflect.Bool, isList: f.Type.Kind() == reflect.Slice, field: at,
		}
		if v := def.Field(i); !v.IsZero() {
			k.Default = fmt.Sprint(v.Interface())
		}
		keys = append(keys, k)
	}
	return keys
}

// Load reads the file, if one is named, then the environment, then the flags
// (by Key.Flag). It does not Check.
func Load(file string, environ []string, flags map[string]string) (Config, error) {
	c := Default()
	all := Keys()
	if file != "" {
		if err := readFile(&c, all, file); err != nil {
			return c, err
		}
	}
	if err := readEnv(&c, all, environ); err != nil {
		return c, err
	}
	for _, k := range all {
		if text, given := flags[k.Flag]; given {
			err := k.set(&c, text)
			if err == nil && k.Name == "store" {
				err = refusePassword(text)
			}
			if err != nil {
				return c, fmt.Errorf("--%s: %w", k.Flag, err)
			}
		}
	}
	return c, nil
}

// serviceLink matches what Kubernetes puts into the environment of every pod
// beside a Service that is called mintage, or mintage-something. The value
// tells such a link from a mistake like MINTAGE_LISTEN_PORT=8443.
var serviceLink = regexp.MustCompile(`^MINTAGE_([A-Z0-9_]+_)?(` +
	`SERVICE_HOST=.*|SERVICE_PORT(_[A-Z0-9_]+)?=[0-9]+|` +
	`PORT(_[0-9]+_(TCP|UDP|SCTP))?=(tcp|udp|sctp)://.*|PORT_[0-9]+_(TCP|UDP|SCTP)_(PROTO|PORT|ADDR)=.*)$`)

func readEnv(c *Config, all []Key, environ []string) error {
	byEnv := map[string]Key{}
	for _, k := range all {
		byEnv[k.Env] = k
	}
	for _, kv := range environ {
		name, text, _ := strings.Cut(kv, "=")
		if !strings.HasPrefix(name, "MINTAGE_") {
			continue
		}
		k, known := byEnv[name]
		if !known && serviceLink.MatchString(kv) {
			continue
		}
		if !known {
			return fmt.Errorf("environment: unknown setting %s%s", name, suggest(name, all, func(k Key) string { return k.Env }))
		}
		if err := k.set(c, text); err != nil {
			return fmt.Errorf("environment: %s: %w", name, err)
		}
	}
	return nil
}

func readFile(c *Config, all []Key, file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("configuration: %w", err)
	}
	var doc, more yaml.Node
	loader, err := yaml.NewLoader(bytes.NewReader(text))
	if err == nil {
		err = loader.Load(&doc)
	}
	if errors.Is(err, io.EOF) || err == nil && len(doc.Content) == 0 {
		return nil // nothing but comments
	}
	if err == nil && !errors.Is(loader.Load(&more), io.EOF) {
		err = errors.New("more than one document")
	}
	if err != nil {
		return fmt.Errorf("configuration %s: %w", file, err)
	}
	if doc.Content[0].Tag == "!!null" {
		return nil // nothing but "---"
	}
	var faults []error
	seen := map[string]int{}
	walk(doc.Content[0], "", func(name string, n *yaml.Node) {
		fault := func(line int, format string, args ...any) {
			faults = append(faults, fmt.Errorf("%s:%d: %s", file, line, fmt.Sprintf(format, args...)))
		}
		var found *Key
		for i := range all {
			if all[i].Name == name {
				found = &all[i]
			}
		}
		if n.Kind == yaml.ScalarNode && n.Tag == "!!null" && (found != nil || isSection(all, name)) {
			return // nothing is set, as where all that is below is commented out
		}
		if found == nil {
			fault(n.Line, "unknown setting %q%s", name, suggest(name, all, func(k Key) string { return k.Name }))
			return
		}
		if first := seen[name]; first != 0 {
			fault(n.Line, "%s: set before, in line %d", name, first)
			return
		}
		seen[name] = n.Line
		value := n.Value
		switch n.Kind {
		case yaml.SequenceNode:
			var list []string
			for _, item := range n.Content {
				if !found.isList || item.Kind != yaml.ScalarNode {
					fault(n.Line, "%s: %s is expected", name, found.form())
					return
				}
				list = append(list, item.Value)
			}
			value = strings.Join(list, ",")
		case yaml.ScalarNode:
		default:
			fault(n.Line, "%s: %s is expected", name, found.form())
			return
		}
		if err := found.set(c, value); err != nil {
			fault(n.Line, "%s: %v", name, err)
		}
	})
	return errors.Join(faults...)
}

func isSection(all []Key, name string) bool {
	return slices.ContainsFunc(all, func(k Key) bool { return strings.HasPrefix(k.Name, name+".") })
}

// walk calls f for every setting below n, with its dotted name.
func walk(n *yaml.Node, prefix string, f func(name string, n *yaml.Node)) {
	if n.Kind != yaml.MappingNode {
		f(strings.TrimSuffix(prefix, "."), n)
		return
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if value.Kind == yaml.MappingNode {
			walk(value, prefix+key.Value+".", f)
			continue
		}
		value.Line = key.Line
		f(prefix+key.Value, value)
	}
}

// form says what may stand in the file.
func (k Key) form() string {
	if k.isList {
		return "a single value, or a list of them,"
	}
	return "a single value"
}

// set parses text into the key's field. Lists are separated by commas.
func (k Key) set(c *Config, text string) error {
	field := reflect.ValueOf(c).Elem().FieldByIndex(k.field)
	switch p := field.Addr().Interface().(type) {
	case *string:
		*p = text
	case *bool:
		v, err := strconv.ParseBool(text)
		if err != nil {
			return fmt.Errorf("%q is neither true nor false", text)
		}
		*p = v
	case *int:
		v, err := strconv.Atoi(text)
		if err != nil {
			return fmt.Errorf("%q is not a whole number", text)
		}
		*p = v
	case *Duration:
		v, err := ParseDuration(text)
		if err != nil {
			return err
		}
		*p = v
	case *[]string:
		*p = list(text)
	case *[]netip.Prefix:
		*p = nil
		for _, item := range list(text) {
			v, err := netip.ParsePrefix(item)
			if a, aerr := netip.ParseAddr(item); aerr == nil {
				v, err = netip.PrefixFrom(a, a.BitLen()), nil
			}
			if err != nil {
				return fmt.Errorf("%q is not a network such as 10.0.0.0/8", item)
			}
			*p = append(*p, v.Masked())
		}
	default:
		panic("config: no parser for " + k.Name)
	}
	return nil
}

func list(text string) (items []string) {
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item != "" {
			items = append(items, item)
		}
	}
	return items
}

// suggest names the known setting that is most like an unknown one.
func suggest(name string, all []Key, of func(Key) string) string {
	best, least := "", 1+len(name)/3
	for _, k := range all {
		if d := distance(name, of(k)); d < least {
			best, least = of(k), d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf(" (did you mean %s?)", best)
}

// distance is the number of characters to insert, delete or replace.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		corner := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := corner
			if a[i] != b[j] {
				cost++
			}
			corner = row[j+1]
			row[j+1] = min(cost, row[j]+1, corner+1)
		}
	}
	return row[len(b)]
}
