//go:build e2e

package resource

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/mintage/mintage/internal/e2e/binary"
)

// startCaddy runs Debian's Caddy with the site of the page.
func startCaddy(t *testing.T, w *world, mintage string, behind *api) *front {
	t.Helper()
	address := binary.FreeAddress(t, "127.0.0.1")
	cert, key, _ := w.ca.certify(t, "api.example.com")
	site := here(t, shown(t, proxies, "/etc/caddy/Caddyfile"),
		"forward_auth https://auth.example.com", "forward_auth https://"+mintage,
		"127.0.0.1:8080", behind.address,
		"/etc/ssl/api.example.com.crt", cert, "/etc/ssl/private/api.example.com.key", key)
	runCaddy(t, w.ca, address, site)
	return newFront(w, "Caddy", address, behind)
}

// runCaddy runs a site. The global options avoid the ports and the admin address of a
// Caddy that this machine may already run.
func runCaddy(t *testing.T, ca *authority, address, site string) {
	t.Helper()
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	options := fmt.Sprintf("{\n\tadmin off\n\tauto_https disable_redirects\n\tdefault_bind 127.0.0.1\n\thttps_port %s\n\tskip_install_trust\n}\n", port)
	cmd := exec.Command("caddy", "run", "--adapter", "caddyfile", "--config", write(t, filepath.Join(dir, "Caddyfile"), options+site))
	// Add the tests' authority to the system's roots.
	cmd.Env = append(os.Environ(), "HOME="+dir, "XDG_DATA_HOME="+dir, "XDG_CONFIG_HOME="+dir, "SSL_CERT_FILE="+ca.file)
	binary.Serve(t, cmd, address)
}
