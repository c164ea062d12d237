//go:build e2e

package golden

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A way is how the commands of a script reach the admin API. A script runs in every way,
// unless its step "@ ways" names fewer ways and the reason.
type way string

const (
	socket way = "socket" // of a server on the same machine
	alone  way = "alone"  // in the command's process: no server runs while it does
	remote way = "remote" // on TCP with a token, from a machine that has nothing else
)

var (
	allWays = []way{socket, alone, remote}
	fewer   = regexp.MustCompile(`(?m)^@ ways ([^:\n]*)(?:: *(.*))?$`)
	// needsServer matches commands that need a running server.
	needsServer = regexp.MustCompile(`mintage code issue|--admin-listen`)
	// onTheMachine matches commands that read files of the server's machine, or that name
	// the server themselves.
	onTheMachine = regexp.MustCompile(`mintage (audit|explain|backup|restore|kek|doctor|config)\b|--admin-listen`)
	// fromAnywhere matches those that ask the server all the same.
	fromAnywhere = regexp.MustCompile(`--last|--running`)
)

// waysOf returns the ways in which a script runs.
func waysOf(script string) ([]way, error) {
	m := fewer.FindStringSubmatch(script)
	if m == nil {
		return allWays, nil
	}
	list := []way{}
	for _, name := range strings.Fields(m[1]) {
		if list = append(list, way(name)); !slices.Contains(allWays, way(name)) {
			return nil, fmt.Errorf("%q: there is no way %s", m[0], name)
		}
	}
	if len(list) == 0 || list[0] != socket || m[2] == "" {
		return nil, fmt.Errorf("%q: name %s, further ways and, after a colon, the reason why not %s", m[0], socket, allWays)
	}
	return list, nil
}

func TestFewerWaysNeedAReason(t *testing.T) {
	for script, want := range map[string]int{
		"$ mintage version\n":                              3,
		"@ ways socket alone: the host is named\n$ true\n": 2,
		"@ ways socket\n":                                  0,
		"@ ways socket:\n":                                 0,
		"@ ways alone: a reason\n":                         0,
		"@ ways socket x: reason\n":                        0,
	} {
		if list, err := waysOf(script); len(list) != want || (err == nil) != (want > 0) {
			t.Errorf("%q: %s, %v", script, list, err)
		}
	}
}

const remoteToken = "0123456789-0123456789-0123456789-01"

// takeWay prepares the world for a way. The operator has the same name in each.
func (w *world) takeWay(as way) {
	if w.way = as; as != remote {
		return
	}
	w.must(os.WriteFile(filepath.Join(w.dir, ".token"), []byte(remoteToken), 0o600))
	w.names.set("operator:<user>", "token:admin.token_file")
}

// elsewhere reports whether a command runs on another machine than the server.
func (w *world) elsewhere(line string) bool {
	return w.way == remote && w.server != nil && (!onTheMachine.MatchString(line) || fromAnywhere.MatchString(line))
}

// environment returns the variables of a command line.
func (w *world) environment(line string) []string {
	if !w.elsewhere(line) {
		return w.env
	}
	env := slices.DeleteFunc(slices.Clone(w.env), func(v string) bool { return strings.HasPrefix(v, "MINTAGE_") })
	return append(env, "MINTAGE_DATA=elsewhere", "MINTAGE_ADMIN_LISTEN="+w.admin, "MINTAGE_ADMIN_TOKEN_FILE=.token", "SSL_CERT_FILE=cert.pem")
}

// serving starts or stops the server of a script, as the next step needs it.
func (w *world) serving(needed bool) {
	if w.way != alone || w.command == "" || needed == (w.server != nil) {
		return
	}
	if needed {
		w.launch(w.command)
	} else {
		w.shutDown()
	}
}

// overTCP are the differences of every line about an operator who calls over TCP: the
// address. Where there is one, it stays.
var overTCP = []struct {
	form *regexp.Regexp
	to   string
}{
	{regexp.MustCompile(`("event":.*?)(?:,"remote_ip":"127\.0\.0\.1")?,"actor":"operator:<user>"`), `$1,"remote_ip":"127.0.0.1","actor":"operator:<user>"`},
	{regexp.MustCompile(`(?: ip=127\.0\.0\.1)? actor=operator:<user>`), ` ip=127.0.0.1 actor=operator:<user>`},
	{regexp.MustCompile(`(scope [^;"]*)(?:; from 127\.0\.0\.1)?; request`), `$1; from 127.0.0.1; request`},
	{regexp.MustCompile(`("msg":"(?:code issued|login accepted|login rejected|admin request refused)".*"remote_ip":")"`), `${1}127.0.0.1"`},
}

