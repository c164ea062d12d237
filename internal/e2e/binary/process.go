package binary

import (
	"bytes"
	"net"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/testkit/freeport"
)

// An Output collects the output of a program. It is safe for concurrent use.
type Output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// FreeAddress returns a free address of host, for a program that cannot choose one
// itself. It is reserved until the end of the test.
func FreeAddress(t testing.TB, host string) string {
	t.Helper()
	port, release, err := freeport.Reserve(host)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(release)
	return net.JoinHostPort(host, strconv.Itoa(port))
}

// Serve starts a program, waits until something listens on the address, and ends the
// program with the test. If the test fails, it logs the program's output. A program that
// is not installed fails the test.
func Serve(t testing.TB, cmd *exec.Cmd, address string) {
	t.Helper()
	out, done := &Output{}, make(chan struct{})
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatalf("%v (make tools installs what is missing)", err)
	}
	go func() {
		cmd.Wait()
		close(done)
	}()
	t.Cleanup(func() {
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		<-done
		if t.Failed() {
			t.Logf("%s wrote:\n%s", cmd.Path, out)
		}
	})
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		select {
		case <-done:
			t.Fatalf("%s has ended:\n%s", cmd.Path, out)
		default:
		}
		if c, err := net.Dial("tcp", address); err == nil {
			c.Close()
			return
		}
	}
	t.Fatalf("%s does not listen on %s:\n%s", cmd.Path, address, out)
}
