package cli

import (
	"io"
	"strings"
	"testing"

	"github.com/mintage/mintage/internal/config"
)

// Shell completion offers the values of settings and flags that have a fixed choice.
func TestAShellIsOfferedChoices(t *testing.T) {
	offered := 0
	for _, k := range config.Keys() {
		if k.Choices == nil {
			continue
		}
		offered++
		var b strings.Builder
		root := Root("test")
		root.SetOut(&b)
		root.SetErr(io.Discard)
		root.SetArgs([]string{"__complete", "serve", "--" + k.Flag, ""})
		if err := root.Execute(); err != nil || !strings.HasPrefix(b.String(), strings.Join(k.Choices, "\n")+"\n:4\n") {
			t.Errorf("--%s: %v, offered:\n%s", k.Flag, err, &b)
		}
	}
	if offered < 5 {
		t.Errorf("%d settings have choices", offered)
	}
	root := Root("test")
	for path, flags := range ofCommand {
		c, _, err := root.Find(strings.Fields(path)[1:])
		if err != nil || c.CommandPath() != path {
			t.Errorf("there is no command %s", path)
			continue
		}
		for flag := range flags {
			if c.Flags().Lookup(flag) == nil {
				t.Errorf("%s has no --%s", path, flag)
			}
		}
	}
}
