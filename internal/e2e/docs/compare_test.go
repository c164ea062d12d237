//go:build e2e

package docs

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
)

// compare returns how an output differs from the page's promised output, or nil. In a
// promise, "..." matches anything in one line; a line with nothing else matches any
// number of lines.
func compare(want *block, stdout, stderr string) error {
	if want.language == "json" {
		return compareJSON(want.text, stdout)
	}
	// A reader sees both streams; their interleaving is random.
	for _, got := range []string{stdout, stdout + stderr, stderr + stdout} {
		if textPattern(want.text).MatchString(got) {
			return nil
		}
	}
	return fmt.Errorf("the output is\n%s%s\nand the page promises\n%s", stdout, stderr, want.text)
}

// textPattern matches a promised text. Runs of spaces match each other, because the width
// of a table's columns depends on the contents.
func textPattern(want string) *regexp.Regexp {
	var b strings.Builder
	b.WriteString(`\A\s*`)
	for line := range strings.SplitSeq(strings.TrimSpace(want), "\n") {
		words := strings.Fields(line)
		if len(words) == 1 && (words[0] == "..." || words[0] == "…") {
			b.WriteString(`(?:.*\n)*?`)
			continue
		}
		for i, word := range words {
			if i > 0 {
				b.WriteString(`[ \t]+`)
			} else {
				b.WriteString(`[ \t]*`)
			}
			for j, part := range strings.Split(strings.ReplaceAll(word, "…", "..."), "...") {
				if j > 0 {
					b.WriteString(`.*`)
				}
				b.WriteString(regexp.QuoteMeta(part))
			}
		}
		b.WriteString(`[ \t]*(?:\n|\z)`)
	}
	b.WriteString(`\s*\z`)
	return regexp.MustCompile(b.String())
}

// compareJSON compares JSON values in order. A promised string may contain "..."; the
// order of members is free.
func compareJSON(want, got string) error {
	wants, err := values(want)
	if err != nil {
		return fmt.Errorf("the json block is not JSON: %w", err)
	}
	gots, err := values(got)
	if err != nil {
		return fmt.Errorf("the output is not JSON (%w):\n%s", err, got)
	}
	if len(wants) != len(gots) {
		return fmt.Errorf("the output has %d JSON values, and the page promises %d:\n%s", len(gots), len(wants), got)
	}
	for i := range wants {
		if err := compareValue("", wants[i], gots[i]); err != nil {
			return err
		}
	}
	return nil
}

func values(text string) (list []any, err error) {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	for {
		var v any
		if err := d.Decode(&v); errors.Is(err, io.EOF) {
			return list, nil
		} else if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
}

func compareValue(path string, want, got any) error {
	differ := fmt.Errorf("the value%s is %v, and the page promises %v", strings.TrimSuffix(" "+path, " "), got, want)
	switch want := want.(type) {
	case string:
		text, ok := got.(string)
		// A string that is only "..." matches any text, also of several lines.
		if !ok || want != "..." && !textPattern(want).MatchString(text) {
			return differ
		}
	case map[string]any:
		members, ok := got.(map[string]any)
		if !ok || len(members) != len(want) {
			return differ
		}
		for name := range want {
			value, there := members[name]
			if !there {
				return differ
			}
			if err := compareValue(path+"."+name, want[name], value); err != nil {
				return err
			}
		}
	case []any:
		items, ok := got.([]any)
		if !ok || len(items) != len(want) {
			return differ
		}
		for i := range want {
			if err := compareValue(fmt.Sprintf("%s.%d", path, i), want[i], items[i]); err != nil {
				return err
			}
		}
	default: // numbers, booleans, null
		if want != got {
			return differ
		}
	}
	return nil
}
