package config_test

import (
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/config"
)

func writeFile(t testing.TB, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "mintage.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestFlagBeforeEnvironmentBeforeFileBeforeDefault(t *testing.T) {
	file := "listen: file:1\ndata: file\npublic_url: https://file.example\n"
	env := []string{"MINTAGE_LISTEN=env:1", "MINTAGE_DATA=env", "OTHER=x", "MINTAGE_BASE_PATH=/a=b"}
	flags := map[string]string{"listen": "flag:1"}
	c, _, err := config.Load(writeFile(t, file), env, flags)
	if err != nil {
		t.Fatal(err)
	}
	def := config.Default()
	if c.Listen != "flag:1" || c.Data != "env" || c.PublicURL != "https://file.example" || c.BasePath != "/a=b" || !reflect.DeepEqual(c.Management, def.Management) {
		t.Errorf("read as %+v", c)
	}
	if c, _, err = config.Load("", nil, nil); err != nil || !reflect.DeepEqual(c, def) {
		t.Errorf("nothing given: %+v, %v; want the defaults", c, err)
	}
	if c, _, err = config.Load("", []string{"MINTAGE_DATA="}, map[string]string{"public-url": ""}); err != nil || c.Data != "" {
		t.Errorf("a value given as empty is empty: %q, %v", c.Data, err)
	}
}

func TestFileSetsEveryKind(t *testing.T) {
	c, _, err := config.Load(writeFile(t, `# comment
tls:
  cert: /etc/cert.pem # trailing
  key: "/etc/key.pem"
admin.listen: unix:/run/a.sock
trusted_proxies: [10.0.0.0/8, "::1", 192.0.2.1]
cors:
  origins:
    - https://a.example
    - https://b.example
compat: {query_parameters: true}
errors: {basic_auth_status: 400}
retry_window: 90s
refresh_token_lifetime: 31d
throttle: {}
`), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := config.Default()
	want.TLS = config.TLS{Cert: "/etc/cert.pem", Key: "/etc/key.pem"}
	want.Admin.Listen = "unix:/run/a.sock"
	want.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("::1/128"), netip.MustParsePrefix("192.0.2.1/32")}
	want.CORS.Origins = []string{"https://a.example", "https://b.example"}
	want.Compat.QueryParameters = true
	want.Errors.BasicAuthStatus = 400
	want.RetryWindow = config.Duration(90 * time.Second)
	if !reflect.DeepEqual(c, want) {
		t.Errorf("read as\n%+v\nwant\n%+v", c, want)
	}
}

