package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/mintage/mintage/internal/adminapi"
)

// Each flag of a trust changes only its own setting. Keys by value and keys by URL
// replace each other.
func TestFlagsOfATrust(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	keys, ca, bad := file("keys", `{"keys":[]}`), file("ca", "-----BEGIN CERTIFICATE-----\n"), file("bad", "no JSON")
	const metadata, value = "where the issuer's metadata say", "registered by value"
	for _, c := range []struct {
		args string
		set  func(*adminapi.Trust)
		keys string // as trust show prints them
	}{
		{"", func(*adminapi.Trust) {}, ""},
		{"--api one --api two", func(v *adminapi.Trust) { v.APIs = []string{"one", "two"} }, ""},
		{"--subject a,b", func(v *adminapi.Trust) { v.Subjects = []string{"a,b"} }, ""},
		{"--email-domain b.example", func(v *adminapi.Trust) { v.EmailDomains = []string{"b.example"} }, ""},
		{"--audience x --tenant y", func(v *adminapi.Trust) { v.Audience, v.Tenant = "x", "y" }, ""},
		{"--subject-from email", func(v *adminapi.Trust) { v.SubjectFrom = "email" }, ""},
		{"--max-lifetime 10m", func(v *adminapi.Trust) { v.MaxLifetime = "10m" }, ""},
		{"--max-lifetime default", func(v *adminapi.Trust) { v.MaxLifetime = "" }, ""},
		{"--jwks-uri https://k.example", func(v *adminapi.Trust) { v.JWKSURI = "https://k.example" }, ""},
		{"--jwks-uri=", func(v *adminapi.Trust) { v.JWKSURI = "" }, metadata},
		{"--jwks " + keys, func(v *adminapi.Trust) { v.JWKSURI, v.JWKS = "", []byte(`{"keys":[]}`) }, value},
		{"--jwks-ca " + ca, func(v *adminapi.Trust) { v.JWKSCA = "-----BEGIN CERTIFICATE-----\n" }, ""},
		{"--jwks-ca=", func(v *adminapi.Trust) { v.JWKSCA = "" }, ""},
		{"--disabled=false", func(v *adminapi.Trust) { v.Disabled = false }, ""},
		{"--jwks " + bad, nil, ""},
		{"--jwks-ca " + filepath.Join(dir, "none"), nil, ""},
	} {
		v := adminapi.Trust{ID: "t", APIs: []string{"old"}, Subjects: []string{"s"}, EmailDomains: []string{"a.example"}, JWKSURI: "https://old.example",
			JWKSCA: "old", Audience: "a", Tenant: "t", SubjectFrom: "sub", MaxLifetime: "5m", Disabled: true}
		want := v
		var f trustFlags
		cmd := &cobra.Command{}
		f.register(cmd.Flags())
		cmd.Flags().BoolVar(&f.disabled, "disabled", false, "")
		if err := cmd.ParseFlags(strings.Fields(c.args)); err != nil {
			t.Fatal(err)
		}
		err := f.apply(cmd, &v)
		if c.set == nil {
			if err == nil {
				t.Errorf("%s: no error", c.args)
			}
			continue
		}
		if c.set(&want); err != nil || !reflect.DeepEqual(v, want) {
			t.Errorf("%s: %v\n%+v, want\n%+v", c.args, err, v, want)
		}
		shown, authority := "", ""
		for _, row := range trustFields(v) {
			switch row[0] {
			case "keys":
				shown = row[1]
			case "jwks ca":
				authority = row[1]
			}
		}
		if want := fmt.Sprintf("certificates: %d", strings.Count(v.JWKSCA, "BEGIN")); (authority != "") != (v.JWKSCA != "") || authority != "" && authority != want {
			t.Errorf("%s: certificate authorities %q, want %q", c.args, authority, want)
		}
		if shown != c.keys || v.JWKSURI != "" && !slices.Contains(trustFields(v), [2]string{"jwks uri", v.JWKSURI}) {
			t.Errorf("%s: keys %q, want %q", c.args, shown, c.keys)
		}
	}
}
