package config_test

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v4"

	"github.com/mintage/mintage/internal/config"
)

func compileSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(config.Schema()))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("mintage.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("mintage.json") // validates it against its meta-schema
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// validate validates a file as an editor does.
func validate(t *testing.T, s *jsonschema.Schema, text string) error {
	t.Helper()
	var v any
	if err := yaml.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	if v == nil {
		v = map[string]any{}
	}
	return s.Validate(v)
}

func TestTheSchemaKnowsEverySetting(t *testing.T) {
	s := compileSchema(t)
	seen := 0
	var walk func(s *jsonschema.Schema, prefix string)
	walk = func(s *jsonschema.Schema, prefix string) {
		for name, below := range s.Properties {
			if below.Properties != nil {
				walk(below, prefix+name+".")
				continue
			}
			if prefix+name == "realms" {
				continue
			}
			seen++
			i := slices.IndexFunc(config.Keys(), func(k config.Key) bool { return k.Name == prefix+name })
			if i < 0 {
				t.Errorf("%s%s is no setting", prefix, name)
			} else if k := config.Keys()[i]; below.Description != k.Doc || k.Default != "" && below.Default == nil {
				t.Errorf("%s has the description %q and the default %v", k.Name, below.Description, below.Default)
			}
		}
	}
	walk(s, "")
	if n := len(config.Keys()); seen != n {
		t.Errorf("the schema has %d of %d settings", seen, n)
	}
}

func TestTheSchemaAcceptsWhatTheProgramDoes(t *testing.T) {
	s := compileSchema(t)
	other, from := everyOther(t)
	for name, text := range map[string]string{
		"every default":         show(t, config.Default(), nil, false),
		"nothing as by default": show(t, other, from, false),
		"nothing":               "# nothing\n",
		"zero":                  "retry_window: 0\ngrant_lifetime: 0s\n",
		"realms":                "realms:\n  staff: {base_path: /staff, login: {mode: off}}\n  empty:\n",
		"a single item":         "trusted_proxies: 10.0.0.1\n",
		"empty section":         "tls:\n#  cert: x\n",
		"durations":             "retry_window: 1m30s\ncode_lifetime: 1500ms\ngrant_lifetime: 31d\nmax_skew: 1.5s\n",
		"sizes":                 "audit: {max_size: 20GiB}\n",
		"no size":               "audit: {max_size: 0}\n",
	} {
		if _, _, err := config.Load(writeFile(t, text), nil, nil); err != nil {
			t.Errorf("%s: the program does not accept it: %v", name, err)
		}
		if err := validate(t, s, text); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTheSchemaMarksMistakes(t *testing.T) {
	s := compileSchema(t)
	for name, text := range map[string]string{
		"unknown setting":          "lisen: x\n",
		"unknown in a section":     "tls: {crt: x}\n",
		"unknown in an inner one":  "login: {upstream: {isuer: x}}\n",
		"section as a value":       "tls: x\n",
		"list for a single value":  "data: [x]\n",
		"number without a unit":    "retry_window: 120\n",
		"duration with no unit":    "retry_window: \"120\"\n",
		"duration of weeks":        "retry_window: 1w\n",
		"size without a unit":      "audit: {max_size: 1000}\n",
		"size of another unit":     "audit: {max_size: 10GB}\n",
		"no number":                "throttle: {interactions: many}\n",
		"negative number":          "throttle: {interactions: -1}\n",
		"no boolean":               "compat: {query_parameters: perhaps}\n",
		"none of the choices":      "log: {level: loud}\n",
		"none of the numbers":      "errors: {basic_auth_status: 403}\n",
		"list of something else":   "trusted_proxies: [{a: b}]\n",
		"a choice as another type": "login: {mode: 1}\n",
	} {
		if validate(t, s, text) == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

var yamlBlock = regexp.MustCompile("(?ms)^```yaml\n(.*?)^```")

func TestTheSchemaAcceptsEveryExampleOfTheDocumentation(t *testing.T) {
	s := compileSchema(t)
	found := 0
	err := filepath.WalkDir("../../docs", func(path string, _ os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".md") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, block := range yamlBlock.FindAllSubmatch(text, -1) {
			found++
			if err := validate(t, s, string(block[1])); err != nil {
				t.Errorf("%s: %v in\n%s", path, err, block[1])
			}
		}
		return err
	})
	if err != nil || found < 5 {
		t.Errorf("%d examples, %v", found, err)
	}
}
