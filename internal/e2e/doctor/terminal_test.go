//go:build e2e

package doctor

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/mintage/mintage/internal/e2e/binary"
)

// terminal opens a pseudo-terminal and returns the sides of the test and of the program.
func terminal(t *testing.T) (ours, theirs *os.File) {
	t.Helper()
	ours, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	check(t, err)
	t.Cleanup(func() { ours.Close() })
	var unlock, number int32
	for request, value := range map[uintptr]*int32{syscall.TIOCSPTLCK: &unlock, syscall.TIOCGPTN: &number} {
		if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, ours.Fd(), request, uintptr(unsafe.Pointer(value))); errno != 0 {
			t.Fatal(errno)
		}
	}
	theirs, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	check(t, err)
	return ours, theirs
}

// TestExplainDoesNotShowWhatIsPasted: explain reads a pasted token from the terminal
// without echoing it.
func TestExplainDoesNotShowWhatIsPasted(t *testing.T) {
	s := binary.Start(t, t.TempDir())
	code := s.Code(t, "alice")
	ours, theirs := terminal(t)
	cmd := binary.Command(t, "explain", "--data", s.Dir)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = theirs, theirs, theirs
	check(t, cmd.Start())
	theirs.Close()
	shown := &binary.Output{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		part := make([]byte, 4096)
		for {
			n, err := ours.Read(part)
			shown.Write(part[:n])
			if err != nil {
				return // the program has ended
			}
		}
	}()
	for deadline := time.Now().Add(time.Minute); !strings.Contains(shown.String(), "(not shown): "); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the program has not prompted: %q", shown)
		}
	}
	if _, err := ours.WriteString(code + "\r"); err != nil {
		t.Fatal(err)
	}
	<-done
	check(t, cmd.Wait())
	if text := shown.String(); !strings.Contains(text, "An authorization code, authentic.") || strings.Contains(text, code[:20]) || strings.Contains(text, code[len(code)-20:]) {
		t.Errorf("the terminal shows %q", strings.ReplaceAll(text, code, "THE CODE"))
	}
}
