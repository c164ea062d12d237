package config_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/mintage/mintage/internal/config"
)

// another returns a value of k that is not its default.
func another(k config.Key) string {
	switch {
	case k.Choices != nil:
		return k.Choices[slices.IndexFunc(k.Choices, func(c string) bool { return c != k.Default })]
	case k.IsBool:
		return map[string]string{"": "true", "true": "false"}[k.Default]
	}
	for _, text := range []string{"7", "17s", "17MiB", "10.9.0.0/16", "any text"} {
		if _, _, err := config.Load("", nil, map[string]string{k.Flag: text}); err == nil {
			return text
		}
	}
	return ""
}

// everyOther returns a configuration in which no setting has its default.
func everyOther(t *testing.T) (config.Config, config.Sources) {
	t.Helper()
	flags := map[string]string{}
	for _, k := range config.Keys() {
		if flags[k.Flag] = another(k); flags[k.Flag] == "" {
			t.Fatalf("no value for %s", k.Name)
		}
	}
	flags["store"] = "postgres://mintage@db/mintage"
	c, from, err := config.Load("", nil, flags)
	if err != nil {
		t.Fatal(err)
	}
	return c, from
}

func show(t *testing.T, c config.Config, from config.Sources, changed bool) string {
	t.Helper()
	var b strings.Builder
	if err := config.Show(&b, c, from, changed); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestWhatIsShownIsAFileThatSaysTheSame(t *testing.T) {
	other, otherFrom := everyOther(t)
	hard := config.Default()
	hard.CORS.Origins = []string{"https://a.example", "https://b.example"}
	hard.Data, hard.BasePath, hard.Issuer, hard.KEKFile = "null", "true", "# no comment", " 12: x\n\ty"
	hard.PublicURL, hard.Pages.Directory, hard.Login.HandoffURL = "~", "*x", "日本"
	for name, tt := range map[string]struct {
		c    config.Config
		from config.Sources
	}{"default": {config.Default(), nil}, "nothing as by default": {other, otherFrom}, "hard to write": {hard, nil}} {
		text := show(t, tt.c, tt.from, false)
		got, from, err := config.Load(writeFile(t, text), nil, nil)
		if err != nil || !reflect.DeepEqual(got, tt.c) {
			t.Errorf("%s is shown as\n%s\nand read as %+v, %v", name, text, got, err)
		}
		if len(from) != len(config.Keys()) {
			t.Errorf("%s: %d of %d settings are shown", name, len(from), len(config.Keys()))
		}
	}
}

func TestShowTellsWhereEachSettingComesFrom(t *testing.T) {
	file := writeFile(t, "retry_window: 90s\nlogin: {mode: off}\n")
	c, from, err := config.Load(file, []string{"MINTAGE_PUBLIC_URL=https://a.example"}, map[string]string{"log-level": "warn"})
	if err != nil {
		t.Fatal(err)
	}
	const rest = "listen: 127.0.0.1:8443 # default\n"
	text := show(t, c, from, false)
	for _, want := range []string{
		"retry_window: 1m30s # " + file + ":1\n", "  mode: off # " + file + ":2\n", "public_url: https://a.example # MINTAGE_PUBLIC_URL\n", "  level: warn # --log-level\n",
		"issuer: \"\" # default, which means https://a.example/oauth2/api\n", "  listen: \"\" # default, which means unix:mintage-data/admin.sock\n", rest,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	changed := show(t, c, from, true)
	if want := fmt.Sprintf("public_url: https://a.example # MINTAGE_PUBLIC_URL\nretry_window: 1m30s # %[1]s:1\nlogin:\n  mode: off # %[1]s:2\nlog:\n  level: warn # --log-level\n", file); changed != want {
		t.Errorf("what is changed is shown as\n%s\nwant\n%s", changed, want)
	}
	if got := show(t, config.Default(), nil, true); got != "{}\n" {
		t.Errorf("no change is shown as %q", got)
	}
}

func TestNoPasswordIsShown(t *testing.T) {
	for store, want := range map[string]string{
		"postgres://u:geheim@h:5432/d?sslmode=require":                               "postgres://u@h:5432/d?sslmode=require",
		"postgres://u@h/d?password=geheim&sslmode=require&sslpassword=geheim":        "postgres://u@h/d?sslmode=require",
		"postgres://geheim:geheim:geheim@@":                                          "",
		"host=h password=geheim":                                                     "",
		"postgres://u@h/d":                                                           "postgres://u@h/d",
		"postgres://u:%67eheim@a:1,b:2/d?target_session_attrs=read-write&PASSWORD=x": "postgres://u@a:1,b:2/d?",
	} {
		c, from, err := config.Load(writeFile(t, "store: "+store+"\n"), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		text := show(t, c, from, false)
		if strings.Contains(text, "geheim") || strings.Contains(text, "%67") {
			t.Errorf("%s is shown as\n%s", store, text)
		}
		again, _, err := config.Load(writeFile(t, text), nil, nil)
		if err != nil || !strings.HasPrefix(again.Store, want) || (want == "") != (again.Store == "") {
			t.Errorf("%s is shown as %q, %v; want %q", store, again.Store, err, want)
		}
		if hidden := strings.Contains(text, "not shown"); hidden != (store != want) {
			t.Errorf("%s: that something is not shown is said: %t", store, hidden)
		}
	}
}

func TestReloadTakesOverWhatItCanAndNamesTheRest(t *testing.T) {
	running := config.Default()
	for _, k := range config.Keys() {
		wanted, _, err := config.Load("", nil, map[string]string{k.Flag: another(k)})
		if err != nil {
			t.Fatal(err)
		}
		next, changed, kept := running.Reloaded(wanted)
		switch {
		case k.Reloads && (!reflect.DeepEqual(next, wanted) || !slices.Equal(changed, []string{k.Name}) || kept != nil):
			t.Errorf("%s: changed %q, kept %q", k.Name, changed, kept)
		case !k.Reloads && (!reflect.DeepEqual(next, running) || !slices.Equal(kept, []string{k.Name}) || changed != nil):
			t.Errorf("%s takes a restart: changed %q, kept %q", k.Name, changed, kept)
		}
	}
	all, _ := everyOther(t)
	next, changed, kept := running.Reloaded(all)
	if len(changed)+len(kept) != len(config.Keys()) || len(changed) == 0 || len(kept) == 0 {
		t.Errorf("%d settings have changed and %d kept their values, of %d", len(changed), len(kept), len(config.Keys()))
	}
	if _, changed, _ = next.Reloaded(all); changed != nil {
		t.Errorf("the same again changes %q", changed)
	}
}

// These settings belong to things that live as long as the process: sockets, the store,
// the directory with its keys, and the identity in tokens.
func TestWhatIsFixedAtTheStartTakesARestart(t *testing.T) {
	fixed := []string{
		"data", "kek_file", "store", "store_password_file", "public_url", "base_path", "issuer", "listen", "tls.cert", "tls.key",
		"management.listen", "management.pprof", "admin.listen", "max_skew", "key_lifetime", "key_lead", "jwks_max_age",
		"access_token_lifetime", // keys are kept for as long as tokens live
		"log.format",
	}
	reloads := []string{"retry_window", "throttle.client_failures", "cors.origins", "log.level", "trusted_proxies", "pages.directory", "admin.token_file"}
	for _, k := range config.Keys() {
		if slices.Contains(fixed, k.Name) && k.Reloads || slices.Contains(reloads, k.Name) && !k.Reloads {
			t.Errorf("%s: a reload takes it over: %t", k.Name, k.Reloads)
		}
	}
}
