package binary

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// leftovers is the name's prefix of directories with a built program; the process id of
// their test follows.
const leftovers = "mintage-e2e-pid"

// removeLeftovers removes what former test processes have built: a test process has no
// hook at its end to do that itself.
func removeLeftovers() {
	dirs, _ := filepath.Glob(filepath.Join(os.TempDir(), leftovers+"*"))
	for _, dir := range dirs {
		pid, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(dir), leftovers), "-")
		if n, err := strconv.Atoi(pid); err == nil && errors.Is(syscall.Kill(n, 0), syscall.ESRCH) {
			os.RemoveAll(dir)
		}
	}
}

// Command returns the program with the given arguments, not yet started. It is killed
// when the test process dies.
func Command(t testing.TB, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(Path(t), args...)
	// Remove MINTAGE_ settings of the person who runs the tests.
	cmd.Env = slices.DeleteFunc(os.Environ(), func(kv string) bool { return strings.HasPrefix(kv, "MINTAGE_") })
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

// Try runs an administrator's command on the server's directory and returns
// what it wrote.
func (s *Server) Try(t testing.TB, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	cmd := Command(t, append(args, s.commandFlags()...)...)
	var out, text bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &text
	err = cmd.Run()
	s.searchCommand(t, args, out.Bytes(), text.Bytes())
	return out.String(), text.String(), err
}

// Run is Try for a command that must succeed. It returns standard output.
func (s *Server) Run(t testing.TB, args ...string) string {
	t.Helper()
	out, text, err := s.Try(t, args...)
	if err != nil {
		t.Fatalf("mintage %s: %v\n%s", strings.Join(args, " "), err, text)
	}
	return out
}

// StartRefused runs `mintage serve --dev` where it must refuse to start, and
// returns what it wrote to standard error.
func StartRefused(t testing.TB, dir string, args ...string) string {
	t.Helper()
	cmd := Command(t, append([]string{"serve", "--dev", "--data", dir, "--listen", "127.0.0.1:0", "--management-listen", "127.0.0.1:0"}, args...)...)
	var text bytes.Buffer
	cmd.Stderr = &text
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err := <-ended:
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != 1 {
			t.Fatalf("serve ended with %v, want exit status 1\n%s", err, text.String())
		}
	case <-time.After(time.Minute):
		cmd.Process.Kill()
		<-ended
		t.Fatalf("serve runs, and should have refused to start\n%s", text.String())
	}
	return text.String()
}

// Wait waits for the end of a server that was signalled to stop, and returns the exit
// error.
func (s *Server) Wait() error { return s.wait() }
