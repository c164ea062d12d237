package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mintage/mintage/internal/config"
)

// write creates a file in dir and returns its path.
func write(t testing.TB, dir, name, text string, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestSourcesNameThePlaceOfEachSetting(t *testing.T) {
	dir := t.TempDir()
	credentials := t.TempDir()
	write(t, credentials, "admin_token", "x", 0o400)
	file := write(t, dir, "m.yaml", "data: d\n\ntls:\n  cert: c\n", 0o600)
	_, from, err := config.Load(file, []string{"MINTAGE_LISTEN=:1", "CREDENTIALS_DIRECTORY=" + credentials}, map[string]string{"base-path": "/x"})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"data": file + ":1", "tls.cert": file + ":4", "listen": "MINTAGE_LISTEN", "base_path": "--base-path",
		"admin.token_file": "systemd credential admin_token", "tls.key": "default",
	} {
		if got := from[name].String(); got != want {
			t.Errorf("%s comes from %s, want %s", name, got, want)
		}
	}
	if len(from) != 5 {
		t.Errorf("%v", from)
	}
}

func TestFaultsOfTheCheckNameTheirPlace(t *testing.T) {
	file := writeFile(t, "public_url: https://a.example\nretry_window: 1h\ntls:\n  cert: c\n")
	c, from, err := config.Load(file, []string{"MINTAGE_CODE_LIFETIME=1h"}, map[string]string{"log-level": "loud"})
	if err != nil {
		t.Fatal(err)
	}
	got := from.Explain(c.Check()).Error()
	for _, want := range []string{
		file + ":2: retry_window: 1h is outside",
		file + ":4: tls: cert and key belong together", // a fault of the section
		"environment: MINTAGE_CODE_LIFETIME: code_lifetime: 1h is outside",
		"log.level: \"loud\" is not debug, info, warn or error",
	} {
		found := false
		for line := range strings.Lines(got) {
			found = found || strings.HasPrefix(line, want)
		}
		if !found {
			t.Errorf("no line begins %q in\n%s", want, got)
		}
	}
	if from.Explain(nil) != nil {
		t.Error("no fault is explained as one")
	}
}

func TestFaultsOfAllSourcesAreToldAtOnce(t *testing.T) {
	c, _, err := config.Load(writeFile(t, "lisen: x\nretry_window: soon\ncode_lifetime: 2m\n"), []string{"MINTAGE_LISTN=x", "MINTAGE_MAX_SKEW=y"}, map[string]string{"grant-lifetime": "z"})
	faults, all := config.Faults(err)
	if len(faults) != 5 || !all {
		t.Errorf("%d faults in\n%v", len(faults), err)
	}
	if c.CodeLifetime.String() != "2m" {
		t.Error("what is not at fault was not read")
	}
	if _, all := config.Faults(os.ErrNotExist); all {
		t.Error("a file that is not there is taken for a setting")
	}
}

func TestASecretComesFromTheFileThatItsVariableNames(t *testing.T) {
	dir := t.TempDir()
	const url = "postgres://mintage:geheim@db/mintage"
	good := write(t, dir, "url", url+"\n", 0o440)
	c, from, err := config.Load(writeFile(t, "store: sqlite\n"), []string{"MINTAGE_STORE_FILE=" + good}, nil)
	if err != nil || c.Store != url || from["store"].String() != "MINTAGE_STORE_FILE" {
		t.Errorf("%q from %s, %v", c.Store, from["store"], err)
	}
	for _, tt := range []struct{ name, path, want string }{
		{"is not there", filepath.Join(dir, "none"), "no such file"},
		{"is a directory", dir, "is a directory"},
		{"everybody can read", write(t, dir, "open", url, 0o644), "everybody on this machine can read or change it (mode 0644)"},
		{"is empty", write(t, dir, "empty", " \n", 0o600), "is empty"},
		{"is not named", "", "it names no file"},
		{"is larger than a secret", write(t, dir, "large", strings.Repeat("x", 1<<17), 0o600), "larger than 64 KiB"},
	} {
		_, _, err := config.Load("", []string{"MINTAGE_STORE_FILE=" + tt.path}, nil)
		if err == nil || !strings.HasPrefix(err.Error(), "environment: MINTAGE_STORE_FILE: ") || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("a file that %s: %v, want what is wrong with which variable", tt.name, err)
		}
	}
	for _, env := range [][]string{{"MINTAGE_STORE=sqlite", "MINTAGE_STORE_FILE=" + good}, {"MINTAGE_STORE_FILE=" + good, "MINTAGE_STORE=sqlite"}} {
		_, _, err := config.Load("", env, nil)
		if err == nil || !strings.Contains(err.Error(), "MINTAGE_STORE_FILE") || !strings.Contains(err.Error(), "MINTAGE_STORE is set as well") && !strings.Contains(err.Error(), "MINTAGE_STORE_FILE is set as well") || strings.Contains(err.Error(), "geheim") {
			t.Errorf("both variables: %v", err)
		}
	}
	if c, _, err := config.Load("", []string{"MINTAGE_STORE_FILE=" + good}, map[string]string{"store": "sqlite"}); err != nil || c.Store != "sqlite" {
		t.Errorf("a flag goes over the file of a variable: %q, %v", c.Store, err)
	}
	if _, _, err := config.Load("", []string{"MINTAGE_DATA_FILE=" + good}, nil); err == nil || !strings.Contains(err.Error(), "unknown setting MINTAGE_DATA_FILE") {
		t.Errorf("a setting that is no secret has such a variable: %v", err)
	}
}

