//go:build e2e

// Package doctor runs mintage doctor beside servers behind a real proxy.
package doctor

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/e2e/binary"
)

const host = "auth.example.com"

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, name, text string) string {
	t.Helper()
	check(t, os.WriteFile(name, []byte(text), 0o600))
	return name
}

// certificate creates a self-signed certificate, in one file with its key.
func certificate(t *testing.T) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(t, err)
	c := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(60 * 24 * time.Hour),
		DNSNames: []string{host}, IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, c, c, private.Public(), private)
	check(t, err)
	keyDER, err := x509.MarshalPKCS8PrivateKey(private)
	check(t, err)
	dir := t.TempDir()
	text := func(kind string, der []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	return write(t, filepath.Join(dir, "cert.pem"), text("CERTIFICATE", der)), write(t, filepath.Join(dir, "key.pem"), text("PRIVATE KEY", keyDER))
}

// A deployment is a server without TLS of its own, and its configuration.
type deployment struct{ listen, config string }

func deploy(t *testing.T, more string) deployment {
	t.Helper()
	dir := t.TempDir()
	d := deployment{listen: binary.FreeAddress(t, "127.0.0.1")}
	management := binary.FreeAddress(t, "127.0.0.1")
	d.config = write(t, filepath.Join(dir, "mintage.yaml"), fmt.Sprintf("public_url: https://%s\nlisten: %s\nmanagement:\n  listen: %s\ndata: %s\n%s",
		host, d.listen, management, filepath.Join(dir, "data"), more))
	cmd := binary.Command(t, "serve", "--new-store", "--config", d.config)
	binary.Serve(t, cmd, management)
	return d
}

const (
	passHost  = "proxy_set_header Host $http_host;\n"
	passFor   = "proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;\n"
	passProto = "proxy_set_header X-Forwarded-Proto $scheme;\n"
)

func pass(to deployment, headers ...string) string {
	return "location / {\n" + strings.Join(headers, "") + "proxy_pass http://" + to.listen + ";\n}\n"
}

func TestDoctorFindsWhatAProxyDoesWrong(t *testing.T) {
	cert, key := certificate(t)
	declared := deploy(t, "trusted_proxies: 127.0.0.1\n")
	undeclared := deploy(t, "")
	cases := []struct {
		name, location string
		server         deployment
		check          string
		level, text    string
	}{
		{"a proxy that is right", pass(declared, passHost, passFor, passProto), declared, "proxy", "ok", "a token request arrives as it was sent: from 127.0.0.1"},
		{"a proxy that drops X-Forwarded-Proto", pass(declared, passHost, passFor), declared, "proxy", "fault", "does not send X-Forwarded-Proto"},
		{"a proxy that drops X-Forwarded-For", pass(declared, passHost, passProto), declared, "proxy", "fault", "does not send X-Forwarded-For"},
		{"a proxy that passes its own idea of host and port", pass(declared, passFor, passProto), declared, "proxy", "warning", "arrive for the host " + declared.listen},
		{"a proxy that drops Authorization", pass(declared, passHost, passFor, passProto, "proxy_set_header Authorization '';\n"), declared, "proxy", "fault", "Authorization does not arrive"},
		{"a proxy with error pages of its own", pass(declared, passHost, passFor, passProto, "proxy_intercept_errors on;\nerror_page 400 /400.html;\n"), declared, "proxy", "fault", "the server's answer does not come back"},
		{"a proxy that is not declared", pass(undeclared, passHost, passFor, passProto), undeclared, "proxy", "fault", "is not in trusted_proxies"},
		{"an address that leads elsewhere", "location / { return 200 'hello'; }\n", declared, "proxy", "fault", "came to this server"},
		{"an address that leads elsewhere, seen by its metadata", "location / { return 200 'hello'; }\n", declared, "public address", "fault", "is no JSON"},
	}
	dir := t.TempDir()
	var sites strings.Builder
	addresses := make([]string, len(cases))
	for i, c := range cases {
		addresses[i] = binary.FreeAddress(t, "127.0.0.1")
		fmt.Fprintf(&sites, "server {\nlisten %s ssl;\nssl_certificate %s;\nssl_certificate_key %s;\n%s}\n", addresses[i], cert, key, c.location)
	}
	config := fmt.Sprintf(`daemon off;
user root;
master_process off; # no worker outlives a test that is killed
pid %[1]s/pid;
events { worker_connections 128; }
http {
	access_log off;
	client_body_temp_path %[1]s/body;
	proxy_temp_path %[1]s/proxy;
	fastcgi_temp_path %[1]s/fastcgi;
	uwsgi_temp_path %[1]s/uwsgi;
	scgi_temp_path %[1]s/scgi;
%[2]s}
`, dir, sites.String())
	binary.Serve(t, exec.Command("/usr/sbin/nginx", "-e", "stderr", "-p", dir, "-c", write(t, filepath.Join(dir, "nginx.conf"), config)), addresses[len(addresses)-1])

	for i, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			cmd := binary.Command(t, "doctor", "--config", c.server.config, "--connect", addresses[i], "--ca-file", cert, "--json")
			out, err := cmd.Output()
			status := 0
			var exit *exec.ExitError
			if errors.As(err, &exit) {
				status = exit.ExitCode()
			} else {
				check(t, err)
			}
			var told struct {
				Exit     int
				Findings []struct{ Check, Level, Finding, Advice string }
			}
			check(t, json.Unmarshal(out, &told))
			if told.Exit != status || (status == 1) != (c.level == "fault") {
				t.Errorf("exit status %d, and the report contains %d; %s", status, told.Exit, out)
			}
			found := false
			for _, f := range told.Findings {
				found = found || f.Check == c.check && f.Level == c.level && strings.Contains(f.Finding, c.text) && (f.Level == "ok" || f.Advice != "")
				if c.level == "ok" && (f.Level == "fault" || f.Check == "issuer" && f.Level != "ok") {
					t.Errorf("a finding about a correct proxy: %+v", f)
				}
			}
			if !found {
				t.Errorf("not found: %s %s %q in\n%s", c.check, c.level, c.text, out)
			}
		})
	}
}