func TestEmptyFileIsTheDefault(t *testing.T) {
	for _, text := range []string{"", "\n", "# nothing\n", "---\n", "{}\n"} {
		if c, _, err := config.Load(writeFile(t, text), nil, nil); err != nil || !reflect.DeepEqual(c, config.Default()) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestListsFromOneText(t *testing.T) {
	c, _, err := config.Load("", []string{"MINTAGE_CORS_ORIGINS= https://a.example , https://b.example,, "}, map[string]string{"trusted-proxies": "10.0.0.0/8,::1"})
	if err != nil || !slices.Equal(c.CORS.Origins, []string{"https://a.example", "https://b.example"}) || len(c.TrustedProxies) != 2 {
		t.Errorf("%+v, %v", c, err)
	}
	// A later source replaces a list and does not add to it.
	c, _, err = config.Load(writeFile(t, "trusted_proxies: [10.0.0.0/8, 192.0.2.0/24]\n"), []string{"MINTAGE_TRUSTED_PROXIES="}, nil)
	if err != nil || len(c.TrustedProxies) != 0 {
		t.Errorf("%v, %v", c.TrustedProxies, err)
	}
}

func TestFaultsInTheFileNameTheirLine(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		want       []string
	}{
		{"unknown setting", "data: x\nlisen: a:1\n", []string{":2:", `"lisen"`, "did you mean listen?"}},
		{"unknown nested setting", "tls:\n  crt: x\n", []string{":2:", `"tls.crt"`, "did you mean tls.cert?"}},
		{"unlike anything", "zzzzzzzzzzzz: 1\n", []string{":1:", `unknown setting "zzzzzzzzzzzz"`}},
		{"section that is not one", "listen:\n  host: x\n", []string{`"listen.host"`}},
		{"all faults at once", "lisen: x\nretry_window: soon\n", []string{":1:", ":2:", "lisen", `"soon" is not a duration`}},
		{"twice", "data: a\nlisten: b:1\ndata: c\n", []string{"data", "1"}},
		{"twice, once with a dot", "tls.cert: a\ntls:\n  cert: b\n", []string{":3:", "tls.cert: set before, in line 1"}},
		{"not a duration", "retry_window: 120\n", []string{":1:", `"120" is not a duration`}},
		{"not a boolean", "compat:\n  query_parameters: maybe\n", []string{":2:", `"maybe" is neither true nor false`}},
		{"not a number", "errors: {basic_auth_status: four}\n", []string{`"four" is not a whole number`}},
		{"not a network", "trusted_proxies: [10.0.0.0/8, proxy]\n", []string{`"proxy" is not a network`}},
		{"an IPv4 address in IPv6", "trusted_proxies: [\"::ffff:10.0.0.2\"]\n", []string{":1: trusted_proxies: ", `"::ffff:10.0.0.2" matches no proxy: write an IPv4 address as 10.0.0.2`}},
		{"a host and a network", "trusted_proxies: [10.0.0.2/8]\n", []string{":1: trusted_proxies: ", `"10.0.0.2/8" is ambiguous: write 10.0.0.2 for one address, or 10.0.0.0/8 for the network`}},
		{"list for a single value", "data: [a]\n", []string{":1:", "data: a single value"}},
		{"list of maps", "cors:\n  origins:\n    - a: b\n", []string{":2:", "cors.origins: a single value"}},
		{"list of lists", "cors:\n  origins: [[a]]\n", []string{":2:", "cors.origins: a single value"}},
		{"alias", "data: &a x\nlisten: *a\n", []string{":2:", "listen: a single value"}},
		{"no map", "just text\n", []string{":1:", "settings are expected"}},
		{"no YAML", "data: [\n", []string{"mintage.yaml"}},
		{"two documents", "data: a\n---\ndata: b\n", []string{"more than one document"}},
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
		})
	}
	if _, _, err := config.Load(filepath.Join(t.TempDir(), "none.yaml"), nil, nil); err == nil {
		t.Error("a file that is not there is accepted")
	}
}

func TestFaultsInEnvironmentAndFlags(t *testing.T) {
	for _, tt := range []struct {
		env   string
		flags map[string]string
		want  []string
	}{
		{"MINTAGE_LISTN=x", nil, []string{"unknown setting MINTAGE_LISTN", "did you mean MINTAGE_LISTEN?"}},
		{"MINTAGE_MAX_SKEW=x", nil, []string{"environment: MINTAGE_MAX_SKEW", "not a duration"}},
		{"", map[string]string{"code-lifetime": "x"}, []string{"--code-lifetime", "not a duration"}},
		{"", map[string]string{"compat-query-parameters": "x"}, []string{"--compat-query-parameters", "neither true nor false"}},
	} {
		_, _, err := config.Load("", []string{tt.env}, tt.flags)
		if err == nil {
			t.Errorf("%s %v: accepted", tt.env, tt.flags)
			continue
		}
		for _, want := range tt.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%v\ndoes not say %q", err, want)
			}
		}
	}
}

func TestKeysHaveADocAndNamesOfTheirOwn(t *testing.T) {
	all := config.Keys()
	if len(all) < 20 {
		t.Fatalf("%d settings", len(all))
	}
	seen := map[string]string{}
	for _, k := range all {
		if k.Doc == "" || k.Doc != strings.TrimSpace(k.Doc) || strings.HasSuffix(k.Doc, ".") {
			t.Errorf("%s: doc %q", k.Name, k.Doc)
		}
		if k.Name != strings.ToLower(k.Name) || strings.HasSuffix(k.Name, ".") || strings.ContainsAny(k.Flag, "._") || !strings.HasPrefix(k.Env, "MINTAGE_") {
			t.Errorf("names %s, %s, %s", k.Name, k.Env, k.Flag)
		}
		for _, name := range []string{k.Name, k.Env, "--" + k.Flag} {
			if seen[name] != "" {
				t.Errorf("%s is a name of %s and %s", name, seen[name], k.Name)
			}
			seen[name] = k.Name
		}
		// The printed default is also a valid value.
		if k.Default != "" {
			for _, c := range []func() (config.Config, config.Sources, error){
				func() (config.Config, config.Sources, error) {
					return config.Load("", []string{k.Env + "=" + k.Default}, nil)
				},
				func() (config.Config, config.Sources, error) {
					return config.Load("", nil, map[string]string{k.Flag: k.Default})
				},
				func() (config.Config, config.Sources, error) {
					return config.Load(writeFile(t, k.Name+": "+k.Default+"\n"), nil, nil)
				},
			} {
				if got, _, err := c(); err != nil || !reflect.DeepEqual(got, config.Default()) {
					t.Errorf("%s: default %q given as a value: %v", k.Name, k.Default, err)
				}
			}
		}
		text := k.Default
		if k.IsBool {
			text = "true"
		}
		if _, _, err := config.Load("", nil, map[string]string{k.Flag: text}); text != "" && err != nil {
			t.Errorf("%s: %v", k.Name, err)
		}
	}
	for _, name := range []string{"data", "tls.cert", "retry_window", "compat.query_parameters", "log.format"} {
		if seen[name] == "" {
			t.Errorf("no setting %s", name)
		}
	}
}

