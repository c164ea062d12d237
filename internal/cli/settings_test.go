package cli

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestCommandsFindThePackagedConfiguration runs a command without --config on a machine
// with the package installed.
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
			s := &settings{ignorePackagedFile: c.apart}
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

// TestACommandSaysThatAnotherServerIsNear runs commands on a machine with the package
// installed, in a directory with a running server on mintage-data.
func TestACommandSaysThatAnotherServerIsNear(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	write := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const running, stopped = true, false
	write("packaged.yaml", "data: "+dir+"/packaged\n")
	write("here.yaml", "data: mintage-data\n")
	write("packaged/kek", "")
	write("mintage-data/kek", "")
	defer func(was string) { packagedFile = was }(packagedFile)
	const notice = "mintage: this is the deployment of %s, and not the server that runs in this directory; for that one, add --data mintage-data\n"
	for _, c := range []struct {
		name, packaged, env string
		runs                bool
		args                []string
		used                string // "" for no notice
	}{
		{"the package", "packaged.yaml", "", running, []string{"client", "list"}, "packaged.yaml"},
		{"a change", "packaged.yaml", "", running, []string{"client", "create", "--name", "Shop", "--redirect-uri", "https://shop.example/cb", "--scope", "read"}, "packaged.yaml"},
		{"the admin API", "packaged.yaml", "", running, []string{"code", "issue", "--client", "a", "--redirect-uri", "https://a.example", "--subject", "s"}, "packaged.yaml"},
		{"doctor", "packaged.yaml", "", running, []string{"doctor"}, "packaged.yaml"},
		{"a data directory of the environment", "absent", "MINTAGE_DATA=packaged", running, []string{"client", "list"}, "the data directory packaged"},
		{"a file of the environment", "absent", "MINTAGE_CONFIG=packaged.yaml", running, []string{"client", "list"}, "packaged.yaml"},
		{"nothing runs", "packaged.yaml", "", stopped, []string{"client", "list"}, ""},
		{"the same directory", "here.yaml", "", running, []string{"client", "list"}, ""},
		{"no package", "absent", "", running, []string{"client", "list"}, ""},
		{"--data", "packaged.yaml", "", running, []string{"client", "list", "--data", "packaged"}, ""},
		{"--config", "packaged.yaml", "", running, []string{"client", "list", "--config", "packaged.yaml"}, ""},
		{"--store", "packaged.yaml", "", running, []string{"client", "list", "--store", "postgres://u@127.0.0.1:1/d"}, ""},
		{"completion", "packaged.yaml", "", running, []string{"__complete", "client", "show", ""}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			packagedFile = c.packaged
			if name, value, given := strings.Cut(c.env, "="); given {
				t.Setenv(name, value)
			}
			if c.runs {
				l, err := net.Listen("unix", "mintage-data/admin.sock")
				if err != nil {
					t.Fatal(err)
				}
				defer l.Close() // the server may not have started to listen when it is closed
				server := &http.Server{}
				defer server.Close()
				go server.Serve(l)
			}
			var stderr bytes.Buffer
			root := Root("test")
			root.SetArgs(c.args)
			root.SetErr(&stderr)
			root.SetOut(&bytes.Buffer{})
			_ = root.ExecuteContext(t.Context()) // there is no store
			want := ""
			if c.used != "" {
				want = fmt.Sprintf(notice, c.used)
			}
			if got := stderr.String(); strings.Count(got, "this is the deployment of") != strings.Count(want, "deployment") || !strings.Contains(got, want) {
				t.Errorf("said %q, want %q", got, want)
			}
		})
	}
}