// expects returns a line of the way socket as it is in another way.
func (as way) expects(line string) string {
	if as == remote {
		for _, x := range overTCP {
			line = x.form.ReplaceAllString(line, x.to)
		}
	}
	return line
}

var (
	columns = regexp.MustCompile(` {2,}`)
	counts  = regexp.MustCompile(`(?m)^  (?:# (?:TYPE|HELP) )?http_server_request_duration_seconds.*\n`)
	// ofWays matches an output line that only some ways have, such as "(alone remote) ! text".
	ofWays = regexp.MustCompile(`^\(([a-z ]+)\) `)
)

// comparable removes what is not compared in a way: on TCP, the width of columns, which
// operators' names determine; without a server in between, its counts of requests, which
// begin anew with each start.
func (as way) comparable(text string) string {
	switch as {
	case alone:
		return counts.ReplaceAllString(text, "")
	case remote:
		return columns.ReplaceAllString(text, "  ")
	}
	return text
}

// of returns a transcript as it must be in one way.
func (as way) of(transcript string) string {
	var out strings.Builder
	for line := range strings.Lines(transcript) {
		in := allWays
		if m := ofWays.FindStringSubmatch(line); m != nil {
			in, line = nil, line[len(m[0]):]
			for _, name := range strings.Fields(m[1]) {
				in = append(in, way(name))
			}
		}
		if slices.Contains(in, socket) {
			line = as.expects(line)
		}
		if slices.Contains(in, as) {
			out.WriteString(line)
		}
	}
	return as.comparable(out.String())
}

// A line of output with the ways that have it.
type line struct {
	text string
	in   []way
}

// merge makes one transcript of those of several ways.
func merge(ways []way, transcripts map[way]string) string {
	var steps [][]line
	for _, step := range divide(transcripts[socket]) {
		var lines []line
		for _, text := range step {
			lines = append(lines, line{text, []way{socket}})
		}
		steps = append(steps, lines)
	}
	for _, as := range ways[1:] {
		for i, step := range divide(transcripts[as]) {
			steps[i] = add(steps[i], step, as)
		}
	}
	var out strings.Builder
	for _, step := range steps {
		for _, l := range step {
			if len(l.in) < len(ways) {
				fmt.Fprintf(&out, "(%s) ", strings.Trim(fmt.Sprint(l.in), "[]"))
			}
			out.WriteString(l.text)
		}
	}
	return out.String()
}

// divide divides a transcript into its input lines, each with the output that follows it.
func divide(transcript string) (steps [][]string) {
	for text := range strings.Lines(transcript) {
		if isInput(text) {
			steps = append(steps, nil)
		}
		steps[len(steps)-1] = append(steps[len(steps)-1], text)
	}
	return steps
}

// add adds a way's output of a step to that of other ways.
func add(lines []line, output []string, as way) (merged []line) {
	known := make([]string, len(lines))
	for i, l := range lines {
		if known[i] = l.text; slices.Contains(l.in, socket) {
			known[i] = as.expects(l.text)
		}
		known[i] = as.comparable(known[i])
	}
	for len(lines) > 0 || len(output) > 0 {
		if len(lines) > 0 && len(output) > 0 && known[0] == output[0] {
			merged = append(merged, line{lines[0].text, append(lines[0].in, as)})
			lines, known, output = lines[1:], known[1:], output[1:]
			continue
		}
		i, j := resume(known, output)
		for n, l := range lines[:i] {
			if known[n] == "" { // not compared
				l.in = append(l.in, as)
			}
			merged = append(merged, l)
		}
		for _, text := range output[:j] {
			merged = append(merged, line{text, []way{as}})
		}
		lines, known, output = lines[i:], known[i:], output[j:]
	}
	return merged
}

func TestAMergedTranscriptHoldsForEachWay(t *testing.T) {
	transcripts := map[way]string{
		socket: "# Comment.\n$ a\n  x\n  y\n$ b\n  z\n",
		alone:  "# Comment.\n$ a\n! none\n= 1\n$ b\n  z\n",
		remote: "# Comment.\n$ a\n  x\n  other\n  y\n$ b\n",
	}
	const want = "# Comment.\n$ a\n(socket remote)   x\n(remote)   other\n(socket remote)   y\n(alone) ! none\n(alone) = 1\n$ b\n(socket alone)   z\n"
	merged := merge(allWays, transcripts)
	if merged != want {
		t.Errorf("merged:\n%s", merged)
	}
	for as, text := range transcripts {
		if got := as.of(merged); got != text {
			t.Errorf("%s:\n%s", as, got)
		}
	}
}
