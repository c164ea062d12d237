//go:build e2e

package reload

import (
	"bufio"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mintage/mintage/internal/e2e/binary"
)

// openTerminal opens a pseudo-terminal: the side of its window, and the side of programs.
func openTerminal(t *testing.T) (window, programs *os.File) {
	t.Helper()
	window, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { window.Close() })
	// Do not use window.Fd: it makes reads blocking, and Close would wait for them.
	conn, err := window.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	if e := conn.Control(func(fd uintptr) {
		if err = unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0); err == nil {
			n, err = unix.IoctlGetInt(int(fd), unix.TIOCGPTN)
		}
	}); e != nil || err != nil {
		t.Fatal(e, err)
	}
	programs, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	return window, programs
}

// TestAServerInATerminalReloadsBySIGHUPAndEndsWithItsWindow: closing a terminal's window
// sends SIGHUP, too, the signal for a reload.
func TestAServerInATerminalReloadsBySIGHUPAndEndsWithItsWindow(t *testing.T) {
	// Under nohup the tests start with SIGHUP ignored, which child processes would
	// inherit. Handling it here resets it to its default in them.
	handled := make(chan os.Signal, 1)
	signal.Notify(handled, syscall.SIGHUP)
	t.Cleanup(func() { signal.Stop(handled) })
	window, programs := openTerminal(t)
	cmd := binary.Command(t, "serve", "--dev", "--data", t.TempDir(), "--listen", "127.0.0.1:0", "--management-listen", "127.0.0.1:0")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = programs, programs, programs
	cmd.SysProcAttr.Setsid, cmd.SysProcAttr.Setctty = true, true
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() { cmd.Process.Kill() })
	programs.Close()

	seen := make(chan string)
	go func() {
		defer close(seen)
		for lines := bufio.NewScanner(window); lines.Scan(); {
			seen <- lines.Text()
		}
	}()
	late := time.After(60 * time.Second)
	await := func(text string) {
		t.Helper()
		for {
			select {
			case line, open := <-seen:
				if !open {
					t.Fatalf("the server has ended without printing %q", text)
				}
				if strings.Contains(line, text) {
					return
				}
			case <-late:
				t.Fatalf("the server does not print %q", text)
			}
		}
	}
	await("Scripts find these values")
	if err := cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	await("configuration reloaded")
	go func() {
		for range seen { // drain what the server prints at its end
		}
	}()
	window.Close()
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("the server ended with %v", err)
		}
	case <-late:
		t.Error("the server has outlived its terminal")
	}
}
