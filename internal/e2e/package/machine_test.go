//go:build e2e

// Package packaging checks the contents of a release: archives and packages, the systemd
// unit under a running systemd, and the container and orchestration files.
package packaging

import (
	"bytes"
	_ "embed"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

//go:embed testdata/boot.sh
var bootScript string

// A machine is a Debian in namespaces of this one. It sees the same files in an overlay,
// has its own processes, network and cgroups, and has booted systemd.
type machine struct {
	t    *testing.T
	init int // the PID of its first process on this machine
}

// boot starts a machine and removes it at the end of the test.
func boot(t *testing.T) *machine {
	t.Helper()
	if os.Getuid() != 0 {
		t.Fatal("a machine with systemd is booted in namespaces, which takes root: run the tests as root")
	}
	var log bytes.Buffer
	cmd := exec.Command("unshare", "--mount", "--pid", "--fork", "--kill-child", "--cgroup", "--uts", "--ipc", "--net", "sh", "-c", bootScript, "boot", t.TempDir())
	cmd.Stdout, cmd.Stderr = &log, &log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	m := &machine{t: t}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		// The only child of unshare is the machine's first process.
		children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", cmd.Process.Pid, cmd.Process.Pid))
		m.init, _ = strconv.Atoi(strings.TrimSpace(string(children)))
		if exe, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", m.init)); m.init != 0 && filepath.Base(exe) == "systemd" {
			if out, _, err := m.try("systemctl is-system-running"); err == nil || strings.TrimSpace(out) == "degraded" {
				return m
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("systemd has not booted\n%s", log.String())
		}
	}
}

// try runs a script as the machine's root.
func (m *machine) try(script string) (stdout, stderr string, err error) {
	return m.feed(nil, script)
}

// feed is try with standard input.
func (m *machine) feed(in io.Reader, script string) (stdout, stderr string, err error) {
	cmd := exec.CommandContext(m.t.Context(), "nsenter", "--target", strconv.Itoa(m.init), "--all", "--root", "sh", "-euc", "cd /\n"+script)
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C.UTF-8", "DEBIAN_FRONTEND=noninteractive"}
	var out, text bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, &out, &text
	err = cmd.Run()
	return out.String(), text.String(), err
}

// run is try for a script that must succeed. It returns standard output.
func (m *machine) run(script string) string {
	m.t.Helper()
	out, text, err := m.try(script)
	if err != nil {
		log, _, _ := m.try("journalctl --no-pager --lines 30")
		m.t.Fatalf("%s\n%v\n%s%s\nthe machine's log:\n%s", script, err, out, text, log)
	}
	return out
}

// fails is run for a script that must not succeed. It returns standard error.
func (m *machine) fails(script string) string {
	m.t.Helper()
	out, text, err := m.try(script)
	if err == nil {
		m.t.Errorf("%s\nsucceeded:\n%s", script, out)
	}
	return text
}

// put copies a file into the machine.
func (m *machine) put(from, to, mode string) {
	m.t.Helper()
	f, err := os.Open(from)
	if err != nil {
		m.t.Fatal(err)
	}
	defer f.Close()
	if _, text, err := m.feed(f, fmt.Sprintf("cat >%s; chmod %s %[1]s", to, mode)); err != nil {
		m.t.Fatalf("%s: %v\n%s", to, err, text)
	}
}

// write creates a file in the machine.
func (m *machine) write(to, mode, text string) {
	m.t.Helper()
	if _, errText, err := m.feed(strings.NewReader(text), fmt.Sprintf("cat >%s; chmod %s %[1]s", to, mode)); err != nil {
		m.t.Fatalf("%s: %v\n%s", to, err, errText)
	}
}
