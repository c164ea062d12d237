package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/explain"
)

// This file lets explain find the server's log: the server leaves a link to it
// in the data directory, and the journal finds lines by the program's name.

// linkedLog is a symbolic link in the data directory to the file that the
// server's standard error is.
const linkedLog = "log"

const (
	// devLog is the log of a --dev server that writes to a terminal.
	devLog = "dev-log.jsonl"
	// maxDevLog bounds it; each start begins it anew.
	maxDevLog = 64 << 20
)

// journalTime bounds the search in the journal.
const journalTime = 30 * time.Second

// linkLog leaves the link to the log file, and removes one that is not true any
// more. A --dev server whose log goes to no file gets one, in JSON.
func linkLog(cfg config.Config, dev bool, stderr *os.File, log *slog.Logger, level slog.Leveler) *slog.Logger {
	link := filepath.Join(cfg.Data, linkedLog)
	target := fileOf(stderr)
	var failed error
	if target == "" && dev {
		target = filepath.Join(cfg.Data, devLog)
		f, err := os.OpenFile(target, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
		if failed = err; err == nil {
			// It is closed when the process ends, with the last line.
			log = slog.New(slog.NewMultiHandler(log.Handler(), slog.NewJSONHandler(&limitedWriter{f, maxDevLog}, &slog.HandlerOptions{Level: level})))
		}
	}
	info, err := os.Lstat(link)
	switch {
	case failed != nil || err == nil && info.Mode().Type() != fs.ModeSymlink:
		// What else has that name is not ours.
	case err == nil:
		failed = os.Remove(link)
	case !errors.Is(err, fs.ErrNotExist):
		failed = err
	}
	if failed == nil && target != "" && target != link {
		if failed = os.Symlink(target, link); errors.Is(failed, fs.ErrExist) {
			failed = nil
		}
	}
	if failed != nil {
		log.Warn("cannot leave a link to the log for mintage explain", "error", failed)
	}
	return log
}

// fileOf is the path of a regular file that is open, or "".
func fileOf(f *os.File) string {
	path, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", f.Fd()))
	if err != nil {
		return ""
	}
	open, err := f.Stat()
	if err != nil || !open.Mode().IsRegular() {
		return ""
	}
	if named, err := os.Stat(path); err != nil || !os.SameFile(open, named) {
		return "" // it was removed
	}
	return path
}

// A limitedWriter drops what goes beyond a number of bytes.
type limitedWriter struct {
	w    io.Writer
	left int
}

func (l *limitedWriter) Write(p []byte) (int, error) {
	if len(p) > l.left {
		l.left = 0
		return len(p), nil
	}
	l.left -= len(p)
	return l.w.Write(p)
}

// findLog looks for a request in the file that the server has left a link to,
// and in the journal; nil if there is neither.
func findLog(ctx context.Context, cfg config.Config, requestID string) (*explain.Log, error) {
	log, err := linkedLogOf(cfg, requestID)
	if err != nil || log != nil && len(log.Lines) > 0 {
		return log, err
	}
	journal, err := readJournal(ctx, requestID)
	if journal != nil && log != nil && len(journal.Lines) == 0 {
		journal.Name = log.Name + " or " + journal.Name
	}
	if journal != nil {
		return journal, err
	}
	return log, err
}

func linkedLogOf(cfg config.Config, requestID string) (*explain.Log, error) {
	path, err := filepath.EvalSymlinks(filepath.Join(cfg.Data, linkedLog))
	if err != nil {
		return nil, nil
	}
	// A pipe would keep the command waiting.
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
		return nil, nil
	}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrPermission) {
		return nil, hint(fmt.Errorf("read the server's log: %w", err), "run this as a user who can read it, or name a copy with --log")
	}
	if err != nil {
		return nil, nil
	}
	defer f.Close()
	log, err := explain.ReadLog(f, requestID)
	if err != nil {
		return nil, fmt.Errorf("log %s: %w", path, err)
	}
	log.Name = path
	return log, nil
}

// readJournal asks journalctl for the lines of programs with our name. It is nil
// where there is no journal, or this user may not read it.
func readJournal(ctx context.Context, requestID string) (*explain.Log, error) {
	journalctl, err := exec.LookPath("journalctl")
	if err != nil {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, journalTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, journalctl, "--quiet", "--no-pager", "--output=cat", "--identifier=mintage", "--grep="+requestID)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, nil
	}
	log, err := explain.ReadLog(out, requestID)
	// It ends with 1 where nothing matches, and where there is no journal.
	waited := cmd.Wait()
	if err != nil || waited != nil && len(log.Lines) == 0 && !hasJournal() {
		return nil, nil
	}
	log.Name = "the journal, as far as this user may read it"
	return log, nil
}

// hasJournal reports whether this machine keeps a journal.
func hasJournal() bool {
	_, err := os.Stat("/run/systemd/journal/socket")
	return err == nil
}
