package cli

import (
	"slices"
	"strings"
	"testing"

	"github.com/mintage/mintage/internal/config"
)

func TestEveryChoiceThatAShellOffersIsAccepted(t *testing.T) {
	for flag, values := range choices {
		i := slices.IndexFunc(config.Keys(), func(k config.Key) bool { return k.Flag == flag })
		if i < 0 {
			t.Errorf("there is no setting --%s", flag)
			continue
		}
		for _, v := range append(values, "nonsense") {
			cfg, _, err := config.Load("", nil, map[string]string{flag: v})
			if err == nil {
				err = cfg.Check()
			}
			refused := err != nil && strings.Contains(err.Error(), config.Keys()[i].Name+":") && !strings.Contains(err.Error(), "missing") || err != nil && v == "nonsense"
			if refused != (v == "nonsense") {
				t.Errorf("--%s %s: %v", flag, v, err)
			}
		}
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
