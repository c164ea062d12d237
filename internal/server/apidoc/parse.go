package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// A value is a JSON value. Its members keep the order in which they are written,
// because people read the document.
type value struct {
	names   []string // of an object
	members map[string]*value
	list    []*value
	scalar  string // JSON text, of everything else
}

// parse reads YAML, and resolves aliases and merges. It removes the member x-headers,
// which only contains what aliases refer to.
func parse(text []byte) (*value, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return nil, err
	}
	if len(doc.Content) != 1 {
		return nil, errors.New("not one document")
	}
	v, err := convert(doc.Content[0])
	if err != nil {
		return nil, err
	}
	v.remove("x-headers")
	return v, nil
}

func convert(n *yaml.Node) (*value, error) {
	switch n.Kind {
	case yaml.AliasNode:
		return convert(n.Alias)
	case yaml.SequenceNode:
		v := &value{list: []*value{}}
		for _, item := range n.Content {
			x, err := convert(item)
			if err != nil {
				return nil, err
			}
			v.list = append(v.list, x)
		}
		return v, nil
	case yaml.MappingNode:
		v := &value{members: map[string]*value{}}
		for i := 0; i < len(n.Content); i += 2 {
			name := n.Content[i].Value
			x, err := convert(n.Content[i+1])
			switch {
			case err != nil:
				return nil, err
			case name != "<<":
				if !v.set(name, x) {
					return nil, fmt.Errorf("line %d: %s is there twice", n.Content[i].Line, name)
				}
			default:
				defer func() { // members beside a merge take precedence over it
					for _, name := range x.names {
						v.set(name, x.members[name])
					}
				}()
			}
		}
		return v, nil
	}
	var x any
	if err := n.Decode(&x); err != nil {
		return nil, err
	}
	text, err := marshal(x)
	return &value{scalar: text}, err
}

func marshal(x any) (string, error) {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(x)
	return strings.TrimSuffix(b.String(), "\n"), err
}

// set adds a member. It returns false if there is one of that name.
func (v *value) set(name string, x *value) bool {
	if _, there := v.members[name]; there {
		return false
	}
	v.names = append(v.names, name)
	v.members[name] = x
	return true
}

func (v *value) remove(name string) {
	v.names = slices.DeleteFunc(v.names, func(n string) bool { return n == name })
	delete(v.members, name)
}

// at returns the member at a path of names below v, or nil.
func (v *value) at(path ...string) *value {
	for _, name := range path {
		if v == nil {
			return nil
		}
		v = v.members[name]
	}
	return v
}

// text returns the value of a string, and "" for anything else.
func (v *value) text() (s string) {
	if v != nil {
		json.Unmarshal([]byte(v.scalar), &s)
	}
	return s
}

// each calls f for each member of an object, in order.
func (v *value) each(f func(name string, x *value)) {
	if v == nil {
		return
	}
	for _, name := range v.names {
		f(name, v.members[name])
	}
}

// json returns v as indented JSON. A short value stays on one line.
func (v *value) json(depth int) string {
	if one := v.line(); len(one) <= 120 {
		return one
	}
	inner, outer := strings.Repeat("  ", depth+1), strings.Repeat("  ", depth)
	var items []string
	left, right := "{", "}"
	v.each(func(name string, x *value) {
		key, _ := marshal(name)
		items = append(items, inner+key+": "+x.json(depth+1))
	})
	if v.list != nil {
		left, right = "[", "]"
		for _, x := range v.list {
			items = append(items, inner+x.json(depth+1))
		}
	}
	if items == nil {
		return v.scalar
	}
	return left + "\n" + strings.Join(items, ",\n") + "\n" + outer + right
}

func (v *value) line() string {
	var items []string
	switch {
	case v.list != nil:
		for _, x := range v.list {
			items = append(items, x.line())
		}
		return "[" + strings.Join(items, ", ") + "]"
	case v.members != nil:
		v.each(func(name string, x *value) {
			key, _ := marshal(name)
			items = append(items, key+": "+x.line())
		})
		return "{" + strings.Join(items, ", ") + "}"
	}
	return v.scalar
}
