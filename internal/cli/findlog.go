package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/deployment"
	"github.com/mintage/mintage/internal/explain"
)

// This file lets explain find the server's log: the server leaves a link to it
// in the data directory, and the journal finds lines by the program's name.

// journalTime bounds the search in the journal.
const journalTime = 30 * time.Second

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
	path, err := filepath.EvalSymlinks(filepath.Join(cfg.Data, deployment.LinkedLog))
	if err != nil {
		return nil, nil
	}
	// A pipe would keep the command waiting.
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
		return nil, nil
	}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrPermission) {
		return nil, deployment.Hint(fmt.Errorf("read the server's log: %w", err), "run this as a user who can read it, or name a copy with --log")
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
