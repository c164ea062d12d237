package cli

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/mintage/mintage/internal/deployment"
)

// A serverProcess is the server of a script.
type serverProcess struct {
	cmd  *exec.Cmd
	done chan error
}

// running holds the server of each script that has one, by the script's
// directory.
var running sync.Map

// start ARGS... runs `mintage serve ARGS` in the background, on the directory
// data and free ports unless ARGS name others, and waits until it is ready. Its output goes to serve.out and serve.err; the
// values of dev.json become variables.
func scriptStart(ts *testscript.TestScript, neg bool, args []string) {
	if neg {
		ts.Fatalf("start cannot be negated: use fails 1 mintage serve")
	}
	data := "data"
	if i := slices.Index(args, "--data"); i >= 0 {
		data = args[i+1]
	}
	all := append([]string{"serve", "--data", data, "--listen", "127.0.0.1:0", "--management-listen", "127.0.0.1:0"}, args...)
	out, err := os.Create(ts.MkAbs("serve.out"))
	ts.Check(err)
	errOut, err := os.Create(ts.MkAbs("serve.err"))
	ts.Check(err)
	defer out.Close()
	defer errOut.Close()
	program, err := exec.LookPath("mintage")
	ts.Check(err)
	p := &serverProcess{exec.Command(program, all...), make(chan error, 1)}
	p.cmd.Args[0] = program
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = ts.MkAbs("."), out, errOut
	p.cmd.Env = []string{"PATH=" + ts.Getenv("PATH"), "HOME=" + ts.Getenv("HOME"), "GORACE=" + ts.Getenv("GORACE")}
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	ts.Check(p.cmd.Start())
	go func() { p.done <- p.cmd.Wait() }()
	ts.Defer(func() { p.cmd.Process.Kill() })
	running.Store(ts.Getenv("WORK"), p)

	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		text, err := os.ReadFile(ts.MkAbs("serve.out"))
		ts.Check(err)
		if bytes.Contains(text, []byte("Scripts find these values")) {
			break
		}
		select {
		case err := <-p.done:
			ts.Fatalf("serve ended: %v\n%s", err, ts.ReadFile("serve.err"))
		default:
		}
		if time.Now().After(deadline) {
			ts.Fatalf("serve is not ready after a minute\n%s", ts.ReadFile("serve.err"))
		}
	}
	var info deployment.DevInfo
	text, err := os.ReadFile(filepath.Join(ts.MkAbs(data), "dev.json"))
	ts.Check(err)
	ts.Check(json.Unmarshal(text, &info))
	for name, value := range map[string]string{
		"PUBLIC": strings.TrimSuffix(info.Issuer, "/oauth2/api"), "ENDPOINT": info.TokenEndpoint, "CA": info.CAFile, "CLIENT": info.ClientID, "SECRET": info.ClientSecret,
		"CALLBACK": info.RedirectURI, "SOCKET": info.AdminSocket, "MANAGEMENT": info.Management,
	} {
		ts.Setenv(name, value)
	}
}

// halt stops the script's server as an operator would, and requires a clean exit.
func scriptHalt(ts *testscript.TestScript, neg bool, args []string) {
	v, ok := running.LoadAndDelete(ts.Getenv("WORK"))
	if neg || len(args) > 0 || !ok {
		ts.Fatalf("usage: halt, after start")
	}
	p := v.(*serverProcess)
	ts.Check(p.cmd.Process.Signal(syscall.SIGTERM))
	select {
	case err := <-p.done:
		if err != nil {
			ts.Fatalf("serve ended: %v\n%s", err, ts.ReadFile("serve.err"))
		}
	case <-time.After(time.Minute):
		ts.Fatalf("serve has not ended")
	}
}

// request sends a token request to $ENDPOINT, without a program of the system. It prints
// the body, and the status to standard error. It fails unless the status is 200.
func request() {
	id := flag.String("id", "", "client id for the Authorization header")
	basic := flag.String("basic", "", "its secret, form-encoded as RFC 6749 section 2.3.1 says")
	raw := flag.String("raw-basic", "", "its secret, as it is")
	flag.Parse()
	pem, err := os.ReadFile(os.Getenv("CA"))
	if err != nil {
		fatal("%v", err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem)
	form := url.Values{}
	for _, pair := range flag.Args() {
		name, value, _ := strings.Cut(pair, "=")
		form.Add(name, value)
	}
	req, err := http.NewRequest(http.MethodPost, os.Getenv("ENDPOINT"), strings.NewReader(form.Encode()))
	if err != nil {
		fatal("%v", err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	switch {
	case *basic != "":
		req.SetBasicAuth(url.QueryEscape(*id), url.QueryEscape(*basic))
	case *raw != "":
		req.SetBasicAuth(*id, *raw)
	}
	client := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
	resp, err := client.Do(req)
	if err != nil {
		fatal("%v", err)
	}
	defer resp.Body.Close()
	if _, err := io.Copy(os.Stdout, resp.Body); err != nil {
		fatal("%v", err)
	}
	fmt.Fprintln(os.Stderr, "status", resp.StatusCode)
	if resp.StatusCode != http.StatusOK {
		os.Exit(1)
	}
}
