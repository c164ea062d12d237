package sqlite_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/mintage/mintage/internal/store/sqlite"
)

// lockVariable names the directory that a second process of this test program locks until
// it is killed.
const lockVariable = "MINTAGE_TEST_LOCK"

func TestMain(m *testing.M) {
	if dir := os.Getenv(lockVariable); dir != "" {
		if _, err := sqlite.Lock(dir); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println("locked")
		io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestASecondServerIsRefused(t *testing.T) {
	dir := t.TempDir()
	release, err := sqlite.Lock(dir)
	if err != nil {
		t.Fatal(err)
	}
	var locked *sqlite.LockedError
	if _, err := sqlite.Lock(dir); !errors.As(err, &locked) || !strings.Contains(err.Error(), "another mintage server is running on "+dir) {
		t.Errorf("a second lock: %v", err)
	}
	// An administrator's command works beside the server.
	create(t, dir)
	release()
	release, err = sqlite.Lock(dir)
	if err != nil {
		t.Fatalf("after release: %v", err)
	}
	release()
}

func TestTheLockEndsWithItsProcess(t *testing.T) {
	dir := t.TempDir()
	child := exec.CommandContext(t.Context(), os.Args[0])
	child.Env = append(os.Environ(), lockVariable+"="+dir)
	stdin, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	stdout, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(stdout).ReadString('\n'); line != "locked\n" {
		t.Fatalf("child: %q, %v", line, err)
	}
	if _, err := sqlite.Lock(dir); err == nil {
		t.Error("the lock of a living process was taken")
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	child.Wait()
	release, err := sqlite.Lock(dir)
	if err != nil {
		t.Fatalf("after its process was killed: %v", err)
	}
	release()
}

func TestTheErrorOfLockNamesTheFaultOfTheDirectory(t *testing.T) {
	if _, err := sqlite.Lock(t.TempDir() + "/absent"); err == nil || !strings.Contains(err.Error(), "the data directory does not exist") {
		t.Errorf("Lock in no directory: %v", err)
	}
}

func TestTheLockNamesItsProcess(t *testing.T) {
	dir := t.TempDir()
	// A longer process id that the file contained before is overwritten completely.
	if err := os.WriteFile(filepath.Join(dir, "serve.lock"), []byte("123456789012\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	release, err := sqlite.Lock(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	text, err := os.ReadFile(filepath.Join(dir, "serve.lock"))
	if want := fmt.Sprintf("%d\n", os.Getpid()); err != nil || string(text) != want {
		t.Errorf("%q, %v, want %q", text, err, want)
	}
}

// The server's user owns the directory and could put a link there: a lock by root must not
// write through the link.
func TestALockIsNotWrittenThroughALink(t *testing.T) {
	dir, other := t.TempDir(), filepath.Join(t.TempDir(), "roots")
	if err := os.WriteFile(other, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(other, filepath.Join(dir, "serve.lock")); err != nil {
		t.Fatal(err)
	}
	if release, err := sqlite.Lock(dir); err == nil {
		release()
		t.Error("a link is locked")
	}
	if text, err := os.ReadFile(other); err != nil || string(text) != "text" {
		t.Errorf("the other file holds %q, %v", text, err)
	}
}

// A command locks the directory for a short time. A server that starts waits for it, and a
// second command is refused.
func TestAServerAwaitsACommand(t *testing.T) {
	dir := t.TempDir()
	release, err := sqlite.LockForCommand(dir)
	if err != nil {
		t.Fatal(err)
	}
	var locked *sqlite.LockedError
	if _, err := sqlite.LockForCommand(dir); !errors.As(err, &locked) || locked.Process != strconv.Itoa(os.Getpid()) {
		t.Errorf("a second command: %v", err)
	}
	server := make(chan error)
	go func() {
		release, err := sqlite.Lock(dir)
		if err == nil {
			release()
		}
		server <- err
	}()
	release()
	if err := <-server; err != nil {
		t.Error(err)
	}
}

// A command that has just taken the lock has not yet written its id: the file still names
// the previous server. A server that starts at this instant must still wait.
func TestAServerAwaitsACommandThatHasJustBegun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		f, err := os.OpenFile(filepath.Join(dir, "serve.lock"), os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if err := errors.Join(os.WriteFile(f.Name(), []byte("4711\n"), 0o600), syscall.Flock(int(f.Fd()), syscall.LOCK_EX)); err != nil {
			t.Fatal(err)
		}
		server := make(chan error, 1)
		go func() {
			release, err := sqlite.Lock(dir)
			if err == nil {
				release()
			}
			server <- err
		}()
		synctest.Wait() // until Lock pauses after its first attempt
		select {
		case err := <-server:
			t.Fatalf("the server did not wait: %v", err)
		default:
		}
		if err := errors.Join(os.WriteFile(f.Name(), []byte("4712 command\n"), 0o600), f.Close()); err != nil {
			t.Fatal(err)
		}
		if err := <-server; err != nil {
			t.Error(err)
		}
	})
}
