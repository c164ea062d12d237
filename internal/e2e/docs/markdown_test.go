//go:build e2e

// Package docs runs the documentation: it pastes every shell block of README.md and of
// docs/ into a shell, and compares the output with the output that follows the block.
package docs

import (
	"fmt"
	"regexp"
	"strings"
)

// A block is a fenced block of a page.
type block struct {
	line     int // of the opening fence
	language string
	text     string
	before   string // the last line before it that is not blank
	between  string // what is between the block before and this one
}

var fence = regexp.MustCompile("^( *)(`{3,}|~{3,})[ \t]*([A-Za-z0-9_-]*)")

// parse finds the fenced blocks of a page (CommonMark section 4.5, without the
// rarer forms).
func parse(page string) ([]block, error) {
	var blocks []block
	var current *block
	var indent, marker string
	var between []string
	before := ""
	for i, line := range strings.Split(page, "\n") {
		m := fence.FindStringSubmatch(line)
		switch {
		case current == nil && m != nil:
			indent, marker = m[1], m[2]
			current = &block{line: i + 1, language: m[3], before: before, between: strings.Join(between, "\n")}
		case current == nil:
			between = append(between, line)
			if strings.TrimSpace(line) != "" {
				before = strings.TrimSpace(line)
			}
		case m != nil && m[3] == "" && strings.HasPrefix(m[2], marker):
			blocks = append(blocks, *current)
			current, between = nil, nil
		default:
			current.text += strings.TrimPrefix(line, indent) + "\n"
		}
	}
	if current != nil {
		return nil, fmt.Errorf("line %d: the block is not closed", current.line)
	}
	return blocks, nil
}

// A step is a shell block, and the output that the page promises.
type step struct {
	block
	notRun bool
	want   *block
}

// notRunMark is a comment, which a reader of the page does not see.
var notRunMark = regexp.MustCompile(`^<!-- not run: [^<>]+ -->$`)

// steps returns the shell blocks of a page. The text or json block that follows one is
// its output, if only blank lines, or one line that ends with a colon, are between them.
func steps(page string) ([]step, error) {
	blocks, err := parse(page)
	if err != nil {
		return nil, err
	}
	var list []step
	for i, b := range blocks {
		switch b.language {
		case "sh":
		case "bash", "shell", "console", "zsh", "shell-session":
			return nil, fmt.Errorf("line %d: a block marked %s is not run; mark it sh", b.line, b.language)
		default:
			continue
		}
		s := step{block: b}
		switch {
		case notRunMark.MatchString(b.before):
			s.notRun = true
		case strings.Contains(b.before, "not run"):
			return nil, fmt.Errorf("line %d: the line before must be <!-- not run: REASON -->, and is %s", b.line, b.before)
		}
		if i+1 < len(blocks) && (blocks[i+1].language == "text" || blocks[i+1].language == "json") {
			next := &blocks[i+1]
			prose := strings.TrimSpace(next.between)
			if prose == "" || !strings.Contains(prose, "\n") && strings.HasSuffix(prose, ":") {
				s.want = next
			}
		}
		list = append(list, s)
	}
	return list, nil
}
