//go:build e2e

package golden

import (
	"bytes"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strings"
)

// A script is a transcript as it is read: input lines start at the left margin,
// everything else is what the program answered and is not read.
//
//	# a comment
//	$ a command for the shell; mintage is the program under test. A line that
//	  ends with \ goes on in the next one
//	> POST /path                a request to the public listener; "> admin POST
//	> Name: value               /path" goes to the admin socket, "> tcpadmin" to
//	>                           the admin API at <admin>, "> management
//	>                           GET /path" to the management listener
//	> body
//	@ ways socket alone: WHY    has the script run in fewer ways, see way
//	@ start COMMAND             starts a server and waits until it is ready
//	@ reload                    sends it SIGHUP and waits until it has reloaded
//	@ stop                      stops it and prints its standard output and log
//	@ kill                      kills it
//	@ audit                     prints the audit log
//	@ metrics [help]            prints the metrics without their values, and their help
//	@ jwt <jwt-1>               prints header and claims of a JWT
//
// Output lines are indented: "  " and standard output, or the answer to a
// request; "! " and standard error, or the log; "= " and an exit status that is
// not 0. A line that only some ways have begins with them, as in "(alone remote)".
// An input line may contain the names of values that an earlier output line
// contains, such as <code-1>.
func (w *world) run(script string) string {
	lines := strings.Split(strings.TrimSuffix(script, "\n"), "\n")
	var out strings.Builder
	for i := 0; i < len(lines); i++ {
		if !isInput(lines[i]) {
			continue
		}
		step := []string{lines[i]}
		for i+1 < len(lines) && (strings.HasSuffix(lines[i], `\`) ||
			lines[i] != "" && lines[i][0] == '>' && strings.HasPrefix(lines[i+1], ">") && !firstLine.MatchString(lines[i+1])) {
			i++
			step = append(step, lines[i])
		}
		out.WriteString(strings.Join(step, "\n") + "\n")
		w.step = step[0]
		out.WriteString(w.do(step))
	}
	return out.String()
}

// firstLine matches the first line of a request.
var firstLine = regexp.MustCompile(`^> ((tcp)?admin |management )?[A-Z]+ /`)

func isInput(line string) bool {
	return line != "" && strings.ContainsAny(line[:1], "#$>@")
}

func (w *world) do(step []string) string {
	text := strings.Join(step, "\n")
	if text[0] == '#' {
		return ""
	}
	switch text[0] {
	case '$':
		return w.shell(w.names.expand(w.t, text[2:]), w.names.hide)
	case '>':
		for i, line := range step {
			step[i] = w.names.expand(w.t, strings.TrimPrefix(strings.TrimPrefix(line, ">"), " "))
		}
		w.serving(true)
		answer := w.request(step)
		// A server that has just started has no durable record yet.
		for tries := 0; tries < 1000 && strings.HasSuffix(step[0], "/audit/head") && strings.Contains(answer, "503 Service Unavailable"); tries++ {
			answer = w.request(step)
		}
		return answer
	}
	verb, rest, _ := strings.Cut(w.names.expand(w.t, text[2:]), " ")
	switch verb {
	case "ways":
		return ""
	case "start":
		return w.start(rest)
	case "reload":
		w.serving(true)
		return w.reload()
	case "stop":
		return w.stop()
	case "kill":
		w.serving(true)
		w.awaitAudit()
		w.must(w.server.Process.Kill())
		w.server.Wait()
		w.server = nil
		return ""
	case "audit":
		return w.auditLog()
	case "metrics":
		w.serving(true)
		return w.metrics(rest == "help")
	case "jwt":
		return w.jwt(rest)
	}
	w.t.Fatalf("unknown step: %s", text)
	return ""
}

// shell runs a command line as an operator would.
func (w *world) shell(line string, hide func(string) string) string {
	w.t.Helper()
	if strings.Contains(line, "mintage ") {
		w.serving(needsServer.MatchString(line))
	}
	if w.elsewhere(line) { // where the server's configuration is not
		line = strings.ReplaceAll(line, " --config mintage.yaml", "")
	}
	cmd := exec.CommandContext(w.t.Context(), "sh", "-c", line)
	cmd.Dir, cmd.Env = w.dir, w.environment(line)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	status := ""
	if err := cmd.Run(); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			w.t.Fatalf("%s: %v", line, err)
		}
		status = fmt.Sprintf("= %d\n", exit.ExitCode())
	}
	return indent("  ", hide(stdout.String())) + indent("! ", hide(stderr.String())) + status
}

var trailing = regexp.MustCompile(`(?m)[ \t]+$`)

// indent puts a mark before each line. It removes blanks at the end of lines, because
// editors remove them from transcripts.
func indent(mark, text string) string {
	if text == "" {
		return ""
	}
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	return trailing.ReplaceAllString(mark+strings.Join(lines, "\n"+mark), "") + "\n"
}
