package binary

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"net"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"
)

// An Output is what a program writes. It is safe for concurrent use.
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

// FreeAddress is an address of host that nobody listens on, for a program that
// cannot choose one itself. Its port is below those that the kernel gives to
// connections: until the program listens, no connection takes it. Until the end of
// the test, no other test gets it, of whatever process: for that, a socket outside
// of the file system has its number. Nor does any test get the port two above it,
// where a server of --dev has its console.
func FreeAddress(t testing.TB, host string) string {
	t.Helper()
	for {
		port := strconv.Itoa(11_000 + rand.IntN(5_000)*4 + rand.IntN(2))
		reserved, err := net.Listen("unix", "@mintage-port-"+port)
		if errors.Is(err, syscall.EADDRINUSE) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { reserved.Close() })
		address := net.JoinHostPort(host, port)
		if err := tryToListen(address); errors.Is(err, syscall.EADDRINUSE) {
			continue
		} else if err != nil {
			t.Fatal(err)
		}
		return address
	}
}

// tryToListen listens for a moment in which this process starts no other one: that
// would hold the socket, too, until its program runs.
func tryToListen(address string) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	l, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	return l.Close()
}

// Serve starts a program, waits until something listens on the address, and
// ends the program with the test. What it writes is shown if the test fails. A
// program that is not installed fails it.
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
