//go:build e2e

package resource

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/mintage/mintage/internal/e2e/binary"
)

const allSlots = 0

// startHAProxy runs Debian's HAProxy with the configuration of the page, and with the
// keys that the page's script has fetched. With allSlots all four key files are valid;
// otherwise only the one of the slot is, and the others contain another authority's key.
func startHAProxy(t *testing.T, w *world, slot int, behind *api) *front {
	t.Helper()
	address := binary.FreeAddress(t, "127.0.0.1")
	_, _, both := w.ca.certify(t, "api.example.com")
	dir := t.TempDir()

	script := here(t, shown(t, proxies, "/usr/local/sbin/mintage-keys"),
		"https://auth.example.com/", "https://"+w.host()+"/", "/etc/haproxy/mintage", dir)
	cmd := exec.Command("sh", "-c", script)
	cmd.Env = append(os.Environ(), "CURL_CA_BUNDLE="+w.ca.file)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("mintage-keys: %v\n%s", err, out)
	}

	if slot != allSlots {
		stranger := strangersPEM(t)
		active := readFile(t, filepath.Join(dir, w.activeSlot(t, dir)+".pem"))
		for n := 1; n <= 4; n++ {
			text := stranger
			if n == slot {
				text = active
			}
			write(t, filepath.Join(dir, fmt.Sprint(n)+".pem"), string(text))
		}
	}

	site := here(t, shown(t, proxies, "/etc/haproxy/haproxy.cfg, after Debian's global and defaults"),
		"bind :443 ", "bind "+address+" ",
		"127.0.0.1:8080", behind.address,
		"/etc/ssl/private/api.example.com.pem", both,
		"/etc/haproxy/mintage/", dir+"/",
		"/etc/ssl/certs/ca-certificates.crt", w.ca.file,
		"/etc/haproxy/mintage-verify.lua", write(t, filepath.Join(dir, "mintage-verify.lua"), here(t, shown(t, proxies, "/etc/haproxy/mintage-verify.lua"),
			"url = address,", fmt.Sprintf("url = address, dst = %q,", w.host()))))
	// The relevant parts of Debian's configuration.
	around := "global\n\tlog stderr local0 warning\ndefaults\n\tlog global\n\tmode http\n\ttimeout connect 5s\n\ttimeout client 50s\n\ttimeout server 50s\n\n"
	binary.Serve(t, exec.Command("/usr/sbin/haproxy", "-db", "-f", write(t, filepath.Join(dir, "haproxy.cfg"), around+site)), address)
	f := newFront(w, "HAProxy", address, behind)
	f.offline = true
	return f
}

// checkOffline checks the consequences of verifying offline, as the page states them.
func (f *front) checkOffline(t *testing.T, w *world) {
	t.Run("an opaque token is refused", func(t *testing.T) {
		f.ask(t, "GET", "/reports", "", bearer(w.pair(t, w.opaque, "read").AccessToken)...).wantRefused(t, http.StatusUnauthorized, badToken)
	})
	t.Run("a JWT of the other algorithms is refused", func(t *testing.T) {
		for _, alg := range []string{"RS256", "EdDSA"} {
			c := register(t, w.Server, alg, "--access-token-format", "jwt", "--signing-alg", alg, "--audience", audience)
			f.ask(t, "GET", "/reports", "", bearer(w.pair(t, c, "read").AccessToken)...).wantRefused(t, http.StatusUnauthorized, badToken)
		}
	})
	t.Run("a revoked token is let in until it expires", func(t *testing.T) {
		doomed := w.pair(t, w.jwt, "read")
		w.revoke(t, w.jwt, doomed.RefreshToken)
		f.wantGood(t, f.ask(t, "GET", "/reports", "", bearer(doomed.AccessToken)...), w.jwt, "read")
	})
}

// checkKeys checks that HAProxy reads each of the four key files, and no other.
func (w *world) checkKeys(t *testing.T) {
	token := w.pair(t, w.jwt, "read").AccessToken
	for slot := 1; slot <= 5; slot++ { // a fifth file is not read
		f := startHAProxy(t, w, slot, startAPI(t))
		o := f.ask(t, "GET", "/reports", "", bearer(token)...)
		if slot <= 4 {
			f.wantGood(t, o, w.jwt, "read")
		} else {
			o.wantRefused(t, http.StatusUnauthorized, badToken)
		}
	}
}

// activeSlot returns the number of the file with the active signing key. The script has
// also fetched the next key.
func (w *world) activeSlot(t *testing.T, dir string) string {
	t.Helper()
	var set struct {
		Keys []struct{ Kid, Alg string }
	}
	if err := json.Unmarshal(readFile(t, filepath.Join(dir, "jwks.json")), &set); err != nil {
		t.Fatal(err)
	}
	active := kid(t, w.pair(t, w.jwt, "read").AccessToken)
	n, slot := 0, ""
	for _, k := range set.Keys {
		if k.Alg == "ES256" {
			if n++; k.Kid == active {
				slot = fmt.Sprint(n)
			}
		}
	}
	one, two, four := readFile(t, filepath.Join(dir, "1.pem")), readFile(t, filepath.Join(dir, "2.pem")), readFile(t, filepath.Join(dir, "4.pem"))
	if n != 2 || slot == "" || bytes.Equal(one, two) || !bytes.Equal(two, four) {
		t.Fatalf("%d keys, the active one is in slot %q; want the active and the next, and the last in the files that are left", n, slot)
	}
	return slot
}

func strangersPEM(t *testing.T) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
}
