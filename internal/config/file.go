package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
)

const (
	// maxFile is far more than every setting needs.
	maxFile = 1 << 20
	// maxFaults limits the faults of a file that are reported.
	maxFaults = 50
)

// readText reads the file, which must be UTF-8 text.
func readText(file string) ([]byte, error) {
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrPermission) {
		return nil, fmt.Errorf("configuration: %w: run this as the server's user, who must be able to read it", err)
	}
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	if len(text) > maxFile {
		return nil, fmt.Errorf("configuration %s: it is larger than 1 MiB, which no configuration is: is another file meant?", file)
	}
	// Some editors write a byte order mark.
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	for i, line := range bytes.Split(text, []byte("\n")) {
		if !utf8.Valid(line) {
			return nil, fmt.Errorf("configuration %s: line %d: this is not UTF-8 text: save it as UTF-8", file, i+1)
		}
	}
	return text, nil
}

// parse returns the top of the only document in text, or nil if there is
// nothing in it.
func parse(text []byte) (*yaml.Node, error) {
	var doc, more yaml.Node
	loader, err := yaml.NewLoader(bytes.NewReader(text))
	if err == nil {
		err = loader.Load(&doc)
	}
	if errors.Is(err, io.EOF) || err == nil && len(doc.Content) == 0 {
		return nil, nil // nothing but comments
	}
	if err == nil && !errors.Is(loader.Load(&more), io.EOF) {
		err = errors.New("more than one document")
	}
	if err != nil {
		return nil, err
	}
	if doc.Content[0].Tag == "!!null" {
		return nil, nil // nothing but "---"
	}
	return doc.Content[0], nil
}

// inPlainWords adds the line to the error of a text that is not YAML, and replaces the
// message if the cause is a tab.
func inPlainWords(err error, text []byte) error {
	var at *yaml.LoadError
	if !errors.As(err, &at) {
		return err
	}
	if at.Mark.Line == 0 {
		return fmt.Errorf("this is not YAML: %s", at.Message)
	}
	lines := bytes.Split(text, []byte("\n"))
	if line := at.Mark.Line; line <= len(lines) {
		begin := lines[line-1]
		begin = begin[:len(begin)-len(bytes.TrimLeft(begin, " \t"))]
		if bytes.ContainsRune(begin, '\t') {
			return fmt.Errorf("line %d: indented with a tab, which YAML does not allow: use spaces", line)
		}
	}
	return fmt.Errorf("line %d: this is not YAML: %s", at.Mark.Line, at.Message)
}

// A fileReader reads the settings of one file, or those of one realm in the file.
type fileReader struct {
	file   string
	all    []Key
	into   *Config
	within string // "realms.NAME." of a realm, before the names of its settings
	from   Sources
	begun  map[string]int // line of each section
	realms []realmSection
	faults []error
}

// A realmSection is the section of a realm in the file.
type realmSection struct {
	name string
	line int
	node *yaml.Node // a mapping, or a null scalar if the section is empty
}

// readFile reads the settings of the deployment into c. It returns the sections of the
// realms, which loader.readRealms reads when c is complete.
func readFile(c *Config, all []Key, from Sources, file string) ([]realmSection, []error) {
	text, err := readText(file)
	if err != nil {
		return nil, []error{err}
	}
	top, err := parse(text)
	if err != nil {
		return nil, []error{fmt.Errorf("configuration %s: %w", file, inPlainWords(err, text))}
	}
	r := fileReader{file: file, all: all, into: c, from: from, begun: map[string]int{}}
	switch {
	case top == nil:
	case top.Kind != yaml.MappingNode:
		r.fault("", top.Line, "settings are expected, each as NAME: VALUE in a line of its own, not %s", kindName(top))
	default:
		r.walk(top, "")
	}
	return r.realms, r.faults
}

// readRealms collects the section of each realm.
func (r *fileReader) readRealms(line int, n *yaml.Node) {
	switch {
	case n.Kind == yaml.ScalarNode && n.Tag == "!!null":
		return
	case n.Kind != yaml.MappingNode:
		r.fault(realmsKey, line, "realms are expected, each as NAME: with its settings below it, not %s", kindName(n))
		return
	case r.begun[realmsKey] != 0:
		r.fault(realmsKey, line, "set before, in line %d", r.begun[realmsKey])
		return
	}
	r.begun[realmsKey] = line
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		name := realmsKey + "." + key.Value
		switch empty := value.Kind == yaml.ScalarNode && value.Tag == "!!null"; {
		case key.Kind != yaml.ScalarNode:
			r.fault("", key.Line, "the name of a realm is expected")
		case r.begun[name] != 0:
			r.fault(name, key.Line, "set before, in line %d", r.begun[name])
		case !empty && value.Kind != yaml.MappingNode:
			r.fault(name, key.Line, "the settings of the realm are expected, indented below it, not %s", kindName(value))
		default:
			r.begun[name] = key.Line
			r.realms = append(r.realms, realmSection{key.Value, key.Line, value})
		}
	}
}

// kindName names the kind of a node that cannot hold settings.
func kindName(n *yaml.Node) string {
	switch n.Kind {
	case yaml.SequenceNode:
		return "a list"
	case yaml.AliasNode:
		return "an alias"
	}
	return "a single value"
}

func (r *fileReader) fault(name string, line int, format string, args ...any) {
	if name != "" {
		name = r.within + name
	}
	r.faults = append(r.faults, &Fault{name, Source{File: r.file, Line: line}, fmt.Errorf(format, args...)})
}

