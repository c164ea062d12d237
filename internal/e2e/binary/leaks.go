package binary

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// This file searches everything that the program logs, counts and stores in the
// end-to-end tests for secrets, of which it must not contain any.

// Leaks are secrets that must not be found. Those that mintage generates are recognized
// by their form, even by a nil Leaks; other secrets must be registered with Know.
type Leaks struct {
	mu    sync.Mutex
	known map[string]string // text to kind
}

// A Leak is a secret that was found.
type Leak struct {
	Kind string
	Text string // the beginning of the secret
}

func (l Leak) String() string { return fmt.Sprintf("%s, beginning with %q", l.Kind, l.Text) }

// shapes are the forms of the secrets that mintage generates. The search looks for the
// fixed prefix first, because that is faster.
var shapes = []struct {
	kind, begins string
	shape        *regexp.Regexp
}{
	{"an authorization code", "mintage_ac_", regexp.MustCompile(`^mintage_ac_[A-Za-z0-9_-]{20,}`)},
	{"a refresh token", "mintage_rt_", regexp.MustCompile(`^mintage_rt_[A-Za-z0-9_-]{20,}`)},
	{"an access token", "mintage_at_", regexp.MustCompile(`^mintage_at_[A-Za-z0-9_-]{20,}`)},
	{"a token of a client for itself", "mintage_st_", regexp.MustCompile(`^mintage_st_[A-Za-z0-9_-]{20,}`)},
	{"a JWT", "eyJ", regexp.MustCompile(`^eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}`)},
	{"a private key", "-----BEGIN ", regexp.MustCompile(`^-----BEGIN [A-Z ]*PRIVATE KEY-----`)},
}

// leastKnown is the length from which a text cannot be an ordinary word of a log.
const leastKnown = 8

// Know adds secrets of a kind. It ignores those shorter than eight characters.
func (l *Leaks) Know(kind string, texts ...string) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.known == nil {
		l.known = map[string]string{}
	}
	for _, text := range texts {
		if text = strings.TrimSpace(text); len(text) >= leastKnown {
			l.known[text] = kind
		}
	}
}

// KnowClient adds a client's secret, and its Basic credentials.
func (l *Leaks) KnowClient(id, secret string) {
	l.Know("a client secret", secret)
	if len(secret) >= leastKnown {
		l.Know("Basic credentials", base64.StdEncoding.EncodeToString([]byte(id+":"+secret)))
	}
}

// Search lists the secrets in a text, each kind once.
func (l *Leaks) Search(text []byte) (found []Leak) {
	if l == nil {
		l = &Leaks{}
	}
	for _, s := range shapes {
		for rest := text; ; {
			i := bytes.Index(rest, []byte(s.begins))
			if i < 0 {
				break
			}
			rest = rest[i:]
			if s.shape.Match(rest[:min(len(rest), 1<<14)]) {
				found = append(found, Leak{s.kind, string(rest[:min(len(rest), 16)])})
				break
			}
			rest = rest[len(s.begins):]
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for secret, kind := range l.known {
		if bytes.Contains(text, []byte(secret)) {
			found = append(found, Leak{kind, secret[:4]})
		}
	}
	return found
}

// mayHold are the files of a data directory that contain secrets on purpose. Only their
// owner may read each of them.
var mayHold = []string{
	"kek",         // the key-encryption key
	"dev.json",    // by --dev: the demo client's secret, and the demo user's password
	"dev-key.pem", // by --dev: the private key of the certificate
	"tokens.json", // a response that commands of the documentation store
}

// searchFiles searches all files below a directory except the named ones.
func (l *Leaks) searchFiles(dir string, except []string) (found []string, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || slices.Contains(except, d.Name()) {
			return ignoreGone(err)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return ignoreGone(err)
		}
		for _, leak := range l.Search(text) {
			found = append(found, fmt.Sprintf("%s holds %s", path, leak))
		}
		return nil
	})
	return found, err
}

func ignoreGone(err error) error {
	if os.IsNotExist(err) {
		return nil // a temporary file
	}
	return err
}

// Exempt names a file that a test itself puts into the data directory.
func (s *Server) Exempt(name string) { s.exempt = append(s.exempt, name) }

// learn adds the secrets that a start has generated.
func (s *Server) learn() {
	if kek, err := os.ReadFile(filepath.Join(s.Dir, "kek")); err == nil {
		s.Leaks.Know("the key-encryption key", string(kek))
	}
	text, err := os.ReadFile(filepath.Join(s.Dir, "dev.json"))
	var dev struct {
		ClientID     string `json:"client_id"`
		ClientSecret string `json:"client_secret"`
		Password     string `json:"password"`
	}
	if err == nil && json.Unmarshal(text, &dev) == nil {
		s.Leaks.KnowClient(dev.ClientID, dev.ClientSecret)
		s.Leaks.Know("a password", dev.Password)
	}
	s.Leaks.KnowClient(s.ClientID, s.ClientSecret)
}

// scrape saves the responses of the management listener for the search.
func (s *Server) scrape() {
	if s.Management == "" {
		return
	}
	client := http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get(s.Management + "/metrics")
	if err != nil {
		return // the server has ended, or a test has made it hang
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	s.metrics = append(s.metrics, text...)
}

// leaks lists the secrets that a stopped server has left anywhere.
func (s *Server) leaks() (found []string, err error) {
	s.learn()
	for what, text := range map[string][]byte{"the log": s.Written(), "/metrics": s.metrics} {
		for _, leak := range s.Leaks.Search(text) {
			found = append(found, fmt.Sprintf("%s holds %s", what, leak))
		}
	}
	files, err := s.Leaks.searchFiles(s.Dir, slices.Concat(mayHold, s.exempt))
	return append(found, files...), err
}

// Written returns the standard error of all runs. Call it after the end of the program.
func (s *Server) Written() []byte {
	text := slices.Clone(s.logged)
	if s.log != nil {
		text = append(text, s.log.String()...)
	}
	return text
}

// finish ends the server and searches everything that it has left.
func (s *Server) finish(t testing.TB) {
	s.Kill()
	found, err := s.leaks()
	if err != nil {
		t.Errorf("search for secrets: %v", err)
	}
	for _, f := range found {
		t.Errorf("secret: %s", f)
	}
}

// prints lists the commands that print a secret on purpose.
var prints = [][]string{
	{"client", "create"}, {"client", "secret"}, // the secret, once
	{"user", "create"}, {"user", "passwd"}, {"user", "password"}, {"user", "totp"}, // likewise
	{"code", "issue"}, // a code
	{"admin"}, {"bench"},
}

func printsSecret(args []string) bool {
	return slices.ContainsFunc(prints, func(p []string) bool { return len(args) >= len(p) && slices.Equal(args[:len(p)], p) })
}

// generated is the form of the secrets that commands generate and print.
var generated = regexp.MustCompile(`\b[A-Za-z0-9]{43}\b`)

// searchCommand searches a command's output for secrets. If the command prints secrets on
// purpose, it adds them instead.
func (s *Server) searchCommand(t testing.TB, args []string, stdout, stderr []byte) {
	t.Helper()
	if printsSecret(args) {
		if args[0] == "client" {
			s.Leaks.Know("a client secret", generated.FindAllString(string(stdout), -1)...)
		}
		return
	}
	for what, text := range map[string][]byte{"standard output": stdout, "standard error": stderr} {
		for _, leak := range s.Leaks.Search(text) {
			t.Errorf("secret: %s of mintage %s holds %s", what, strings.Join(args[:min(len(args), 2)], " "), leak)
		}
	}
}
