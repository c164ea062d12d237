package binary

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// planted returns for each kind of secret a text that contains one.
func planted(l *Leaks) map[string]string {
	long := strings.Repeat("Ab3_-", 20)
	secret := strings.Repeat("k7Qz", 10) + "abc"
	l.KnowClient("billing", secret)
	l.Know("a password", "correct horse battery")
	l.Know("an admin token", strings.Repeat("0123", 8))
	l.Know("a session cookie", strings.Repeat("c00k", 10)+"abc")
	l.Know("the key-encryption key", strings.Repeat("x/+1", 10)+"abc=\n")
	return map[string]string{
		"an authorization code":          "mintage_ac_" + long,
		"a refresh token":                "mintage_rt_" + long,
		"an access token":                "mintage_at_" + long,
		"a token of a client for itself": "mintage_st_" + long,
		"a JWT":                          "eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJhbGljZSJ9." + long,
		"a private key":                  "-----BEGIN EC PRIVATE KEY-----",
		"a client secret":                secret,
		"Basic credentials":              base64.StdEncoding.EncodeToString([]byte("billing:" + secret)),
		"a password":                     "correct horse battery",
		"an admin token":                 strings.Repeat("0123", 8),
		"a session cookie":               strings.Repeat("c00k", 10) + "abc",
		"the key-encryption key":         strings.Repeat("x/+1", 10) + "abc=",
	}
}

func written(text string) *Output {
	o := &Output{}
	o.Write([]byte(text))
	return o
}

// TestEveryKindOfSecretIsFoundWhereverItIs guards against a search that passes every test
// because it looks nowhere: it plants each kind of secret in each place, where the search
// must find it.
func TestEveryKindOfSecretIsFoundWhereverItIs(t *testing.T) {
	noise := strings.Repeat(`{"msg":"token request refused","client_id":"billing","prefix":"mintage_rt_","x":"eyJ.eyJ.x"}`+"\n", 500)
	for kind, text := range planted(&Leaks{}) {
		for place, plant := range map[string]func(s *Server, text []byte){
			"the log":  func(s *Server, text []byte) { s.log = written(string(text)) },
			"of a run": func(s *Server, text []byte) { s.logged = text },
			"metrics":  func(s *Server, text []byte) { s.metrics = text },
			"a file": func(s *Server, text []byte) {
				if err := os.WriteFile(filepath.Join(s.Dir, "mintage.db-wal"), text, 0o600); err != nil {
					t.Fatal(err)
				}
			},
			"the audit log": func(s *Server, text []byte) {
				dir := filepath.Join(s.Dir, "audit")
				if err := os.MkdirAll(dir, 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(dir, "00000001.jsonl"), text, 0o600); err != nil {
					t.Fatal(err)
				}
			},
		} {
			s := &Server{Dir: t.TempDir(), Leaks: &Leaks{}}
			planted(s.Leaks)
			plant(s, []byte(noise))
			if found, err := s.leaks(); err != nil || len(found) > 0 {
				t.Errorf("nothing planted in %s: %q, %v", place, found, err)
			}
			plant(s, []byte(noise+`"`+text+`"`+noise))
			found, err := s.leaks()
			if err != nil || len(found) == 0 || !strings.Contains(strings.Join(found, "\n"), kind) {
				t.Errorf("%s in %s: found %q, %v", kind, place, found, err)
			}
			if strings.Contains(strings.Join(found, "\n"), text) && kind != "a private key" {
				t.Errorf("%s in %s: the report contains the secret", kind, place)
			}
		}
	}
}

// TestOnlyNamedFilesMayHoldASecret: only the named files may contain a secret; the search
// skips no other file.
func TestOnlyNamedFilesMayHoldASecret(t *testing.T) {
	s := &Server{Dir: t.TempDir(), Leaks: &Leaks{}}
	token := []byte("mintage_rt_" + strings.Repeat("a", 40))
	s.Exempt("mine.txt")
	for _, name := range append(mayHold, "mine.txt", "kek.old", "dev.json.new") {
		text := token
		if name == "kek" {
			text = []byte("mintage_rt_" + strings.Repeat("b", 40)) // searched for in any test
		}
		if err := os.WriteFile(filepath.Join(s.Dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if found, err := s.leaks(); err != nil || len(found) != 2 {
		t.Errorf("%q, %v; want the two that are not named", found, err)
	}
}

// TestWhatACommandPrintsIsSearchedOrLearnt: a command's output is searched, unless the
// command prints a secret on purpose. That secret must then not occur anywhere else.
func TestWhatACommandPrintsIsSearchedOrLearnt(t *testing.T) {
	secret := strings.Repeat("k7Qz", 10) + "abc"
	s := &Server{Dir: t.TempDir(), Leaks: &Leaks{}, log: written("secret " + secret)}
	if found, _ := s.leaks(); len(found) != 0 {
		t.Errorf("found before it is known: %q", found)
	}
	s.searchCommand(t, []string{"client", "create", "--name", "x"}, []byte("client x\nsecret "+secret+"\n"), nil)
	if found, _ := s.leaks(); len(found) != 1 {
		t.Errorf("what client create has printed is not searched for: %q", found)
	}
	fake := &recorder{TB: t}
	s.searchCommand(fake, []string{"client", "list"}, []byte(secret), []byte("mintage_ac_"+strings.Repeat("b", 30)))
	if fake.errors != 2 {
		t.Errorf("%d of 2 leaks of a command are found", fake.errors)
	}
}

// A recorder counts errors that a test makes on purpose.
type recorder struct {
	testing.TB
	errors int
}

func (r *recorder) Errorf(string, ...any) { r.errors++ }
func (r *recorder) Helper()               {}
