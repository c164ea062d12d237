package pages

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
)

// ReadScopes reads the texts of scopes from YAML, which maps a scope to a locale to a
// text. Its errors contain the line.
func ReadScopes(r io.Reader) (map[string]map[string]string, error) {
	root, err := readMapping(r)
	if err != nil {
		return nil, err
	}
	scopes := map[string]map[string]string{}
	for _, scope := range root {
		// RFC 6749 section 3.3: scope-token.
		if scope.key == "" || strings.ContainsFunc(scope.key, func(c rune) bool { return c <= ' ' || c > '~' || c == '"' || c == '\\' }) {
			return nil, fmt.Errorf("line %d: %q is not a scope", scope.line, scope.key)
		}
		members, err := mapping(scope.value)
		if err != nil {
			return nil, err
		}
		if len(members) == 0 {
			return nil, fmt.Errorf("line %d: scope %s has no text", scope.line, scope.key)
		}
		byLocale := map[string]string{}
		for _, m := range members {
			if !slices.Contains(Locales, m.key) {
				return nil, fmt.Errorf("line %d: %q is not a locale of the pages (%s)", m.line, m.key, strings.Join(Locales, ", "))
			}
			text, err := m.text()
			if err != nil {
				return nil, err
			}
			if text != shown(text) {
				return nil, fmt.Errorf("line %d: the text must be one line of at most %d characters", m.line, maxShown)
			}
			byLocale[m.key] = text
		}
		scopes[scope.key] = byLocale
	}
	return scopes, nil
}

// ClaimPrefix is put before a claim's name to form its key among the texts of scopes.
const ClaimPrefix = "claims."

//go:embed scopes.yaml
var openIDScopes []byte

// builtInScopes reads the built-in texts of scopes once, for all sets of pages.
var builtInScopes = sync.OnceValues(func() (map[string]map[string]string, error) {
	return ReadScopes(bytes.NewReader(openIDScopes))
})

// withOpenID returns the texts in own and, for scopes that are not in own, the built-in ones.
func withOpenID(own map[string]map[string]string) (map[string]map[string]string, error) {
	all, err := builtInScopes()
	if err != nil {
		return nil, fmt.Errorf("scopes.yaml: %w", err)
	}
	if len(own) > 0 {
		all = maps.Clone(all)
		maps.Copy(all, own)
	}
	return all, nil
}

// meaning returns a scope's text, from the first of the sets that has one, and its locale:
// that of the page, or else the default locale, or else any, because a text in another
// language says more than a name.
func meaning(locale, def string, sets ...map[string]string) (text, in string) {
	for _, byLocale := range sets {
		for _, in := range append([]string{locale, def}, Locales...) {
			if text := byLocale[in]; text != "" {
				return text, in
			}
		}
	}
	return "", ""
}

// A member is one line of a YAML mapping.
type member struct {
	key   string
	line  int
	value *yaml.Node
}

func (m member) text() (string, error) {
	text := strings.TrimSpace(m.value.Value)
	if m.value.Kind != yaml.ScalarNode || m.value.Tag == "!!null" || text == "" || !utf8.ValidString(text) {
		return "", fmt.Errorf("line %d: %s: a text is expected", m.line, m.key)
	}
	return text, nil
}

// readMapping reads a file that consists of one mapping. A file of comments alone is an
// empty mapping.
func readMapping(r io.Reader) ([]member, error) {
	text, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	var doc, more yaml.Node
	loader, err := yaml.NewLoader(bytes.NewReader(text))
	if err == nil {
		err = loader.Load(&doc)
	}
	if errors.Is(err, io.EOF) || err == nil && len(doc.Content) == 0 {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if !errors.Is(loader.Load(&more), io.EOF) {
		return nil, errors.New("there is more than one document")
	}
	return mapping(doc.Content[0])
}

func mapping(n *yaml.Node) ([]member, error) {
	if n.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("line %d: a mapping (name: value) is expected", n.Line)
	}
	var list []member
	lines := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		if key.Kind != yaml.ScalarNode {
			return nil, fmt.Errorf("line %d: a name is expected", key.Line)
		}
		if first := lines[key.Value]; first != 0 {
			return nil, fmt.Errorf("line %d: %s is in line %d already", key.Line, key.Value, first)
		}
		lines[key.Value] = key.Line
		list = append(list, member{key: key.Value, line: key.Line, value: n.Content[i+1]})
	}
	return list, nil
}
