package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/deployment"
	"github.com/mintage/mintage/internal/explain"
)

// This file finds the server's log for explain: the server leaves a link to it in
// the data directory, and the journal finds lines by the program's name.

// journalTime limits the search in the journal.
const journalTime = 30 * time.Second

// findLog reads the lines about a request: from the file that --log names, or else
// from the file to which the server has left a link, or else from the journal. It
// returns nil if there is none of these.
func findLog(cmd *cobra.Command, cfg config.Config, named string, asked explain.Asked) (*explain.Log, error) {
	switch {
	case named != "" && !asked.IsRequest():
		return nil, deployment.Usage(deployment.Hint(errors.New("--log is for a request id"), "a request id is the 16 hexadecimal digits of an answer's X-Request-Id"))
	case !asked.IsRequest():
		return nil, nil
	case named == "":
		return searchLog(cmd.Context(), cfg, asked.Text)
	}
	in := cmd.InOrStdin()
	if named != "-" {
		f, err := os.Open(named)
		if err != nil {
			return nil, deployment.Hint(fmt.Errorf("log: %w", err), "name the server's log in JSON lines, or - for standard input")
		}
		defer f.Close()
		in = f
	}
	log, err := readLog(in, named, asked.Text)
	if err == nil && log.Read == 0 {
		err = deployment.Hint(fmt.Errorf("log %s: there is nothing in it", named), "the server writes its log to standard error; with systemd: journalctl -u mintage -o cat")
	}
	return log, err
}

func readLog(in io.Reader, name, requestID string) (*explain.Log, error) {
	log, err := explain.ReadLog(in, requestID)
	if err != nil {
		return nil, fmt.Errorf("log %s: %w", name, err)
	}
	log.Name = name
	return log, nil
}

// searchLog reads the linked file and, if that holds nothing, the journal.
func searchLog(ctx context.Context, cfg config.Config, requestID string) (*explain.Log, error) {
	log, err := linkedLog(cfg, requestID)
	if err != nil || log != nil && len(log.Lines) > 0 {
		return log, err
	}
	journal, err := readJournal(ctx, requestID)
	if err != nil || journal == nil {
		return log, err
	}
	if log != nil && len(journal.Lines) == 0 {
		journal.Name = log.Name + " or " + journal.Name
	}
	return journal, nil
}

func linkedLog(cfg config.Config, requestID string) (*explain.Log, error) {
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
	return readLog(f, path, requestID)
}

// readJournal reads the lines of programs with this name from the journal. It
// returns nil if there is no journal, or this user may not read it.
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
	log, err := readLog(out, "the journal, as far as this user may read it", requestID)
	// journalctl ends with 1 if nothing matches, and if there is no journal.
	waited := cmd.Wait()
	_, absent := os.Stat("/run/systemd/journal/socket")
	if err != nil || waited != nil && len(log.Lines) == 0 && absent != nil {
		return nil, nil
	}
	return log, nil
}
