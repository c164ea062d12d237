//go:build e2e

package golden

import (
	"bufio"
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"maps"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/e2e/binary"
)

// A world runs one script: it has a directory, a store and at most one server. The
// directory is the working directory of all programs, so that most paths are relative and
// the same in each run.
type world struct {
	t     testing.TB
	dir   string
	env   []string
	names *names
	step  string

	listen, management string
	admin              string        // address of the admin API, if a script asks for one
	states             *net.UnixConn // the service manager's end of NOTIFY_SOCKET
	way                way
	command            string // the command that started the server; "" while none runs
	server             *exec.Cmd
	stdout, log        *binary.Output
}

// version is the program's version, which all worlds share.
var version struct {
	once sync.Once
	text string
}

func newWorld(t testing.TB, engine string) *world {
	w := &world{t: t, names: newNames()}
	// The path has the same length in each run, because some output is wrapped or
	// aligned.
	w.dir = filepath.Join(os.TempDir(), "golden-"+rand.Text())
	w.must(os.Mkdir(w.dir, 0o700))
	t.Cleanup(func() { os.RemoveAll(w.dir) })
	bin := filepath.Join(w.dir, ".bin")
	w.must(os.Mkdir(bin, 0o755))
	w.must(os.Symlink(binary.Path(t), filepath.Join(bin, "mintage")))
	w.listen, w.management = binary.FreeAddress(t, "127.0.0.1"), binary.FreeAddress(t, "127.0.0.1")
	w.admin = binary.FreeAddress(t, "127.0.0.1")
	w.certificate()
	// An installation leaves the data directory like this: the first start may make the
	// store.
	w.must(os.Mkdir(filepath.Join(w.dir, "data"), 0o700))
	w.must(os.WriteFile(filepath.Join(w.dir, "data", "new-store"), nil, 0o600))
	socket := filepath.Join(w.dir, ".notify")
	var err error
	w.states, err = net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	w.must(err)
	t.Cleanup(func() { w.states.Close() })
	w.env = []string{"PATH=" + bin + ":" + os.Getenv("PATH"), "HOME=" + w.dir, "TZ=UTC", "LC_ALL=C", "NOTIFY_SOCKET=" + socket, "GOMAXPROCS=2",
		"SSL_CERT_FILE=/dev/null", "SSL_CERT_DIR=" + filepath.Join(bin, "none"), // without them, each command on TCP would read all system roots
		"MINTAGE_DATA=data", "MINTAGE_LISTEN=" + w.listen, "MINTAGE_MANAGEMENT_LISTEN=" + w.management,
		"MINTAGE_PUBLIC_URL=https://" + w.listen, "MINTAGE_TLS_CERT=cert.pem", "MINTAGE_TLS_KEY=key.pem"}
	if engine == "postgres" {
		_, url := database.Schema(t)
		w.env = append(w.env, "MINTAGE_STORE="+url)
		w.names.set("<database>", url)
		w.names.set("<database-host>", regexp.MustCompile(`127\.0\.0\.1:\d+`).FindString(url))
		w.names.set("<schema>", regexp.MustCompile(`test_\w+`).FindString(url))
	}
	version.once.Do(func() {
		out, err := binary.Command(t, "version").Output()
		w.must(err)
		first, _, _ := strings.Cut(string(out), "\n")
		version.text = strings.TrimPrefix(first, "mintage ")
	})
	w.names.set("<version>", version.text)
	host, err := os.Hostname()
	w.must(err)
	who, err := user.Current()
	w.must(err)
	w.names.set("<dir>", w.dir)
	w.names.set("<program>", binary.Path(t))
	w.names.set("<listen>", w.listen)
	w.names.set("<management>", w.management)
	w.names.set("<admin>", w.admin)
	w.names.set(`"node":"<node>"`, `"node":"`+host+`"`)
	w.names.set("; on <node>", "; on "+host)
	w.names.set("node=<node>", "node="+host)
	w.names.set("operator:<user>", "operator:"+who.Username)
	t.Cleanup(func() {
		if w.server != nil {
			w.server.Process.Kill()
			w.server.Wait()
		}
		if t.Failed() {
			t.Logf("at the step %s", w.step)
			if w.log != nil {
				lines := strings.Split(w.log.String(), "\n")
				t.Logf("the end of the server's log:\n%s", strings.Join(lines[max(0, len(lines)-10):], "\n"))
			}
		}
	})
	return w
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatalf("%s: %v", w.step, err)
	}
}