func TestAFileWithAPasswordMustNotBeWorldReadable(t *testing.T) {
	const text = "public_url: https://auth.example.com\nstore: postgres://mintage:geheim@db/mintage\n"
	for mode, refused := range map[os.FileMode]bool{0o600: false, 0o640: false, 0o644: true} {
		_, _, err := config.Load(write(t, t.TempDir(), "mintage.yaml", text, mode), nil, nil)
		if (err != nil) != refused || refused && (!strings.Contains(err.Error(), "mintage.yaml:2: store: it holds a password") || strings.Contains(err.Error(), "geheim")) {
			t.Errorf("mode %o: %v", mode, err)
		}
	}
	if _, _, err := config.Load(write(t, t.TempDir(), "mintage.yaml", strings.Replace(text, ":geheim", "", 1), 0o644), nil, nil); err != nil {
		t.Errorf("without a password: %v", err)
	}
}

func TestCredentialsOfSystemdAreUsedWhereNothingElseIsGiven(t *testing.T) {
	dir := t.TempDir()
	env := []string{"CREDENTIALS_DIRECTORY=" + dir}
	if c, from, err := config.Load("", env, nil); err != nil || len(from) != 0 || c.KEKFile != "" {
		t.Errorf("no credential: %v, %v", from, err)
	}
	for _, k := range config.Keys() {
		if k.Credential == "" {
			continue
		}
		path := write(t, dir, k.Credential, "postgres://u@db/d\n", 0o400)
		want := path
		if k.EnvFile != "" {
			want = "postgres://u@db/d" // the variable contains the value itself
		}
		c, from, err := config.Load("", env, nil)
		if err != nil || k.Text(c) != want || from[k.Name].Credential != k.Credential {
			t.Errorf("%s is %q, from %s, %v; want %q", k.Name, k.Text(c), from[k.Name], err, want)
		}
		c, _, err = config.Load(writeFile(t, k.Name+": given\n"), env, nil)
		if err != nil || k.Text(c) != "given" {
			t.Errorf("%s is %q although the file gives it, %v", k.Name, k.Text(c), err)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	write(t, dir, "store", "", 0o400)
	if _, _, err := config.Load("", env, nil); err == nil || !strings.Contains(err.Error(), "systemd credential store: store: ") {
		t.Errorf("an empty credential: %v", err)
	}
}

// Settings that contain a secret, or name a file with one, can be set by a systemd
// credential, and no other settings can.
func TestEverySecretHasACredential(t *testing.T) {
	seen := map[string]string{}
	for _, k := range config.Keys() {
		secret := k.EnvFile != "" || k.Name == "tls.key" || strings.Contains(k.Name, "kek") || strings.Contains(k.Name, "password_file") || strings.Contains(k.Name, "secret_file") || strings.Contains(k.Name, "token_file")
		if secret != (k.Credential != "") {
			t.Errorf("%s has the credential %q", k.Name, k.Credential)
		}
		if k.Credential != "" && seen[k.Credential] != "" {
			t.Errorf("%s and %s share a credential", k.Name, seen[k.Credential])
		}
		seen[k.Credential] = k.Name
	}
	for _, name := range []string{"kek", "store", "store_password", "admin_token", "upstream_client_secret"} {
		if seen[name] == "" {
			t.Errorf("no setting has the credential %s", name)
		}
	}
}
