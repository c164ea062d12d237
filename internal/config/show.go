package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/url"
	"reflect"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"
)

// Show writes the configuration as a file that Load reads, with the source of each
// setting in a comment. Passwords are left out. With changed, settings with their
// default are left out.
func Show(w io.Writer, c Config, from Sources, changed bool) error {
	top := &yaml.Node{Kind: yaml.MappingNode}
	sections := map[string]*yaml.Node{"": top}
	add := func(prefix string, k Key, of Config, source string) {
		value, comment := k.shown(of)
		value.LineComment = strings.ReplaceAll(source+comment, "\n", " ")
		name := prefix + k.Name
		i := strings.LastIndexByte(name, '.')
		section := sectionOf(sections, name[:max(i, 0)])
		section.Content = append(section.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: name[i+1:]}, value)
	}
	for _, k := range Keys() {
		if _, given := from[k.Name]; given || !changed {
			add("", k, c, from[k.Name].String())
		}
	}
	for _, r := range c.Realms {
		sectionOf(sections, strings.TrimSuffix(r.inRealm(""), "."))
		for _, k := range Keys() {
			if s, given := from[r.inRealm(k.Name)]; given {
				add(r.inRealm(""), k, r, s.String())
			} else if k.OfRealm && !changed {
				add(r.inRealm(""), k, r, r.inherits(k, c, from))
			}
		}
	}
	if len(top.Content) == 0 {
		_, err := io.WriteString(w, "{}\n")
		return err
	}
	var b bytes.Buffer
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := errors.Join(enc.Encode(top), enc.Close()); err != nil {
		return err
	}
	_, err := w.Write(b.Bytes())
	return err
}

// inherits describes the source of a setting that the realm c does not set itself.
func (c *Config) inherits(k Key, deployment Config, from Sources) string {
	if s, given := from[k.Name]; given && sameValue(k.value(c), k.value(&deployment)) {
		return "outside of realms: " + s.String()
	}
	return Source{}.String()
}

// sectionOf finds the node of a section such as login.upstream, or makes it.
func sectionOf(sections map[string]*yaml.Node, name string) *yaml.Node {
	if n := sections[name]; n != nil {
		return n
	}
	within, last := "", name
	if i := strings.LastIndexByte(name, '.'); i >= 0 {
		within, last = name[:i], name[i+1:]
	}
	n := &yaml.Node{Kind: yaml.MappingNode}
	parent := sectionOf(sections, within)
	parent.Content = append(parent.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: last}, n)
	sections[name] = n
	return n
}

// shown returns the key's value for a file, and a comment about it.
func (k Key) shown(c Config) (n *yaml.Node, comment string) {
	if k.isList {
		n = &yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle}
		for _, item := range k.items(&c) {
			n.Content = append(n.Content, scalar(item))
		}
		return n, ""
	}
	text := k.Text(c)
	if k.EnvFile != "" {
		text, comment = withoutPassword(text)
	} else if text == "" || k.kind == durationType && text == "0s" {
		comment = k.inForce(c)
	}
	n = scalar(text)
	if k.IsBool || k.kind.Kind() == intKind {
		n.Tag = ""
	}
	return n, comment
}

// scalar returns the node of a text. The encoder quotes the text if it would otherwise be
// read as another type.
func scalar(text string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: text}
}

// inForce returns the value that is used for an empty setting.
func (k Key) inForce(c Config) string {
	value := ""
	switch k.Name {
	case "issuer":
		if c.PublicURL != "" {
			value = c.IssuerID()
		}
	case "admin.listen":
		value = c.AdminListen()
	case "max_skew":
		if c.Skew() != 0 {
			value = Duration(c.Skew()).String()
		}
	}
	if value == "" {
		return ""
	}
	return ", which means " + value
}

// withoutPassword returns the store setting without its password.
func withoutPassword(store string) (text, comment string) {
	if store == StoreSQLite {
		return store, ""
	}
	u, err := postgresURL(store)
	if err != nil {
		return "", "; it is not shown: it cannot be used, and may hold a password"
	}
	if !hasPassword(u) {
		return store, ""
	}
	shown := *u
	if u.User != nil {
		shown.User = url.User(u.User.Username())
	}
	query := u.Query()
	query.Del("password")
	query.Del("sslpassword")
	shown.RawQuery = query.Encode()
	return shown.String(), "; its password is not shown: a file with this needs store_password_file"
}

var (
	durationType = reflect.TypeFor[Duration]()
	sizeType     = reflect.TypeFor[Size]()
)

const intKind = reflect.Int

