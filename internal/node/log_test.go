package node

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/deployment"
)

// If the log goes to a file, the data directory has a link to it. An outdated link is
// removed, and a file that is not a link stays.
func TestTheDataDirectoryLinksToTheLog(t *testing.T) {
	dir := t.TempDir()
	cfg := config.Config{Data: dir}
	link := filepath.Join(dir, "log")
	file, err := os.Create(filepath.Join(t.TempDir(), "server.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	_, pipe, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer pipe.Close()
	var warnings bytes.Buffer
	log := slog.New(slog.NewTextHandler(&warnings, nil))
	target := func() string {
		text, _ := os.Readlink(link)
		return text
	}

	for range 2 { // a second start as well
		linkLog(cfg, false, file, log, slog.LevelInfo)
		if target() != file.Name() {
			t.Fatalf("the link leads to %q, want %s", target(), file.Name())
		}
	}
	linkLog(cfg, false, pipe, log, slog.LevelInfo)
	if _, err := os.Lstat(link); err == nil {
		t.Errorf("the log goes into a pipe, and the link leads to %q", target())
	}

	own, err := os.Create(link)
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	linkLog(cfg, false, own, log, slog.LevelInfo)
	linkLog(cfg, false, file, log, slog.LevelInfo)
	if info, err := os.Lstat(link); err != nil || !info.Mode().IsRegular() {
		t.Errorf("a file that is not a link was removed: %v", err)
	}
	if warnings.Len() > 0 {
		t.Errorf("warned: %s", &warnings)
	}
}

// The log of a --dev server on a terminal also goes to a file of limited size.
func TestADevServerOnATerminalKeepsItsLog(t *testing.T) {
	cfg := config.Config{Data: t.TempDir()}
	_, pipe, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer pipe.Close()
	var seen bytes.Buffer
	log := linkLog(cfg, true, pipe, slog.New(slog.NewTextHandler(&seen, nil)), slog.LevelInfo)
	log.Debug("for those who debug")
	log.Info("authorization refused", "request_id", "00000000000000aa", "error", "invalid_request: code_challenge missing")
	if !strings.Contains(seen.String(), "code_challenge missing") {
		t.Errorf("the terminal shows %q", &seen)
	}
	text, err := os.ReadFile(filepath.Join(cfg.Data, deployment.LinkedLog))
	if err != nil || bytes.Count(text, []byte("\n")) != 1 || !bytes.Contains(text, []byte("00000000000000aa")) {
		t.Fatalf("the log of the data directory holds %q, %v", text, err)
	}
	if info, err := os.Stat(filepath.Join(cfg.Data, deployment.LinkedLog)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("its mode is %v, %v", info.Mode(), err)
	}

	var b bytes.Buffer
	w := &limitedWriter{&b, 5}
	for _, text := range []string{"abc", "def", "g"} {
		io.WriteString(w, text)
	}
	if b.String() != "abc" {
		t.Errorf("a writer of 5 bytes has written %q", &b)
	}
}

func TestAScraperThatGoesAwayIsNoError(t *testing.T) {
	var out strings.Builder
	log := scrapeLog{slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelInfo}))}
	log.Println("error encoding and sending metric family:", &net.OpError{Op: "write", Net: "tcp", Err: syscall.EPIPE})
	if out.Len() > 0 {
		t.Errorf("logged: %s", out.String())
	}
	log.Println("error gathering metrics:", errors.New("collected before"))
	if !strings.Contains(out.String(), "level=ERROR") || !strings.Contains(out.String(), "collected before") {
		t.Errorf("logged: %q", out.String())
	}
}
