//go:build e2e

package golden

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const reference = "../../../docs/reference/"

// notRecorded lists what no transcript contains, with the reason.
var notRecorded = map[string]string{
	"GET /debug/pprof/{profile}":   "a binary text; its HEAD is recorded",
	"GET /debug/pprof/profile":     "takes 30 seconds",
	"GET /debug/pprof/trace":       "takes a second, and is a binary text",
	"GET /metrics":                 "recorded by the step @ metrics, without values",
	"GET /openapi.json":            "HEAD is recorded; another test compares the text with docs/reference/openapi.yaml",
	"GET /admin/v1/traffic":        "in which step a count is depends on the time; the command is recorded",
	"GET /admin/v1/settings":       "a long text; the command is recorded",
	"the event audit_removed":      "recorded once an hour, of files that are a day old",
	"the event logout_sent":        "needs a client that answers; package logout tests it",
	"the event assertion_accepted": "needs an assertion that another issuer has signed; the AG tests of package conformance present some",
	"the event client_recorded":    "needs a client's document that can be fetched; TestAnAgentSignsInByItsDocument reads one",
}

// TestTranscriptsContainTheReference: each command, endpoint, metric and event of the
// reference must occur in a transcript, so that new ones are recorded, too.
func TestTranscriptsContainTheReference(t *testing.T) {
	files, err := filepath.Glob("testdata/*/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	transcripts := all.String()
	lines := strings.Split(transcripts, "\n")
	missing := func(what string) {
		if notRecorded[what] == "" {
			t.Errorf("no transcript contains %s", what)
		}
	}

	commands := regexp.MustCompile(`(?m)^## (mintage .*)$`).FindAllStringSubmatch(read(t, "cli.md"), -1)
	for _, m := range commands {
		if !slices.Contains(lines, "$ "+m[1]+" --help") {
			missing(m[1] + " --help")
		}
		run := regexp.MustCompile(`(?m)^[$@] .*` + m[1] + `( |$)`)
		if !slices.ContainsFunc(lines, func(l string) bool { return run.MatchString(l) && !strings.HasSuffix(l, " --help") }) {
			missing(m[1])
		}
	}

	endpoints, path := 0, ""
	for line := range strings.Lines(read(t, "openapi.yaml")) {
		if m := regexp.MustCompile(`^  (/\S*):`).FindStringSubmatch(line); m != nil {
			path = m[1]
		} else if strings.HasPrefix(line, "components:") {
			path = ""
		}
		m := regexp.MustCompile(`^    (get|head|post|put|patch|delete|options):`).FindStringSubmatch(line)
		if m == nil || path == "" {
			continue
		}
		endpoints++
		method := strings.ToUpper(m[1])
		if method == "HEAD" {
			method = "(GET|HEAD)" // they differ only in the body: a transcript of either one suffices
		}
		form := regexp.MustCompile(`\\\{\w+\\\}`).ReplaceAllString(regexp.QuoteMeta(path), `[^ ?]+`)
		request := regexp.MustCompile(`^> ((tcp)?admin |management )?` + method + ` (/openam)?(/oauth2)?` + form + `(\?.*)?$`)
		if !slices.ContainsFunc(lines, request.MatchString) {
			missing(strings.ToUpper(m[1]) + " " + path)
		}
	}

	metrics := regexp.MustCompile("(?m)^\\| `((?:mintage|http)_\\w+)` \\|").FindAllStringSubmatch(read(t, "metrics.md"), -1)
	for _, m := range metrics {
		if !strings.Contains(transcripts, "# TYPE "+m[1]+" ") {
			missing(m[1])
		}
	}

	_, events, _ := strings.Cut(read(t, "events.md"), "\n## Events\n")
	events, _, _ = strings.Cut(events, "\n## ")
	names := regexp.MustCompile("`([a-z_]+)`")
	found := 0
	for line := range strings.Lines(events) {
		cells := strings.Split(line, "|")
		if len(cells) < 3 {
			continue
		}
		for _, m := range names.FindAllStringSubmatch(cells[1], -1) {
			found++
			if !strings.Contains(transcripts, `"event":"`+m[1]+`"`) {
				missing("the event " + m[1])
			}
		}
	}
	if len(commands) < 35 || endpoints < 30 || len(metrics) < 30 || found < 40 {
		t.Errorf("%d commands, %d endpoints, %d metrics, %d events: the reference is not read", len(commands), endpoints, len(metrics), found)
	}
}

func read(t *testing.T, page string) string {
	t.Helper()
	text, err := os.ReadFile(reference + page)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
