package config_test

import (
	"os"
	"strings"
	"testing"

	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/testkit"
)

func TestFilesThatAreNotWhatTheyShouldBeAreRefusedWithAReason(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		want       []string
	}{
		{"tab as indentation", "tls:\n\tcert: x\n", []string{"mintage.yaml: line 2: indented with a tab", "use spaces"}},
		{"not UTF-8", "data: x\nlisten: \xff\n", []string{"mintage.yaml: line 2: this is not UTF-8 text"}},
		{"UTF-16", "\xff\xfed\x00a\x00", []string{"line 1: this is not UTF-8 text"}},
		{"control characters", "data: \x01\n", []string{"mintage.yaml: this is not YAML: control characters are not allowed"}},
		{"larger than a configuration", "#" + strings.Repeat("x", 1<<20), []string{"larger than 1 MiB"}},
		{"merge key", "log: &l\n  level: info\nthrottle:\n  <<: *l\n", []string{":4: merge keys (<<) are not understood"}},
		{"alias of a section", "login: &l\n  mode: off\nsession: *l\n", []string{":3: session is a section"}},
		{"alias in a list", "data: &a x\ncors:\n  origins: [*a]\n", []string{":3: cors.origins: a single value, or a list of them, is expected, not an alias (*a)"}},
		{"name that is no text", "? [a]\n: b\n", []string{":1: the name of a setting is expected"}},
		{"tag", "data: !!binary eA==\n", []string{`:1: data: the tag "!!binary" is not understood`}},
		{"own tag", "data: !secret x\n", []string{`:1: data: the tag "!secret" is not understood`}},
		{"section twice", "log: {level: info}\nlog: {format: json}\n", []string{":2: log: set before, in line 1"}},
		{"section as a value", "tls: x\n", []string{":1: tls is a section"}},
		{"section as a list", "tls: [cert, key]\n", []string{":1: tls is a section"}},
		{"value as a section", "listen:\n  port: 1\n", []string{`:2: unknown setting "listen.port"`}},
		{"value as an empty section", "listen: {}\n", []string{":1: listen: a single value is expected"}},
		{"unknown empty section", "lisen: {}\n", []string{`:1: unknown setting "lisen" (did you mean listen?)`}},
		{"unknown null", "lisen:\n", []string{`:1: unknown setting "lisen"`}},
		{"section below a value", "errors:\n  basic_auth_status:\n    x: 1\n", []string{`:3: unknown setting "errors.basic_auth_status.x"`}},
		{"a single value", "hello\n", []string{":1: settings are expected, each as NAME: VALUE", "not a single value"}},
		{"a list", "# settings\n- listen\n", []string{":2: settings are expected", "not a list"}},
		{"long name", strings.Repeat("x", 5000) + ": 1\n", []string{`unknown setting "xxx`, `"...`}},
		{"long value", "retry_window: " + strings.Repeat("x", 5000) + "\n", []string{`is not a duration`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, _, err := config.Load(writeFile(t, tt.text), nil, nil)
			if err == nil {
				t.Fatal("accepted")
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%v\ndoes not say %q", err, want)
				}
			}
			if len(err.Error()) > 400 {
				t.Errorf("the error has %d characters", len(err.Error()))
			}
		})
	}
}

func TestAFileThatTheUserMayNotRead(t *testing.T) {
	file := writeFile(t, "data: x\n")
	if err := os.Chmod(file, 0); err != nil {
		t.Fatal(err)
	}
	err := testkit.AsNobody(func() error {
		_, _, err := config.Load(file, nil, nil)
		return err
	})
	if err == nil || !strings.Contains(err.Error(), "permission denied: run this as the server's user") {
		t.Error(err)
	}
}

func TestAByteOrderMarkIsNoFault(t *testing.T) {
	if c, _, err := config.Load(writeFile(t, "\ufeffdata: x\n"), nil, nil); err != nil || c.Data != "x" {
		t.Errorf("%q, %v", c.Data, err)
	}
}

func TestFaultsOfAFileAreBounded(t *testing.T) {
	var b strings.Builder
	for i := range 500 {
		b.WriteString("setting" + strings.Repeat("x", i) + ": 1\n")
	}
	_, _, err := config.Load(writeFile(t, b.String()), nil, nil)
	if n := strings.Count(err.Error(), "\n"); n != 50 || !strings.HasSuffix(err.Error(), "450 more faults") {
		t.Errorf("%d lines, ending %q", n+1, err.Error()[len(err.Error())-40:])
	}
}

// However deeply a file is nested, parsing ends with an error.
func TestNestingIsBounded(t *testing.T) {
	for _, text := range []string{
		strings.Repeat("{a: ", 20_000), strings.Repeat("[", 20_000), strings.Repeat("{a: ", 9_000) + "1" + strings.Repeat("}", 9_000),
		"a: &a [x]\n" + strings.Repeat("b: [*a, *a]\n", 1000),
	} {
		_, _, err := config.Load(writeFile(t, text), nil, nil)
		if err == nil {
			t.Errorf("%.20q is accepted", text)
		} else if len(err.Error()) > 20_000 {
			t.Errorf("%.20q: an error of %d characters", text, len(err.Error()))
		}
	}
}

// The store's URL may contain a password, even in the wrong place.
func TestFaultsNeverQuoteTheStore(t *testing.T) {
	for _, text := range []string{
		"store: mysql://u:geheim@h/d\n", "store: [\"postgres://u:geheim@h/d\"]\n", "store: !x postgres://u:geheim@h/d\n",
		"store: postgres://u:geheim@h/d\nstore_password_file: x\n", "store: \"postgres://u:geheim@h:port/d\"\n",
	} {
		c, from, err := config.Load(writeFile(t, text), nil, nil)
		if err == nil {
			err = from.Explain(c.CheckStore())
		}
		if err == nil || strings.Contains(err.Error(), "geheim") {
			t.Errorf("%q: %v", text, err)
		}
	}
}
