package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestCommandsFindThePackagedConfiguration runs a command that names none, on a
// machine that has the package.
func TestCommandsFindThePackagedConfiguration(t *testing.T) {
	dir := t.TempDir()
	file := func(name string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte("data: /srv/"+name+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	packaged, named, other := file("packaged"), file("named"), file("other")
	defer func(was string) { packagedFile = was }(packagedFile)
	for _, c := range []struct {
		name, packaged, env string
		args                []string
		apart               bool
		data                string
	}{
		{"nothing", packaged, "", nil, false, "/srv/packaged"},
		{"a setting", packaged, "", []string{"--log-level", "debug"}, false, "/srv/packaged"},
		{"the variable", packaged, "MINTAGE_CONFIG=" + named, nil, false, "/srv/named"},
		{"the flag", packaged, "MINTAGE_CONFIG=" + named, []string{"--config", other}, false, "/srv/other"},
		{"the variable and a data directory", packaged, "MINTAGE_CONFIG=" + named, []string{"--data", "here"}, false, "here"},
		{"a data directory", packaged, "", []string{"--data", "here"}, false, "here"},
		{"a data directory in the environment", packaged, "MINTAGE_DATA=here", nil, false, "here"},
		{"a store", packaged, "", []string{"--store", "postgres://u@h/d"}, false, "mintage-data"},
		{"a store in the environment", packaged, "MINTAGE_STORE=postgres://u@h/d", nil, false, "mintage-data"},
		{"--dev", packaged, "", nil, true, "mintage-data"},
		{"no package", filepath.Join(dir, "absent"), "", nil, false, "mintage-data"},
	} {
		t.Run(c.name, func(t *testing.T) {
			packagedFile = c.packaged
			if name, value, given := strings.Cut(c.env, "="); given {
				t.Setenv(name, value)
			}
			s := &settings{apart: c.apart}
			cmd := &cobra.Command{Use: "x"}
			s.register(cmd.Flags(), "data", "store")
			s.register(cmd.Flags())
			cmd.Flags().StringVar(&s.file, "config", "", "")
			if err := cmd.ParseFlags(c.args); err != nil {
				t.Fatal(err)
			}
			cfg, err := s.load()
			if err != nil || cfg.Data != c.data {
				t.Errorf("data directory %q, %v, want %q", cfg.Data, err, c.data)
			}
		})
	}
}
