//go:build e2e

package docs

import (
	"bufio"
	"fmt"
	"io"
	"io/fs"
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

// A shell is a reader's terminal: it runs one block after the other, keeps variables, and
// ends when a command fails.
type shell struct {
	dir    string // the reader's directory
	notes  string // scripts and outputs
	cmd    *exec.Cmd
	in     io.WriteCloser
	status *bufio.Reader
	pasted int
	first  node
	second node // for pages with several nodes
	// database is the address of the PostgreSQL of a page that needs one, or "".
	database string
}

// A node is the address at which a server of a page really listens, and the process group
// of its running server.
type node struct {
	webOnPage, opsOnPage string
	listen, management   string
	group                int
}

const (
	blockTime      = 3 * time.Minute // includes a go build
	databaseOnPage = "127.0.0.1:5432"
)

// open starts a shell in a fresh directory, with mintage in its PATH.
func open(t *testing.T, repository, page string) (*shell, error) {
	// A socket's path has at most 107 characters; t.TempDir would contain the test's long
	// name.
	dir, err := os.MkdirTemp("", "docs")
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	sh := &shell{
		dir: dir, notes: t.TempDir(),
		first:  node{webOnPage: "127.0.0.1:8443", opsOnPage: "127.0.0.1:9000"},
		second: node{webOnPage: "127.0.0.1:8444", opsOnPage: "127.0.0.1:9001"},
	}
	if strings.Contains(page, "./cmd/mintage") || strings.Contains(page, " ./examples/") {
		if err := copySource(repository, sh.dir); err != nil {
			return nil, err
		}
	}
	for _, address := range []*string{&sh.first.listen, &sh.first.management, &sh.second.listen, &sh.second.management} {
		*address = binary.FreeAddress(t, "127.0.0.1")
	}
	sh.cmd = exec.Command("sh", "-eu")
	sh.cmd.Dir = sh.dir
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "MINTAGE_") && !strings.HasPrefix(kv, "HOME=") && !strings.HasPrefix(kv, "PATH=") {
			sh.cmd.Env = append(sh.cmd.Env, kv)
		}
	}
	// The go caches stay below the real home directory.
	caches, err := exec.Command("go", "env", "GOCACHE", "GOPATH", "GOMODCACHE").Output()
	if err != nil {
		return nil, err
	}
	lines := strings.Split(string(caches), "\n")
	sh.cmd.Env = append(sh.cmd.Env, "GOCACHE="+lines[0], "GOPATH="+lines[1], "GOMODCACHE="+lines[2],
		"HOME="+sh.notes, "PATH="+filepath.Dir(binary.Path(t))+":"+os.Getenv("PATH"))
	if strings.Contains(page, databaseOnPage) {
		if sh.database, err = startDatabase(t); err != nil {
			return nil, err
		}
		host, port, _ := net.SplitHostPort(sh.database)
		sh.cmd.Env = append(sh.cmd.Env, "PGHOST="+host, "PGPORT="+port, "PGUSER=postgres")
	}
	sh.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if sh.in, err = sh.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	sh.cmd.ExtraFiles = []*os.File{w}
	sh.status = bufio.NewReader(r)
	t.Cleanup(func() {
		sh.first.stop()
		sh.second.stop()
		syscall.Kill(-sh.cmd.Process.Pid, syscall.SIGKILL)
		sh.cmd.Wait()
		r.Close()
	})
	err = sh.cmd.Start()
	w.Close()
	return sh, err
}

