//go:build e2e

package golden

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// A way is how the commands of a script reach the admin API. By default they use the
// socket of a running server. The step "@ also" names further ways in which the script
// runs; its transcript holds for all of them.
type way string

const (
	socket way = "socket" // of a server on the same machine
	alone  way = "alone"  // in the command's process: no server runs while it does
	remote way = "remote" // on TCP with a token, from a machine that has nothing else
)

var (
	also = regexp.MustCompile(`(?m)^@ also (.*)$`)
	// needsServer matches commands that need a running server.
	needsServer = regexp.MustCompile(`mintage code issue|--admin-listen`)
	// onTheMachine matches commands that read files of the server's machine.
	onTheMachine = regexp.MustCompile(`mintage (audit|explain|backup|restore|kek|doctor|config)`)
)

// waysOf returns the ways in which a script runs.
func waysOf(script string) []way {
	list := []way{socket}
	if m := also.FindStringSubmatch(script); m != nil {
		for _, name := range strings.Fields(m[1]) {
			list = append(list, way(name))
		}
	}
	return list
}

const remoteToken = "0123456789-0123456789-0123456789-01"

// takeWay prepares the world for a way. Differences that the way implies are replaced by
// the socket's names: the operator, and the address of the admin API.
func (w *world) takeWay(as way) {
	if w.way = as; as != remote {
		return
	}
	w.must(os.WriteFile(filepath.Join(w.dir, ".token"), []byte(remoteToken), 0o600))
	w.names.set("operator:<user>", "token:admin.token_file")
	w.names.set(`"admin":"unix:data/admin.sock"`, `"admin":"`+w.admin+`"`)
}

// environment returns the variables of a command line.
func (w *world) environment(line string) []string {
	if w.way != remote || w.server == nil || onTheMachine.MatchString(line) || strings.Contains(line, "--admin-listen") {
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

var (
	columns   = regexp.MustCompile(` {2,}`)
	fromWhere = regexp.MustCompile(`(scope [^;"]*); from 127\.0\.0\.1|,"remote_ip":"127\.0\.0\.1"(,"actor":"operator:<user>")|("msg":"(?:code issued|admin request refused)".*"remote_ip":")127\.0\.0\.1`)
)

// comparable removes differences that the way implies from a transcript: the width of
// columns with operators' names, and the addresses in the logs of requests over TCP.
func (as way) comparable(transcript string) string {
	if as == remote {
		transcript = fromWhere.ReplaceAllString(columns.ReplaceAllString(transcript, "  "), "$1$2$3")
	}
	return transcript
}
