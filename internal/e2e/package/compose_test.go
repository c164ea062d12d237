//go:build e2e

package packaging

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/e2e/binary"
	"github.com/mintage/mintage/internal/store/postgres/pgtest"
)

const composeFiles = repository + "/packaging/compose"

// A composition holds the parts of the Compose specification that the files use; any
// other field is an error.
type composition struct {
	Name     string
	Node     any `yaml:"x-node"`
	Services map[string]service
	Secrets  map[string]struct{ File string }
	Networks map[string]struct {
		IPAM struct {
			Config []struct{ Subnet string }
		} `yaml:"ipam"`
	}
	Volumes map[string]*struct{}
}

type service struct {
	Image           string
	Command         []string
	Ports, Volumes  []string
	Secrets         []string
	Networks        any
	DependsOn       any  `yaml:"depends_on"`
	ReadOnly        bool `yaml:"read_only"`
	Tmpfs           []string
	CapDrop         []string `yaml:"cap_drop"`
	SecurityOpt     []string `yaml:"security_opt"`
	Restart         string
	StopGracePeriod string `yaml:"stop_grace_period"`
	Environment     map[string]string
	Healthcheck     *struct {
		Test              []string
		Interval, Timeout string
		Retries           int
	}
}

// compose reads a file, and checks that all its references resolve.
func compose(t *testing.T, name string) (c composition) {
	t.Helper()
	d := yaml.NewDecoder(strings.NewReader(read(t, filepath.Join(composeFiles, name))))
	d.KnownFields(true)
	if err := d.Decode(&c); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	// The operator creates these files, as the compose files say.
	made := []string{"./tls.crt", "./tls.key", "./tls.pem", "./kek", "./db-password"}
	for key, s := range c.Services {
		for _, v := range s.Volumes {
			source, _, _ := strings.Cut(v, ":")
			_, volume := c.Volumes[source]
			_, err := os.Stat(filepath.Join(composeFiles, source))
			if !volume && err != nil && !slices.Contains(made, source) {
				t.Errorf("%s: %s mounts %s, which is nowhere", name, key, source)
			}
		}
		// With on-failure, the container engine does not restart a container after a
		// reboot of the machine.
		if s.Restart != "unless-stopped" {
			t.Errorf("%s: after a reboot, %s is down: %s", name, key, s.Restart)
		}
		for _, secret := range s.Secrets {
			if file := c.Secrets[secret].File; !slices.Contains(made, file) {
				t.Errorf("%s: %s has a secret %s of the file %q", name, key, secret, file)
			}
		}
		if strings.Contains(s.Image, "MINTAGE_IMAGE") && (!s.ReadOnly || !slices.Equal(s.CapDrop, []string{"ALL"}) || s.StopGracePeriod != "30s" || !slices.Equal(s.SecurityOpt, []string{"no-new-privileges:true"})) {
			t.Errorf("%s: %s has more rights than it needs, or too short a stop_grace_period", name, key)
		}
	}
	return c
}

// mounted returns the file of the host that is mounted at a path of the container.
func (s service) mounted(path string) string {
	for _, v := range s.Volumes {
		if source, rest, _ := strings.Cut(v, ":"); rest == path+":ro" {
			return filepath.Join(composeFiles, source)
		}
	}
	return ""
}

// settingsOf returns the configuration of a container, from its command and its files.
func settingsOf(t *testing.T, s service) (config.Config, string) {
	t.Helper()
	if !slices.Equal(s.Command, []string{"serve", "--config", "/etc/mintage/mintage.yaml"}) {
		t.Fatalf("the command is %q", s.Command)
	}
	file := s.mounted("/etc/mintage/mintage.yaml")
	cfg, _, err := config.Load(file, nil, nil)
	if err == nil {
		err = cfg.Check()
	}
	if err != nil {
		t.Fatal(err)
	}
	return cfg, file
}