// copySource copies the files of the repository's clone that `go build` needs.
func copySource(from, to string) error {
	for _, name := range []string{"go.mod", "go.sum", "bench", "cmd", "internal", "examples", "resource"} {
		err := filepath.WalkDir(filepath.Join(from, name), func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			target := filepath.Join(to, strings.TrimPrefix(path, from))
			switch {
			case d.IsDir() && (d.Name() == "node_modules" || d.Name() == "testdata"):
				return fs.SkipDir
			case d.IsDir():
				return os.MkdirAll(target, 0o755)
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			return os.WriteFile(target, text, 0o644)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

var serveCommand = regexp.MustCompile(`(?m)^(?:\S*mintage|go run \./cmd/mintage) serve(?: .*)?$`)

// paste runs a block. A server at the end of the block continues in the background.
func (sh *shell) paste(text string) (stdout, stderr string, err error) {
	serving := &sh.first
	if strings.Contains(text, "--listen "+sh.second.webOnPage) {
		serving = &sh.second
	}
	text = sh.replacer(false).Replace(text)
	text = strings.TrimSpace(strings.ReplaceAll(text, "\\\n", " "))
	sh.pasted++
	name := filepath.Join(sh.notes, strconv.Itoa(sh.pasted))
	out, errOut := name+".out", name+".err"
	serves := serveCommand.FindAllStringIndex(text, -1)
	if len(serves) > 0 {
		if len(serves) > 1 || serves[0][1] != len(text) {
			return "", "", fmt.Errorf("a server must be the last command of its block")
		}
		serving.stop()
		// Use a process group of its own: `go run` does not forward signals.
		text = fmt.Sprintf("%s{ export MINTAGE_LISTEN=%s MINTAGE_MANAGEMENT_LISTEN=%s; exec setsid %s\n} >%s.server.out 2>%s.server.err &\necho $! >%s.pid\n",
			text[:serves[0][0]], serving.listen, serving.management, text[serves[0][0]:], name, name, name)
	}
	if err := os.WriteFile(name+".sh", []byte(text+"\n"), 0o600); err != nil {
		return "", "", err
	}
	fmt.Fprintf(sh.in, "{ . %s.sh; } >%s 2>%s </dev/null 3>&-; echo done >&3\n", name, out, errOut)
	finished := make(chan error, 1)
	go func() {
		_, err := sh.status.ReadString('\n')
		finished <- err
	}()
	failed := false
	select {
	case err := <-finished:
		failed = err != nil
	case <-time.After(blockTime):
		return "", "", fmt.Errorf("not finished after %s", blockTime)
	}
	if len(serves) > 0 && !failed {
		out, errOut = name+".server.out", name+".server.err"
		if err := serving.await(name); err != nil {
			log, _ := os.ReadFile(errOut)
			return "", "", fmt.Errorf("%w\n%s", err, log)
		}
	}
	stdout, stderr = sh.read(out), sh.read(errOut)
	if failed {
		return "", "", fmt.Errorf("a command failed:\n%s%s", stdout, stderr)
	}
	return stdout, stderr, nil
}

// replacer replaces the addresses of the page by the real ones, or with back, the
// reverse.
func (sh *shell) replacer(back bool) *strings.Replacer {
	pairs := []string{"localhost:8443", sh.first.listen, "localhost:9000", sh.first.management}
	if back {
		pairs = nil
	}
	add := func(page, real string) {
		if real == "" {
			return
		}
		if back {
			page, real = real, page
		}
		pairs = append(pairs, page, real)
	}
	for _, n := range []node{sh.first, sh.second} {
		add(n.webOnPage, n.listen)
		add(n.opsOnPage, n.management)
	}
	add(databaseOnPage, sh.database)
	return strings.NewReplacer(pairs...)
}

// read returns an output with the addresses of the page.
func (sh *shell) read(name string) string {
	text, _ := os.ReadFile(name)
	return sh.replacer(true).Replace(string(text))
}

// await waits until the server that a block has started is ready.
func (n *node) await(name string) error {
	text, err := os.ReadFile(name + ".pid")
	if err != nil {
		return err
	}
	if n.group, err = strconv.Atoi(strings.TrimSpace(string(text))); err != nil {
		return err
	}
	for deadline := time.Now().Add(blockTime); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if ended(n.group) {
			return fmt.Errorf("the server has ended")
		}
		resp, err := http.Get("http://" + n.management + "/readyz")
		if err != nil {
			continue
		}
		resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			return nil
		}
	}
	return fmt.Errorf("the server is not ready after %s", blockTime)
}

// ended reports whether a process is gone, or is a zombie that its parent has not reaped.
func ended(pid int) bool {
	state, _ := status(pid)
	return state == "" || state == "Z"
}

// status returns the state of a process and its group, or "" without such a process.
func status(pid int) (state string, group int) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, _ := strings.Cut(string(text), ") ")
	fmt.Sscan(rest, &state, new(int), &group)
	return state, group
}

// gone reports whether no process of a group runs any more. `go run` is a group of two
// processes: at a signal the first one ends while the server still handles it.
func gone(group int) bool {
	entries, _ := os.ReadDir("/proc")
	return !slices.ContainsFunc(entries, func(e fs.DirEntry) bool {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			return false
		}
		state, of := status(pid)
		return of == group && state != "Z"
	})
}

// stop ends the server as Ctrl-C does. When it returns, another server can open the
// directory.
func (n *node) stop() {
	if n.group == 0 {
		return
	}
	syscall.Kill(-n.group, syscall.SIGTERM)
	for deadline := time.Now().Add(time.Minute); !gone(n.group); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			syscall.Kill(-n.group, syscall.SIGKILL)
		}
	}
	n.group = 0
}