// certificate writes cert.pem and key.pem, valid for 127.0.0.1 and ten years.
func (w *world) certificate() {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	w.must(err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "golden"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(10, 0, 0), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	w.must(err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	w.must(err)
	w.must(os.WriteFile(filepath.Join(w.dir, "cert.pem"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o644))
	w.must(os.WriteFile(filepath.Join(w.dir, "key.pem"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o600))
}

func (w *world) start(command string) string {
	if w.server != nil {
		w.t.Fatal("a server runs already")
	}
	if w.way == remote && !strings.Contains(command, "--admin-listen") {
		command += " --admin-listen " + w.admin + " --admin-token-file .token"
	}
	w.command, w.stdout, w.log = command, &binary.Output{}, &binary.Output{}
	w.launch(command)
	return ""
}

func (w *world) launch(command string) {
	w.server = exec.Command("sh", "-c", "exec "+command)
	w.server.Dir, w.server.Env = w.dir, w.env
	w.server.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	w.server.Stdout, w.server.Stderr = w.stdout, w.log
	w.must(w.server.Start())
	w.await("READY=1")
}

// await reads the server's notifications to the service manager until one contains a
// state.
func (w *world) await(state string) {
	w.t.Helper()
	w.must(w.states.SetReadDeadline(time.Now().Add(time.Minute)))
	message := make([]byte, 4096)
	for {
		n, err := w.states.Read(message)
		if err != nil {
			w.t.Fatalf("the server does not report %s: %v", state, err)
		}
		if slices.Contains(strings.Split(string(message[:n]), "\n"), state) {
			return
		}
	}
}

func (w *world) reload() string {
	w.must(w.server.Process.Signal(syscall.SIGHUP))
	w.await("RELOADING=1")
	w.await("READY=1")
	return ""
}

// shutDown stops the server cleanly.
func (w *world) shutDown() {
	w.must(w.server.Process.Signal(syscall.SIGTERM))
	err := w.server.Wait()
	w.server = nil
	if err != nil {
		w.t.Fatalf("the server ended with %v\n%s", err, w.log)
	}
}

func (w *world) stop() string {
	if w.server != nil {
		w.shutDown()
	}
	w.command = ""
	lines := slices.DeleteFunc(strings.Split(strings.TrimSuffix(w.names.replace(w.log.String()), "\n"), "\n"), sporadic.MatchString)
	return indent("  ", w.names.hide(w.stdout.String())) + indent("! ", strings.Join(sortedLines(lines), "\n"))
}

// sporadic matches log lines that only some runs have: the server was stopped while it
// wrote to the store on its own initiative, or was asked for the head of its audit log
// before it had written one.
var sporadic = regexp.MustCompile(`the anchor of the audit|"path":"/admin/v1/audit/head"`)

func (w *world) auditLog() string {
	text := w.shell("mintage audit show --json --limit 0", w.names.replace)
	return strings.Join(sortedLines(strings.SplitAfter(text, "\n")), "")
}

// awaitAudit waits until the server has written to its audit log, so that a killed server
// always leaves something there.
func (w *world) awaitAudit() {
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		resp, err := http.Get("http://" + w.management + "/metrics")
		w.must(err)
		text, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		w.must(err)
		if regexp.MustCompile(`(?m)^mintage_audit_written_total [1-9]`).Match(text) {
			return
		}
		if time.Now().After(deadline) {
			w.t.Fatal("the server writes no audit log")
		}
	}
}

// metrics returns the type and the series, without values, of each metric of Mintage;
// with help, the help texts, too.
func (w *world) metrics(help bool) string {
	resp, err := http.Get("http://" + w.management + "/metrics")
	w.must(err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	w.must(err)
	bound := regexp.MustCompile(`,?le="[^"]*"|\{le="[^"]*"\}`)
	var list, series []string
	for line := range strings.Lines(w.names.replace(string(text)) + "#\n") {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case strings.Contains(line, "go_") || strings.Contains(line, "process_"): // metrics of the Go libraries
		case strings.HasPrefix(line, "# HELP") && !help:
		case strings.HasPrefix(line, "#"):
			list = append(append(list, sortedLines(series)...), line)
			series = nil
		default:
			series = append(series, bound.ReplaceAllString(line[:strings.LastIndexByte(line, ' ')], ""))
		}
	}
	return indent("  ", strings.Join(list[:len(list)-1], "\n"))
}

// jwt prints the header and the claims of a JWT.
func (w *world) jwt(token string) string {
	var out strings.Builder
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		w.t.Errorf("not a JWT: %s", token)
		return ""
	}
	for _, part := range parts[:2] {
		text, err := base64.RawURLEncoding.DecodeString(part)
		w.must(err)
		out.WriteString(w.names.hide(string(text)) + "\n")
	}
	return indent("  ", out.String())
}

// request sends a request and returns the response byte for byte. The first line names
// the listener, unless it is the public one.
func (w *world) request(lines []string) string {
	where, method, _ := strings.Cut(lines[0], " ")
	if where == "admin" && w.way == remote {
		where, lines = "tcpadmin", slices.Insert(slices.Clone(lines), 1, "Authorization: Bearer "+remoteToken)
	}
	var conn net.Conn
	var err error
	host := w.listen
	switch where {
	case "admin":
		host = "admin"
		conn, err = net.Dial("unix", filepath.Join(w.dir, "data", "admin.sock"))
	case "tcpadmin":
		host = w.admin
		conn, err = tls.Dial("tcp", w.admin, &tls.Config{InsecureSkipVerify: true})
	case "management":
		host = w.management
		conn, err = net.Dial("tcp", w.management)
	default:
		method = lines[0]
		conn, err = tls.Dial("tcp", w.listen, &tls.Config{InsecureSkipVerify: true})
	}
	w.must(err)
	defer conn.Close()
	w.must(conn.SetDeadline(time.Now().Add(time.Minute)))
	head, body := lines[1:], ""
	if i := slices.Index(head, ""); i >= 0 {
		head, body = head[:i], strings.Join(head[i+1:], "\n")
	}
	names := map[string]bool{}
	for _, line := range head {
		name, _, _ := strings.Cut(line, ":")
		names[strings.ToLower(name)] = true
	}
	defaults := map[string]string{"Host": host}
	if body != "" {
		defaults["Content-Length"] = fmt.Sprint(len(body))
		defaults["Content-Type"] = "application/x-www-form-urlencoded"
		if strings.HasPrefix(body, "{") {
			defaults["Content-Type"] = "application/json"
		}
	}
	for _, name := range slices.Sorted(maps.Keys(defaults)) {
		if !names[strings.ToLower(name)] {
			head = append(head, name+": "+defaults[name])
		}
	}
	_, err = fmt.Fprintf(conn, "%s HTTP/1.1\r\n%s\r\n\r\n%s", method, strings.Join(head, "\r\n"), body)
	w.must(err)
	verb, _, _ := strings.Cut(method, " ")
	return w.answer(conn, &http.Request{Method: verb})
}

func (w *world) answer(conn net.Conn, r *http.Request) string {
	var raw bytes.Buffer
	resp, err := http.ReadResponse(bufio.NewReader(io.TeeReader(conn, &raw)), r)
	w.must(err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	w.must(err)
	head, _, _ := strings.Cut(raw.String(), "\r\n\r\n")
	// The body is compared itself, and was read by this length.
	text := contentLength.ReplaceAllString(strings.ReplaceAll(head, "\r\n", "\n"), "Content-Length: <n>")
	if len(body) > 0 {
		text += "\n\n" + string(body)
	}
	return indent("  ", w.names.hide(text))
}

var contentLength = regexp.MustCompile(`(?m)^Content-Length: [1-9]\d*$`)