func FuzzLoad(f *testing.F) {
	for _, text := range []string{
		"", "data: x\n", "tls: {cert: a, key: b}\n", "trusted_proxies: [10.0.0.0/8]\n", "a: &a {b: *a}\n", "<<: *x\n", "- a\n- b\n", "? [a]\n: b\n",
		"data: !!binary x\n", "retry_window: 1d\nretry_window: 2d\n", "---\n---\n", "%YAML 1.1\n---\n", "\"", "tls:\n  cert:\n    - {}\n", "data: |\n x\n", "\x00",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, from, err := config.Load(writeFile(t, text), nil, nil)
		if err == nil {
			// Any valid configuration can also be checked and shown.
			_ = c.Check()
			for _, line := range c.Departures() {
				if line == "" {
					t.Error("an empty departure")
				}
			}
			var shown strings.Builder
			if err := config.Show(&shown, c, from, false); err != nil {
				t.Fatal(err)
			}
			again, _, err := config.Load(writeFile(t, shown.String()), nil, nil)
			if c.CheckStore() != nil {
				c.Store, again.Store = "", "" // may contain a password, and is not shown
			}
			if err != nil || !reflect.DeepEqual(again, c) && !strings.Contains(shown.String(), "password is not shown") {
				t.Errorf("shown as\n%s\nwhich is read as %+v, %v; want %+v", &shown, again, err, c)
			}
		}
	})
}

func TestKubernetesServiceLinksAreIgnored(t *testing.T) {
	for _, link := range []string{
		"MINTAGE_SERVICE_HOST=10.0.0.1", "MINTAGE_SERVICE_HOST=fd00::1", "MINTAGE_SERVICE_PORT=8443", "MINTAGE_SERVICE_PORT_HTTPS=8443",
		"MINTAGE_PORT=tcp://10.0.0.1:8443", "MINTAGE_PORT_8443_TCP=tcp://10.0.0.1:8443", "MINTAGE_PORT_8443_TCP_PROTO=tcp",
		"MINTAGE_PORT_8443_TCP_PORT=8443", "MINTAGE_PORT_8443_TCP_ADDR=10.0.0.1", "MINTAGE_PORT=tcp://[fd00::1]:8443",
		"MINTAGE_ADMIN_API_SERVICE_HOST=10.0.0.1", "MINTAGE_ADMIN_API_PORT_53_UDP=udp://10.0.0.1:53", "MINTAGE_LISTEN_PORT=tcp://10.0.0.1:8443",
	} {
		if c, _, err := config.Load("", []string{link}, nil); err != nil || !reflect.DeepEqual(c, config.Default()) {
			t.Errorf("%s: %v", link, err)
		}
	}
	for _, mistake := range []string{
		"MINTAGE_PORTS=tcp://10.0.0.1:8443", "MINTAGE_SERVICE=x", "MINTAGE_PORT_X_TCP=tcp://10.0.0.1:8443", "MINTAGE_PORT=8443",
		"MINTAGE_LISTEN_PORT=8443", "MINTAGE_LISTEN_PORT=", "MINTAGE_SERVICE_PORT=https", "MINTAGE_HOST=10.0.0.1",
	} {
		if _, _, err := config.Load("", []string{mistake}, nil); err == nil {
			t.Errorf("%s is accepted", mistake)
		}
	}
}