// walk reads every setting below n. Prefix is the name of n with a dot.
func (r *fileReader) walk(n *yaml.Node, prefix string) {
	if n.Kind != yaml.MappingNode {
		r.take(strings.TrimSuffix(prefix, "."), n)
		return
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		name := prefix + key.Value
		switch {
		case key.Kind != yaml.ScalarNode:
			r.fault("", key.Line, "the name of a setting is expected")
		case key.Value == "<<":
			r.fault("", key.Line, "merge keys (<<) are not understood: write the settings themselves")
		case name == realmsKey && r.within == "":
			r.readRealms(key.Line, value)
		case value.Kind == yaml.MappingNode && !r.isSection(name):
			r.unknown(name, key.Line, value)
		case value.Kind == yaml.MappingNode && r.begun[name] != 0:
			r.fault(name, key.Line, "set before, in line %d", r.begun[name])
		case value.Kind == yaml.MappingNode:
			r.begun[name] = key.Line
			r.walk(value, name+".")
		default:
			value.Line = key.Line
			r.take(name, value)
		}
	}
}

// unknown reports an unknown section. It names the settings in the section, by which the
// operator recognises it.
func (r *fileReader) unknown(name string, line int, section *yaml.Node) {
	if len(section.Content) == 0 {
		if k := r.find(name); k != nil {
			r.fault(name, line, "%s is expected", k.form())
		} else {
			r.unknownSetting(name, line)
		}
	}
	for i := 0; i+1 < len(section.Content); i += 2 {
		below := name + "." + section.Content[i].Value
		r.unknownSetting(below, section.Content[i].Line)
	}
}

// unknownSetting reports a setting that does not exist, or that no realm can have.
func (r *fileReader) unknownSetting(name string, line int) {
	if k := findKey(Keys(), name); r.within != "" && k != nil {
		r.fault(name, line, "is a setting of the whole deployment: no realm has one of its own")
		return
	}
	r.fault("", line, "unknown setting %s%s", quoted(r.within+name), suggest(name, r.all, nameOf))
}

func nameOf(k Key) string { return k.Name }

func (r *fileReader) find(name string) *Key { return findKey(r.all, name) }

func findKey(keys []Key, name string) *Key {
	if i := slices.IndexFunc(keys, func(k Key) bool { return k.Name == name }); i >= 0 {
		return &keys[i]
	}
	return nil
}

func (r *fileReader) isSection(name string) bool {
	return slices.ContainsFunc(r.all, func(k Key) bool { return strings.HasPrefix(k.Name, name+".") })
}

// take sets one setting.
func (r *fileReader) take(name string, n *yaml.Node) {
	found := r.find(name)
	if n.Kind == yaml.ScalarNode && n.Tag == "!!null" && (found != nil || r.isSection(name)) {
		return // nothing is set, for example because everything below it is commented out
	}
	if found == nil {
		if r.isSection(name) {
			r.fault("", n.Line, "%s is a section: the settings in it are expected, indented below it", r.within+name)
			return
		}
		r.unknownSetting(name, n.Line)
		return
	}
	if first, given := r.from[r.within+name]; given {
		r.fault(name, n.Line, "set before, in line %d", first.Line)
		return
	}
	r.from[r.within+name] = Source{File: r.file, Line: n.Line}
	items := []*yaml.Node{n}
	if n.Kind == yaml.SequenceNode && found.isList {
		items = n.Content
	}
	var texts []string
	for _, item := range items {
		switch {
		case item.Kind == yaml.AliasNode:
			r.fault(name, n.Line, "%s is expected, not an alias (*%s)", found.form(), item.Value)
			return
		case item.Kind != yaml.ScalarNode:
			r.fault(name, n.Line, "%s is expected", found.form())
			return
		case item.Style&yaml.TaggedStyle != 0 && item.Tag != "!!str":
			r.fault(name, n.Line, "the tag %s is not understood: leave it out", quoted(item.Tag))
			return
		}
		texts = append(texts, item.Value)
	}
	if err := found.set(r.into, strings.Join(texts, ",")); err != nil {
		r.fault(name, n.Line, "%w", err)
	}
}

// maxSecret is far more than any key, token, password or URL.
const maxSecret = 64 << 10

// An Exposed is the error of a secret that every user of the machine can read or
// replace.
type Exposed struct {
	Path string
	Mode fs.FileMode
}

func (e *Exposed) Error() string {
	return fmt.Sprintf("%s: everybody on this machine can read or change it (mode %04o)", e.Path, e.Mode)
}

// ReadSecret reads a file with a secret. It returns an Exposed error if every user can read
// or change the file. A group may read it: systemd and Kubernetes give secrets to a service
// that way (0440, owned by root).
func ReadSecret(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	if info.IsDir() {
		return "", fmt.Errorf("%s is a directory", path)
	}
	if mode := info.Mode().Perm(); mode&0o006 != 0 {
		return "", &Exposed{path, mode}
	}
	text, err := io.ReadAll(io.LimitReader(f, maxSecret+1))
	if len(text) > maxSecret {
		return "", fmt.Errorf("%s: it is larger than 64 KiB, which no secret is", path)
	}
	return string(text), err
}

// readValue reads the value of a setting from a file: all of its text, but for
// space around it.
func readValue(path string) (string, error) {
	if path == "" {
		return "", errors.New("it names no file: name one, or leave it out")
	}
	text, err := ReadSecret(path)
	if err != nil {
		return "", err
	}
	if text = strings.TrimSpace(text); text == "" {
		return "", fmt.Errorf("%s is empty", path)
	}
	return text, nil
}