// durationPattern matches durations as people write them. ParseDuration accepts further
// forms.
const durationPattern = `^([0-9]{1,6}d|([0-9]+(\.[0-9]+)?(ms|s|m|h))+|0)$`

const sizePattern = `^([0-9]+(KiB|MiB|GiB|TiB)|0)$`

// A schema is a node of a JSON Schema (draft 2020-12).
type schema struct {
	Dialect     string             `json:"$schema,omitempty"`
	Title       string             `json:"title,omitempty"`
	Description string             `json:"description,omitempty"`
	Type        any                `json:"type,omitempty"`
	Enum        []any              `json:"enum,omitempty"`
	Default     any                `json:"default,omitempty"`
	Pattern     string             `json:"pattern,omitempty"`
	Minimum     *int               `json:"minimum,omitempty"`
	Maximum     *int               `json:"maximum,omitempty"`
	Items       *schema            `json:"items,omitempty"`
	Properties  map[string]*schema `json:"properties,omitempty"`
	Patterns    map[string]*schema `json:"patternProperties,omitempty"`
	Additional  *bool              `json:"additionalProperties,omitempty"`
}

// Schema is the JSON Schema of the file, for editors: the names of the settings,
// what they mean, and the form of their values.
func Schema() []byte {
	top, realm, realms := section(), section(), section()
	top.Dialect, top.Title, top.Type = "https://json-schema.org/draft/2020-12/schema", "Configuration of Mintage", "object"
	for _, k := range Keys() {
		top.add(k.Name, k.schema())
		if k.OfRealm {
			own := k.schema()
			own.Default = nil // it is the deployment's value
			realm.add(k.Name, own)
		}
	}
	realms.Description, realms.Patterns = RealmsDoc, map[string]*schema{realmName().String(): realm}
	top.Properties[realmsKey] = realms
	text, err := json.MarshalIndent(top, "", "  ")
	if err != nil {
		panic(err) // it holds nothing that JSON cannot
	}
	return append(text, '\n')
}

// add adds a setting to its section: dots separate the sections in its name.
func (s *schema) add(name string, setting *schema) {
	for {
		first, rest, nested := strings.Cut(name, ".")
		if !nested {
			break
		}
		if s.Properties[first] == nil {
			s.Properties[first] = section()
		}
		s, name = s.Properties[first], rest
	}
	s.Properties[name] = setting
}

// section is an object with settings, or null if all of them are commented out.
func section() *schema {
	no := false
	return &schema{Type: []string{"object", "null"}, Properties: map[string]*schema{}, Additional: &no}
}

func (k Key) schema() *schema {
	s := &schema{Description: k.Doc, Type: "string"}
	if k.Default != "" {
		s.Default = k.Default
	}
	zero := 0
	switch {
	case k.kind == durationType:
		// 0 needs no unit, and is then a number.
		s.Type, s.Pattern, s.Minimum, s.Maximum = []string{"string", "integer"}, durationPattern, &zero, &zero
	case k.kind == sizeType:
		s.Type, s.Pattern, s.Minimum, s.Maximum = []string{"string", "integer"}, sizePattern, &zero, &zero
	case k.isList:
		// One item needs no list.
		s.Type, s.Items = []string{"array", "string"}, &schema{Type: "string"}
	case k.IsBool:
		s.Type, s.Default = "boolean", k.Default == "true"
	case k.kind.Kind() == intKind:
		s.Type, s.Minimum = "integer", &zero
		s.Default = number(k.Default)
	}
	for _, choice := range k.Choices {
		if s.Type == "integer" {
			s.Enum = append(s.Enum, number(choice))
		} else {
			s.Enum = append(s.Enum, choice)
		}
	}
	return s
}

// number is the number in a tag or a default.
func number(text string) int {
	n, _ := strconv.Atoi(text)
	return n
}

// A Listed is a setting as people see it, with its source. Passwords are left out.
type Listed struct {
	Key
	Value  string
	Source string
	Given  bool // it is not the default
}

// List returns every setting of the deployment, and those that the realms set.
func List(c Config, from Sources) (list []Listed) {
	for _, k := range Keys() {
		source, given := from[k.Name]
		text := k.Text(c)
		if k.EnvFile != "" {
			text, _ = withoutPassword(text)
		}
		list = append(list, Listed{k, text, source.String(), given})
	}
	for _, r := range c.Realms {
		for _, k := range Keys() {
			if source, given := from[r.inRealm(k.Name)]; given {
				text := k.Text(r)
				k.Name = r.inRealm(k.Name)
				list = append(list, Listed{k, text, source.String(), true})
			}
		}
	}
	return list
}
