//go:build e2e

package resource

import (
	"fmt"
	"net/url"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/mintage/mintage/internal/e2e/binary"
)

// host returns the address of the server under test.
func (w *world) host() string {
	u, err := url.Parse(w.TokenEndpoint)
	if err != nil {
		panic(err)
	}
	return u.Host
}

// startNginx runs Debian's nginx with the site of the page. The rest of its configuration
// is Debian's nginx.conf, with paths below a directory of the test.
func startNginx(t *testing.T, w *world, mintage string, behind *api) *front {
	t.Helper()
	address := binary.FreeAddress(t, "127.0.0.1")
	cert, key, _ := w.ca.certify(t, "api.example.com")
	site := here(t, shown(t, proxies, "/etc/nginx/conf.d/api.conf"),
		"listen 443 ssl", "listen "+address+" ssl",
		"server auth.example.com:443;", "server "+mintage+";",
		"127.0.0.1:8080", behind.address,
		"/etc/ssl/certs/ca-certificates.crt", w.ca.file,
		"/etc/ssl/api.example.com.crt", cert, "/etc/ssl/private/api.example.com.key", key)
	runNginx(t, address, "", site)
	return newFront(w, "nginx", address, behind)
}

func runNginx(t *testing.T, address, modules, site string) {
	t.Helper()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "api.conf"), site)
	main := fmt.Sprintf(`%s
daemon off;
user root;
master_process off; # no worker outlives a test that is killed
pid %[2]s/pid;
error_log stderr notice;
events { worker_connections 128; }
http {
	access_log off;
	client_body_temp_path %[2]s/body;
	proxy_temp_path %[2]s/proxy;
	fastcgi_temp_path %[2]s/fastcgi;
	uwsgi_temp_path %[2]s/uwsgi;
	scgi_temp_path %[2]s/scgi;
	server { # whoever asks for another name
		listen %[3]s ssl default_server;
		ssl_reject_handshake on;
	}
	include %[2]s/api.conf;
}
`, modules, dir, address)
	binary.Serve(t, exec.Command("/usr/sbin/nginx", "-e", "stderr", "-p", dir, "-c", write(t, filepath.Join(dir, "nginx.conf"), main)), address)
}
