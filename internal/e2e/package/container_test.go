//go:build e2e

package packaging

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/e2e/binary"
)

// An image is the result of the last stage of the Containerfile.
type image struct {
	copies                   [][]string // options, source, target
	user                     string
	entrypoint, command      []string
	from, signal             string
	exposed, volumes, unread []string
	built                    []string // the RUN instructions of earlier stages
}

// readImage parses the instructions that the file uses; any other one is an error.
func readImage(t *testing.T) (im image) {
	t.Helper()
	text := strings.ReplaceAll(read(t, filepath.Join(repository, "packaging/container/Containerfile")), "\\\n", " ")
	list := func(rest string) (l []string) {
		if err := json.Unmarshal([]byte(rest), &l); err != nil {
			t.Fatalf("%s: %v", rest, err)
		}
		return l
	}
	for line := range strings.Lines(text) {
		name, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch name {
		case "", "#", "ARG", "LABEL":
		case "FROM":
			im = image{from: rest, built: append(im.built, im.unread...)}
		case "COPY":
			im.copies = append(im.copies, strings.Fields(rest))
		case "USER":
			im.user = rest
		case "ENTRYPOINT":
			im.entrypoint = list(rest)
		case "CMD":
			im.command = list(rest)
		case "VOLUME":
			im.volumes = list(rest)
		case "EXPOSE":
			im.exposed = strings.Fields(rest)
		case "STOPSIGNAL":
			im.signal = rest
		case "WORKDIR", "RUN":
			im.unread = append(im.unread, line)
		default:
			t.Fatalf("an instruction that this test does not know: %s", line)
		}
	}
	return im
}

// lay creates the files of the image in an empty directory.
func (im image) lay(t *testing.T) string {
	t.Helper()
	root, err := os.MkdirTemp("", "mintage-image-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(root) })
	if err := os.Chmod(root, 0o755); err != nil {
		t.Fatal(err)
	}
	made := map[string]string{"/out/mintage": binary.Path(t), "/out/data": "", "/out/run": "", "/etc/ssl/certs/ca-certificates.crt": "/etc/ssl/certs/ca-certificates.crt"}
	mode := regexp.MustCompile(`--chmod=(\d+)`)
	for _, c := range im.copies {
		options, from, to := strings.Join(c[:len(c)-2], " "), c[len(c)-2], filepath.Join(root, c[len(c)-1])
		source, known := made[from]
		if !strings.Contains(options, "--from=") {
			source, known = filepath.Join(repository, from), true
		}
		if !known {
			t.Fatalf("the build makes no %s", from)
		}
		bits := os.FileMode(0o644)
		if source == "" {
			bits = 0o755
		}
		if m := mode.FindStringSubmatch(options); m != nil {
			n, _ := strconv.ParseUint(m[1], 8, 32)
			bits = os.FileMode(n)
		}
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			t.Fatal(err)
		}
		if source == "" {
			err = os.Mkdir(to, bits)
		} else {
			err = os.WriteFile(to, []byte(read(t, source)), bits)
		}
		if inBuild := strings.Join(im.built, ""); err == nil && source == "" && strings.Contains(inBuild, "touch "+from+"/new-store") {
			err = os.WriteFile(filepath.Join(to, "new-store"), nil, bits)
		}
		if err == nil && strings.Contains(options, "--chown=65532:65532") {
			err = os.Chown(to, 65532, 65532)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func freePort(t *testing.T) string {
	t.Helper()
	_, port, _ := net.SplitHostPort(binary.FreeAddress(t, "127.0.0.1"))
	return port
}

// TestTheImageHasAllThatTheProgramNeeds runs the program as in the image: as a numeric
// user without an account, in a root without /tmp, /dev, /proc and /etc/passwd.
func TestTheImageHasAllThatTheProgramNeeds(t *testing.T) {
	t.Parallel()
	im := readImage(t)
	if im.from != "scratch" || im.user != "65532:65532" || im.signal != "SIGTERM" || !slices.Equal(im.exposed, []string{"8443", "9000"}) ||
		!slices.Equal(im.volumes, []string{"/var/lib/mintage"}) || len(im.unread) > 0 {
		t.Errorf("the image is %+v", im)
	}
	root := im.lay(t)
	certificate(t, filepath.Join(root, "etc/mintage"), 65532)
	public, management := freePort(t), freePort(t)
	env := []string{"MINTAGE_PUBLIC_URL=https://127.0.0.1:" + public, "MINTAGE_TLS_CERT=/etc/mintage/tls.crt", "MINTAGE_TLS_KEY=/etc/mintage/tls.key",
		"MINTAGE_LISTEN=127.0.0.1:" + public, "MINTAGE_MANAGEMENT_LISTEN=127.0.0.1:" + management}
	program := func(args ...string) *exec.Cmd {
		cmd := exec.Command(im.entrypoint[0], append(im.entrypoint[1:], args...)...)
		cmd.Err, cmd.Dir, cmd.Env = nil, "/", env
		cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Credential: &syscall.Credential{Uid: 65532, Gid: 65532}, Pdeathsig: syscall.SIGKILL}
		return cmd
	}
	var log bytes.Buffer
	serve := program(im.command...)
	serve.Stderr = &log
	if err := serve.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- serve.Wait() }()
	awaitReady(t, "http://127.0.0.1:"+management+"/readyz", ended, &log)
	if out, err := program("client", "create", "--config", "/etc/mintage/mintage.yaml", "--name", "Billing", "--redirect-uri", "https://billing.example/callback", "--scope", "read").CombinedOutput(); err != nil {
		t.Errorf("client create: %v\n%s", err, out)
	}
	if _, err := os.Stat(filepath.Join(root, "var/lib/mintage/new-store")); err == nil {
		t.Error("after the first start, a lost store would be replaced by an empty one")
	}
	if err := serve.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil || strings.Contains(log.String(), `"level":"ERROR"`) {
		t.Errorf("the server ended with %v\n%s", err, log.String())
	}
}

// awaitReady waits until a server answers that it is ready.
func awaitReady(t *testing.T, url string, ended chan error, log fmt.Stringer) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		select {
		case err := <-ended:
			t.Fatalf("the server has ended: %v\n%s", err, log)
		default:
		}
		resp, err := http.Get(url)
		if err == nil {
			io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: not ready after a minute: %v\n%s", url, err, log)
		}
	}
}

// certificate creates tls.crt, tls.key and, with both, tls.pem.
func certificate(t *testing.T, dir string, owner int) {
	t.Helper()
	output(t, "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "30", "-subj", "/CN=mintage",
		"-addext", "subjectAltName=IP:127.0.0.1", "-keyout", filepath.Join(dir, "tls.key"), "-out", filepath.Join(dir, "tls.crt"))
	pair := read(t, filepath.Join(dir, "tls.crt")) + read(t, filepath.Join(dir, "tls.key"))
	if err := os.WriteFile(filepath.Join(dir, "tls.pem"), []byte(pair), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"tls.key", "tls.crt"} {
		if err := os.Chown(filepath.Join(dir, name), owner, owner); err != nil {
			t.Fatal(err)
		}
	}
}
