package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/sqlite"
)

// The scripts in testdata contain what people type. They run the program in its own
// process, and programs of the system (sh, curl).
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"mintage": func() {
			// A package that is installed on this machine must not affect a script.
			packagedFile = filepath.Join(os.Getenv("WORK"), "etc/mintage.yaml")
			Main("test")
		},
		"request": request,
	})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(e *testscript.Env) error {
			// With the race detector, every program would wait a second before it exits.
			e.Setenv("GORACE", "atexit_sleep_ms=10")
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"start":      scriptStart,
			"halt":       scriptHalt,
			"fails":      scriptFails,
			"eventually": scriptEventually,
			"json":       scriptJSON,
			"jsonenv":    scriptJSONEnv,
			"capture":    scriptCapture,
			"freeport":   scriptFreePort,
			"rechain":    scriptRechain,
			"agree":      scriptAgree,
		},
	})
}

// fails STATUS PROGRAM ARGS... runs a program that must end with this status.
func scriptFails(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: fails STATUS PROGRAM ARGS...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	if got := exitOf(ts, args[1:]); got != want {
		ts.Fatalf("exit status %d, want %d", got, want)
	}
}

// exitOf runs a program and returns its exit status.
func exitOf(ts *testscript.TestScript, args []string) int {
	err := ts.Exec(args[0], args[1:]...)
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		ts.Fatalf("%v", err)
	}
	if err == nil {
		return 0
	}
	return exit.ExitCode()
}

// eventually exec PROGRAM ARGS..., or eventually fails STATUS PROGRAM ARGS..., repeats
// the command until it succeeds or fails as stated. A running server applies changes
// within two seconds; a busy machine gets a minute.
func scriptEventually(ts *testscript.TestScript, neg bool, args []string) {
	want := 0
	switch {
	case neg || len(args) < 3:
		ts.Fatalf("usage: eventually exec PROGRAM ARGS... | eventually fails STATUS PROGRAM ARGS...")
	case args[0] == "fails":
		var err error
		want, err = strconv.Atoi(args[1])
		ts.Check(err)
		args = args[1:]
	case args[0] != "exec":
		ts.Fatalf("eventually %s: not known", args[0])
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		got := exitOf(ts, args[1:])
		if got == want {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("exit status %d after a minute, want %d", got, want)
		}
	}
}

// json FILE PATH REGEXP compares one value of a JSON text with an expression
// that must match all of it. FILE may be stdout. A PATH is like
// secrets.0.state; "." is the whole, "count" the number of members.
func scriptJSON(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 3 {
		ts.Fatalf("usage: json FILE PATH REGEXP")
	}
	got := jsonField(ts, args[0], args[1])
	re, err := regexp.Compile(`^(?:` + args[2] + `)$`)
	ts.Check(err)
	if re.MatchString(got) == neg {
		ts.Fatalf("%s is %q, and matches %s: %t", args[1], got, args[2], neg)
	}
}

// jsonenv NAME FILE PATH keeps a value of a JSON text in a variable.
func scriptJSONEnv(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: jsonenv NAME FILE PATH")
	}
	ts.Setenv(args[0], jsonField(ts, args[1], args[2]))
}

// jsonField is a value as text: strings bare, everything else as JSON.
func jsonField(ts *testscript.TestScript, file, path string) string {
	var v any
	d := json.NewDecoder(strings.NewReader(ts.ReadFile(file)))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		ts.Fatalf("%s is not JSON: %v", file, err)
	}
	for name := range strings.SplitSeq(strings.Trim(path, "."), ".") {
		switch at := v.(type) {
		case map[string]any:
			value, there := at[name]
			switch {
			case name == "":
			case name == "count":
				v = json.Number(strconv.Itoa(len(at)))
			case !there:
				ts.Fatalf("%s has no %s", file, path)
			default:
				v = value
			}
		case []any:
			i, err := strconv.Atoi(name)
			switch {
			case name == "":
			case name == "count":
				v = json.Number(strconv.Itoa(len(at)))
			case err != nil || i >= len(at):
				ts.Fatalf("%s has no %s", file, path)
			default:
				v = at[i]
			}
		default:
			ts.Fatalf("%s has no %s", file, path)
		}
	}
	if text, ok := v.(string); ok {
		return text
	}
	text, err := json.Marshal(v)
	ts.Check(err)
	return string(text)
}

// capture NAME keeps the standard output of the last program in a variable.
func scriptCapture(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: capture NAME")
	}
	text := strings.TrimSpace(ts.ReadFile("stdout"))
	if text == "" {
		ts.Fatalf("there was no output")
	}
	ts.Setenv(args[0], text)
}

// freeport NAME stores a free loopback address in a variable.
func scriptFreePort(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: freeport NAME")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	ts.Check(l.Close())
	ts.Setenv(args[0], l.Addr().String())
}

// agree DIRECTORY ID NAME records a client that registered itself, as the first agreement
// of a user does.
func scriptAgree(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: agree DIRECTORY ID NAME")
	}
	ctx, now := context.Background(), grant.At(time.Now())
	st, err := sqlite.Open(ctx, ts.MkAbs(args[0]))
	ts.Check(err)
	defer st.Close()
	c := store.Client{
		ID: args[1], Realm: oauth.DefaultRealm, State: store.ClientEnabled, Settings: store.Settings{Name: args[2], Auth: store.AuthNone, GrantTypes: store.DefaultGrantTypes,
			RedirectURIs: []string{"http://127.0.0.1/cb"}}, RegisteredBy: store.ByDocument, Secrets: []store.Secret{}, CreatedAt: now, UpdatedAt: now,
	}
	ts.Check(st.Commit(ctx, store.Change{Documents: []store.Document{c.Record(now, now.Add(24*time.Hour))}}))
}

func fatal(format string, args ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", args...)
	os.Exit(3)
}