func TestComposeOfOneNodeIsWhatTheImageUnderstands(t *testing.T) {
	t.Parallel()
	s := compose(t, "compose.yaml").Services["mintage"]
	cfg, _ := settingsOf(t, s)
	for _, path := range []string{cfg.TLS.Cert, cfg.TLS.Key} {
		if s.mounted(path) == "" {
			t.Errorf("%s is not mounted", path)
		}
	}
	if !slices.Contains(s.Volumes, "data:"+cfg.Data) || cfg.Listen != "0.0.0.0:8443" || !slices.Equal(s.Ports, []string{"8443:8443"}) {
		t.Errorf("the data in %s, the port %s: %v, %v", cfg.Data, cfg.Listen, s.Volumes, s.Ports)
	}
}

// TestComposeOfThreeNodesServes runs what compose.nodes.yaml runs, with its files: three
// nodes, PostgreSQL, and HAProxy in front. Only addresses and paths differ.
func TestComposeOfThreeNodesServes(t *testing.T) {
	t.Parallel()
	c := compose(t, "compose.nodes.yaml")
	dir := t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	certificate(t, dir, 0)
	kek := filepath.Join(dir, "kek")
	if err := os.WriteFile(kek, []byte(output(t, "openssl", "rand", "-base64", "32")), 0o400); err != nil {
		t.Fatal(err)
	}
	database, err := pgtest.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := database.Stop(); err != nil {
			t.Error(err)
		}
	})
	balancerPort := freePort(t)
	haproxy := read(t, c.Services["balancer"].mounted("/usr/local/etc/haproxy/haproxy.cfg"))
	replace := func(old, new string) {
		if !strings.Contains(haproxy, old) {
			t.Errorf("haproxy.cfg does not contain %q", old)
		}
		haproxy = strings.ReplaceAll(haproxy, old, new)
	}
	replace("bind :8443", "bind 127.0.0.1:"+balancerPort)
	replace("/etc/haproxy/tls.pem", filepath.Join(dir, "tls.pem"))
	replace(" check port 9000 ", " check ")
	replace("127.0.0.11:53", "127.0.0.1:53")

	command := func(args ...string) []byte {
		t.Helper()
		args = append(args, "--store", database.URL("postgres"), "--kek-file", kek, "--data", filepath.Join(dir, "node1"), "--admin-listen", "unix:"+filepath.Join(dir, "node1.sock"))
		out, err := binary.Command(t, args...).Output()
		if err != nil {
			t.Fatalf("mintage %s: %v", args[0], err)
		}
		return out
	}
	var made struct {
		ID     string `json:"client_id"`
		Secret string `json:"client_secret"`
	}
	var nodes []*exec.Cmd
	for _, name := range []string{"node1", "node2", "node3"} {
		s, there := c.Services[name]
		if !there {
			t.Fatalf("there is no %s", name)
		}
		cfg, file := settingsOf(t, s)
		// The data directory must persist: it contains the audit log.
		if !slices.Contains(s.Volumes, name+":"+cfg.Data) {
			t.Errorf("%s has no volume of its own at %s: %v", name, cfg.Data, s.Volumes)
		}
		if u, err := url.Parse(cfg.Store); err != nil || c.Services[u.Hostname()].Image == "" || u.User.Username() != c.Services[u.Hostname()].Environment["POSTGRES_USER"] || u.Path != "/"+c.Services[u.Hostname()].Environment["POSTGRES_DB"] {
			t.Fatalf("the store is %q, %v", cfg.Store, err)
		}
		for _, path := range []string{cfg.KEKFile, cfg.StorePasswordFile} {
			if secret := strings.TrimPrefix(path, "/run/secrets/"); !slices.Contains(s.Secrets, secret) {
				t.Errorf("%s is no secret of %s", path, name)
			}
		}
		balancer, _ := json.Marshal(c.Services["balancer"].Networks)
		if !strings.Contains(string(balancer), `"ipv4_address":"`+cfg.TrustedProxies[0].Addr().String()+`"`) {
			t.Errorf("the balancer is at %s, and %v is trusted", balancer, cfg.TrustedProxies)
		}
		public, management := freePort(t), freePort(t)
		replace("server "+name+" "+name+":8443", "server "+name+" 127.0.0.1:"+public+" port "+management)
		var log bytes.Buffer
		cmd := exec.Command(binary.Path(t), "serve", "--config", file)
		data := filepath.Join(dir, name)
		cmd.Env = append(os.Environ(), "MINTAGE_LISTEN=127.0.0.1:"+public, "MINTAGE_MANAGEMENT_LISTEN=127.0.0.1:"+management, "MINTAGE_DATA="+data, "MINTAGE_KEK_FILE="+kek,
			"MINTAGE_STORE="+database.URL("postgres"), "MINTAGE_STORE_PASSWORD_FILE=", "MINTAGE_TRUSTED_PROXIES=127.0.0.1",
			"MINTAGE_PUBLIC_URL=https://127.0.0.1:"+balancerPort, "MINTAGE_ADMIN_LISTEN=unix:"+filepath.Join(dir, name+".sock"))
		if len(nodes) == 0 { // as the page says, create the key before the store
			cmd.Env = append(cmd.Env, "MINTAGE_NEW_STORE=true")
		}
		cmd.Stderr = &log
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		t.Cleanup(func() {
			cmd.Process.Signal(syscall.SIGTERM)
			if err := <-ended; err != nil && !t.Failed() {
				t.Errorf("%s: %v\n%s", name, err, log.String())
			}
		})
		awaitReady(t, "http://127.0.0.1:"+management+"/readyz", ended, &log)
		nodes = append(nodes, cmd)
		if len(nodes) == 1 { // the other nodes find it when they start
			if err := json.Unmarshal(command("client", "create", "--json", "--no-pkce", "--name", "Billing", "--redirect-uri", "https://billing.example/callback", "--scope", "read"), &made); err != nil {
				t.Fatal(err)
			}
		}
	}
	configuration := filepath.Join(dir, "haproxy.cfg")
	if err := os.WriteFile(configuration, []byte(haproxy), 0o600); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	proxy := exec.Command("haproxy", "-db", "-f", configuration)
	proxy.Stdout, proxy.Stderr = &log, &log
	proxy.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := proxy.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		proxy.Process.Kill()
		proxy.Wait()
	})

	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(read(t, filepath.Join(dir, "tls.crt"))))
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, DisableKeepAlives: true}}
	ask := func(form url.Values) map[string]any {
		t.Helper()
		resp, err := client.PostForm("https://127.0.0.1:"+balancerPort+"/oauth2/access_token?realm=/api", form)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		answer := map[string]any{}
		if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("%s is answered %s %v, %v\n%s", form.Get("grant_type"), resp.Status, answer["error"], err, log.String())
		}
		return answer
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		if c, err := net.Dial("tcp", "127.0.0.1:"+balancerPort); err == nil {
			c.Close()
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("HAProxy does not listen\n%s", log.String())
		}
	}
	form := url.Values{"client_id": {made.ID}, "client_secret": {made.Secret}, "grant_type": {"authorization_code"}, "redirect_uri": {"https://billing.example/callback"},
		"code": {strings.TrimSpace(string(command("code", "issue", "--client", made.ID, "--redirect-uri", "https://billing.example/callback", "--subject", "alice")))}}
	pair := ask(form)
	refresh := func() {
		t.Helper()
		form = url.Values{"client_id": {made.ID}, "client_secret": {made.Secret}, "grant_type": {"refresh_token"}, "refresh_token": {pair["refresh_token"].(string)}}
		pair = ask(form)
	}
	for range 6 {
		refresh()
	}
	// When a node stops, clients notice nothing once HAProxy has noticed it.
	nodes[0].Process.Signal(syscall.SIGTERM)
	for range 6 {
		refresh()
	}
}
