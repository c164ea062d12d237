//go:build e2e

package crash

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/adminapi"
	"github.com/mintage/mintage/internal/e2e/binary"
	"github.com/mintage/mintage/internal/store/postgres/pgtest"
)

// onEachEngine runs a test on a server with an embedded store and on one with a database,
// which both get args.
func onEachEngine(t *testing.T, run func(t *testing.T, s *binary.Server, flags ...string), args ...string) {
	t.Run("sqlite", func(t *testing.T) { run(t, binary.Start(t, t.TempDir(), args...)) })
	t.Run("postgres", func(t *testing.T) {
		database, err := pgtest.Start("fsync=off")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := errors.Join(database.Kill(), database.Stop()); err != nil {
				t.Error(err)
			}
		})
		database.Run(t, "postgres", "CREATE DATABASE mintage")
		store := []string{"--store", database.URL("mintage")}
		run(t, binary.Start(t, t.TempDir(), append(args, store...)...), store...)
	})
}

// operator calls the admin API at the socket of a server, to prepare and to inspect its
// state.
type operator struct {
	t *testing.T
	s *binary.Server
}

// call sends a request, returns the status, and decodes a 2xx response into out.
func (o operator) call(method, path, body string, out any) int {
	o.t.Helper()
	client := http.Client{Transport: &http.Transport{Dial: func(string, string) (net.Conn, error) { return net.Dial("unix", o.s.AdminSocket) }, DisableKeepAlives: true}}
	r, err := http.NewRequestWithContext(o.t.Context(), method, "http://admin/admin/v1/"+path, strings.NewReader(body))
	if err != nil {
		o.t.Fatal(err)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	resp, err := client.Do(r)
	if err != nil {
		o.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if resp.StatusCode >= 500 {
		o.t.Errorf("%s %s: %s %s", method, path, resp.Status, text)
	}
	if out != nil && resp.StatusCode < 300 {
		err = errors.Join(err, json.Unmarshal(text, out))
	}
	if err != nil {
		o.t.Fatalf("%s %s: %v\n%s", method, path, err, text)
	}
	return resp.StatusCode
}

// events counts the events that have a given name and whose detail contains a text. of
// selects the audit records: by client, key or "admin tokens", or by subject.
func (o operator) events(of url.Values, name, detail string) (n int) {
	o.t.Helper()
	var list struct{ Events []adminapi.Event }
	o.call("GET", "events?"+of.Encode(), "", &list)
	for _, e := range list.Events {
		if e.Name == name && strings.Contains(e.Detail, detail) {
			n++
		}
	}
	return n
}

func (o operator) keys() []adminapi.Key {
	o.t.Helper()
	var list struct{ Keys []adminapi.Key }
	o.call("GET", "keys", "", &list)
	return list.Keys
}

func client(id string) url.Values    { return url.Values{"client_id": {id}} }
func subject(name string) url.Values { return url.Values{"subject": {name}} }

// A change is a command whose effects are stored together or not at all.
type change struct {
	command func(o operator, n string) []string
	// effects returns how often each effect has been stored. All counts must be equal.
	effects func(o operator, n string) []int
}

func count(is bool) int {
	if is {
		return 1
	}
	return 0
}

// changes are the commands with their effects: mostly the changed state and its audit
// event.
var changes = map[string]change{
	"client create": {
		func(_ operator, n string) []string {
			return []string{"client", "create", "--id", n, "--name", n, "--redirect-uri", "https://shop.example/cb", "--scope", "read"}
		},
		func(o operator, n string) []int {
			var c adminapi.Client
			o.call("GET", "clients/"+n, "", &c)
			return []int{count(c.ID == n), len(c.Secrets), o.events(client(n), "client_created", "")}
		},
	},
	"client update": {
		func(o operator, n string) []string { return []string{"client", "update", o.s.ClientID, "--name", n} },
		func(o operator, n string) []int {
			var c adminapi.Client
			o.call("GET", "clients/"+o.s.ClientID, "", &c)
			return []int{count(c.Name == n), o.events(client(o.s.ClientID), "client_changed", `name "`+n+`"`)}
		},
	},
	"client secret add": {
		func(o operator, n string) []string {
			o.call("POST", "clients", `{"id":"`+n+`","name":"Shop","redirect_uris":["https://shop.example/cb"],"scope":"read"}`, nil)
			return []string{"client", "secret", "add", n}
		},
		func(o operator, n string) []int {
			var c adminapi.Client
			o.call("GET", "clients/"+n, "", &c)
			return []int{len(c.Secrets) - 1, o.events(client(n), "secret_added", "")}
		},
	},
	"user create": {
		func(_ operator, n string) []string { return []string{"user", "create", n} },
		func(o operator, n string) []int {
			return []int{count(o.call("GET", "users/"+n, "", nil) == 200), o.events(subject(n), "user_created", "")}
		},
	},
	"user disable": {
		func(o operator, n string) []string {
			o.call("POST", "users", `{"username":"`+n+`"}`, nil)
			return []string{"user", "disable", n}
		},
		func(o operator, n string) []int {
			var u adminapi.User
			var list struct{ Cutoffs []adminapi.Cutoff }
			o.call("GET", "users/"+n, "", &u)
			o.call("GET", "cutoffs?subject="+n, "", &list)
			return []int{count(u.State == "disabled"), len(list.Cutoffs), o.events(subject(n), "user_disabled", "")}
		},
	},
	"grant revoke": {
		func(o operator, n string) []string {
			code, err := o.s.FastCode(o.t.Context(), n)
			if err != nil {
				o.t.Fatal(err)
			}
			if a, err := o.s.Post(o.t.Context(), &http.Client{Transport: o.s.Transport(o.t, "")}, o.s.ExchangeForm(code)); err != nil || a.Status != http.StatusOK {
				o.t.Fatalf("issue a grant: status %d, %v", a.Status, err)
			}
			return []string{"grant", "revoke", o.grant(n).ID}
		},
		func(o operator, n string) []int {
			g := o.grant(n)
			return []int{count(g.State == "revoked"), o.events(url.Values{"grant_id": {g.ID}}, "grant_revoked", "")}
		},
	},
	"grant revoke --subject": {
		func(_ operator, n string) []string { return []string{"grant", "revoke", "--subject", n} },
		cutoffOf,
	},
	"session end --all": {
		func(_ operator, n string) []string { return []string{"session", "end", "--all", "--subject", n} },
		cutoffOf,
	},
	"keys rotate": {
		func(operator, string) []string { return []string{"keys", "rotate", "--purpose", "mac", "--in", "24h"} },
		func(o operator, _ string) (n []int) {
			for _, k := range o.keys() {
				n = append(n, o.events(client(k.ID), "key_added", ""))
			}
			return n
		},
	},
	"keys withdraw": {
		func(o operator, _ string) []string {
			for _, k := range o.keys() {
				if k.Purpose == "EdDSA" && k.Phase == "active" {
					return []string{"keys", "withdraw", k.ID}
				}
			}
			o.t.Fatal("no active key")
			return nil
		},
		func(o operator, _ string) []int {
			withdrawn, recorded, keys, active := 0, 0, 0, 0
			for _, k := range o.keys() {
				if k.Purpose == "EdDSA" {
					keys++
					withdrawn, active = withdrawn+count(k.Phase == "withdrawn"), active+count(k.Phase == "active")
					recorded += o.events(client(k.ID), "key_withdrawn", "")
				}
			}
			if active != 1 {
				o.t.Errorf("%d keys are active", active)
			}
			return []int{withdrawn, recorded, keys - 1}
		},
	},
	"admin token create": {
		func(o operator, n string) []string {
			// A store holds at most fifty tokens: delete those of earlier rounds.
			var list struct {
				Tokens []adminapi.Token `json:"admin_tokens"`
			}
			o.call("GET", "admin-tokens", "", &list)
			for _, t := range list.Tokens {
				o.call("DELETE", "admin-tokens/"+t.Name, "", nil)
			}
			return []string{"admin", "token", "create", n, "--role", "auditor"}
		},
		func(o operator, n string) []int {
			var list struct {
				Tokens []adminapi.Token `json:"admin_tokens"`
			}
			o.call("GET", "admin-tokens", "", &list)
			made := 0
			for _, t := range list.Tokens {
				made += count(t.Name == n)
			}
			return []int{made, o.events(client("admin tokens"), "admin_token_created", n+":")}
		},
	},
	// An import commits a hundred users at a time.
	"user import": {
		func(o operator, n string) []string {
			var lines strings.Builder
			for i := range 150 {
				fmt.Fprintf(&lines, "{\"username\":\"%s-%03d\"}\n", n, i)
			}
			file := filepath.Join(o.s.Dir, n+".jsonl")
			if err := os.WriteFile(file, []byte(lines.String()), 0o600); err != nil {
				o.t.Fatal(err)
			}
			return []string{"user", "import", file}
		},
		func(o operator, n string) []int {
			var list struct{ Users []adminapi.User }
			o.call("GET", "users?limit=500&match="+n+"-", "", &list)
			events := 0
			for _, u := range list.Users {
				events += o.events(subject(u.Subject), "user_created", "imported")
			}
			whole := len(list.Users)
			if whole != 0 && whole != 100 && whole != 150 {
				whole = -1 // part of a commit, or the list was read during an import
			}
			return []int{len(list.Users), events, whole}
		},
	},
}

func (o operator) grant(subject string) adminapi.Grant {
	o.t.Helper()
	var list struct{ Grants []adminapi.Grant }
	o.call("GET", "grants?subject="+subject, "", &list)
	if len(list.Grants) != 1 {
		o.t.Fatalf("%d grants of %s", len(list.Grants), subject)
	}
	return list.Grants[0]
}

func cutoffOf(o operator, n string) []int {
	var list struct{ Cutoffs []adminapi.Cutoff }
	o.call("GET", "cutoffs?subject="+n, "", &list)
	return []int{len(list.Cutoffs), o.events(subject(n), "cutoff", "")}
}

// allEqual reports whether all counts are equal.
func allEqual(effects []int) bool { return len(slices.Compact(slices.Clone(effects))) <= 1 }

// TestKilledCommandsLeaveNothingHalfDone kills commands, and in every other round the
// server too, at random moments. Each change is stored as a whole or not at all, and the
// command can be repeated.
func TestKilledCommandsLeaveNothingHalfDone(t *testing.T) {
	onEachEngine(t, func(t *testing.T, s *binary.Server, flags ...string) {
		o := operator{t, s}
		done, undone := 0, 0
		began := time.Now()
		s.Run(t, "client", "list")
		usual := time.Since(began) // the duration of a command on this machine
		for round := range binary.Scaled(2, 60) {
			for name, c := range changes {
				n := fmt.Sprintf("%s-%d", strings.NewReplacer(" ", "", "-", "").Replace(name), round)
				args := append(append(c.command(o, n), "--data", s.Dir), flags...)
				before := c.effects(o, n)
				cmd := binary.Command(t, args...)
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				time.Sleep(rand.N(2 * usual))
				beside := round%2 == 0
				if beside {
					s.Kill()
				}
				cmd.Process.Kill()
				cmd.Wait()
				if beside {
					restart(t, s)
				}
				after := c.effects(o, n)
				// A server that was not killed may still execute the command's request
				// while its effects are read one by one. A change that is really half
				// done stays unequal.
				for range 3 {
					if !beside && !allEqual(after) {
						after = c.effects(o, n)
					}
				}
				if !allEqual(after) {
					t.Errorf("mintage %s: effects are stored %v times, and were before %v", name, after, before)
				}
				if fmt.Sprint(after) == fmt.Sprint(before) {
					undone++
					out, err := binary.Command(t, args...).CombinedOutput()
					// The surviving server may have executed the first request meanwhile.
					if err != nil && (beside || fmt.Sprint(c.effects(o, n)) == fmt.Sprint(before)) {
						t.Errorf("repeat mintage %s: %v\n%s", name, err, out)
					}
				} else {
					done++
				}
			}
		}
		t.Logf("%d commands were done when they or the server were killed, %d were not", done, undone)
		if binary.Scaled(0, 1) == 1 && (done == 0 || undone == 0) {
			t.Error("no command was killed near its end")
		}
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
}
