package node

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/deployment"
)

const (
	// devLog is the log of a --dev server that writes to a terminal.
	devLog = "dev-log.jsonl"
	// maxDevLog limits its size; each start truncates it.
	maxDevLog = 64 << 20
)

// linkLog links to the log file for mintage explain, and removes an outdated link.
// A --dev server whose log goes to no file writes one, in JSON.
func linkLog(cfg config.Config, dev bool, stderr *os.File, log *slog.Logger, level slog.Leveler) *slog.Logger {
	link := filepath.Join(cfg.Data, deployment.LinkedLog)
	target := fileOf(stderr)
	var failed error
	if target == "" && dev {
		target = filepath.Join(cfg.Data, devLog)
		f, err := os.OpenFile(target, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
		if failed = err; err == nil {
			// The end of the process closes it, after the last line.
			log = slog.New(slog.NewMultiHandler(log.Handler(), slog.NewJSONHandler(&limitedWriter{f, maxDevLog}, &slog.HandlerOptions{Level: level})))
		}
	}
	info, err := os.Lstat(link)
	switch {
	case failed != nil || err == nil && info.Mode().Type() != fs.ModeSymlink:
		// Another file with that name is left alone.
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

// fileOf returns the path of an open regular file, or "".
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

// A limitedWriter discards everything after a number of bytes.
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
