package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/deployment"
	"github.com/mintage/mintage/internal/directory"
	"github.com/mintage/mintage/internal/explain"
	"github.com/mintage/mintage/internal/node"
	"github.com/mintage/mintage/internal/server/token"
	"github.com/mintage/mintage/internal/store"
)

func newExplain(s *settings) *cobra.Command {
	var logFile, subject string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "explain [TOKEN | CODE | REQUEST-ID | GRANT-ID | --subject S SESSION]",
		Short: "Explain a token, a code, a request, a grant or a session",
		Long: `Explain a token, a code, a request or a grant: whether it is authentic, whether it
would be accepted now, and if not, why, what the client receives, and what to do;
then the history of its grant. The command changes nothing, and works while the
server runs.

Paste tokens and codes: without an argument, the command reads standard input, and
a terminal does not show it. On the command line, every process of the machine
could read them. A callback URL, an Authorization header or a whole token response
may be pasted as it is. Nothing of it is printed.

Of an id_token, and of a session of a subject (its id or the sid of a client), it
shows the session and the grants that the session made; of a grant, which session
made it.

A request is found by its X-Request-Id in the audit log and in the server's log:
the file that standard error is redirected to, or --log.

The command needs the server's configuration. Without the key-encryption key it
cannot verify tokens, and explains the rest.`,
		Example: `  mintage explain                                    # then paste a token
  mintage explain < token.txt
  mintage explain 0f3c9a50c1d24e6f8b7a6c5d4e3f2a1b   # a grant
  mintage explain 5f2b6c0e9a1d4473                   # a request
  mintage explain --subject alice 5f2b6c0e9a1d44735f2b6c0e   # a session
  docker logs mintage 2>&1 | mintage explain 5f2b6c0e9a1d4473 --log -
  journalctl -u mintage -o cat | mintage explain 5f2b6c0e9a1d4473 --log -`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			in, err := readInput(cmd, args, logFile)
			if err == nil {
				err = checkText("subject", subject)
			}
			if err != nil {
				return err
			}
			in.Subject = subject
			a, err := s.open(cmd.Context())
			if err != nil {
				return err
			}
			defer a.Close()
			log, err := findLog(cmd, a.cfg, logFile, in)
			if err != nil {
				return err
			}
			named := ""
			if s.realm != "" {
				of, err := s.settingsOf(a.cfg)
				if err != nil {
					return err
				}
				named = of.Realm
			}
			v, err := a.explain(cmd.Context(), in, log, named)
			if err != nil {
				return err
			}
			return output(cmd, asJSON, v, v.Print)
		},
	}
	cmd.Flags().StringVar(&subject, "subject", "", "for a session: whose it is")
	cmd.Flags().StringVar(&logFile, "log", "", "for a request: file with the server's log (JSON lines), or - for standard input; default: the file that standard error is redirected to")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// maxPasted is larger than any token with its context.
const maxPasted = 64 << 10

// readInput reads the input from the argument or from standard input.
func readInput(cmd *cobra.Command, args []string, logFile string) (explain.Input, error) {
	if len(args) == 1 && args[0] != "-" {
		a := explain.Parse(args[0])
		if a.Secret() {
			fmt.Fprintln(cmd.ErrOrStderr(), "mintage: a token or code on the command line can be read by every process and stays in the shell's history; next time, paste it into: mintage explain")
		}
		return a, nil
	}
	if logFile == "-" {
		return explain.Input{}, deployment.Usage(deployment.Hint(errors.New("standard input holds the log: name the request id as an argument"), "see: mintage explain --help"))
	}
	var text []byte
	var err error
	if stdin, ok := cmd.InOrStdin().(*os.File); ok && term.IsTerminal(int(stdin.Fd())) {
		text, err = readUnseen(cmd.Context(), stdin, cmd.ErrOrStderr())
	} else {
		text, err = io.ReadAll(io.LimitReader(cmd.InOrStdin(), maxPasted+1))
	}
	switch {
	case err != nil:
		return explain.Input{}, fmt.Errorf("read standard input: %w", err)
	case len(text) > maxPasted:
		return explain.Input{}, deployment.Usage(fmt.Errorf("standard input holds more than one token, code or id: more than %d bytes", maxPasted))
	case strings.TrimSpace(string(text)) == "":
		return explain.Input{}, deployment.Usage(deployment.Hint(errors.New("nothing to explain on standard input"), "see: mintage explain --help"))
	}
	return explain.Parse(string(text)), nil
}

// longestTyped is the longest line that a terminal accepts; it cuts longer ones.
const longestTyped = 4096

// readUnseen prompts for a line on a terminal. The echo is off before the prompt
// appears.
func readUnseen(ctx context.Context, stdin *os.File, stderr io.Writer) ([]byte, error) {
	before, err := term.MakeRaw(int(stdin.Fd()))
	if err != nil {
		return nil, err
	}
	defer term.Restore(int(stdin.Fd()), before)
	terminal := term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{stdin, stderr}, "")
	type typed struct {
		line string
		err  error
	}
	done := make(chan typed, 1)
	go func() {
		line, err := terminal.ReadPassword("mintage: paste a token, a code or an id, and press enter (not shown): ")
		done <- typed{line, err}
	}()
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case t := <-done:
		if len(t.line) >= longestTyped {
			return nil, deployment.Hint(errors.New("longer than a terminal accepts in a line"), "put it into a file: mintage explain < FILE")
		}
		if errors.Is(t.err, io.EOF) {
			return []byte(t.line), nil // Ctrl-C or Ctrl-D
		}
		return []byte(t.line), t.err
	}
}

// ofDev returns cfg with the address that a --dev server has chosen, unless cfg has an
// address.
func ofDev(cfg config.Config) config.Config {
	if cfg.PublicURL == "" && cfg.Issuer == "" {
		if dev, err := asDev(cfg); err == nil {
			return dev
		}
	}
	return cfg
}

// explain explains the input in the named realm. Without a name, it chooses the realm that
// made the token or code, or that has the grant, or else the default realm.
func (a *opened) explain(ctx context.Context, in explain.Input, log *explain.Log, named string) (first *explain.Explained, err error) {
	cfg := ofDev(a.cfg)
	kek, locked := deployment.ReadKEK(cfg)
	known, err := directory.Read(ctx, a.Store, kek, deployment.KeySchedule(cfg), time.Now)
	if err != nil && kek != nil {
		// The key may be of another store: continue without it.
		locked = err
		known, err = directory.Read(ctx, a.Store, nil, deployment.KeySchedule(cfg), time.Now)
	}
	if err != nil {
		return nil, err
	}
	for _, of := range cfg.Each() {
		if named != "" && of.Realm != named {
			continue
		}
		st := a.Store
		if len(cfg.Realms) > 0 {
			st = &store.RealmStore{Store: a.Store, Name: of.Realm}
		}
		tokens := token.Endpoints{InvalidRequestForDeadRefresh: of.Compat.InvalidRequestForDeadRefresh}
		x := &explain.Explainer{
			Config: of, Realm: of.Realm, Realms: cfg.RealmNames(), Store: st, Directory: known, Now: time.Now, MaxSkew: of.Skew(),
			Issuer: node.NewIssuer(of, st, known, nil, slog.New(slog.DiscardHandler)), Locked: locked, ResponseTo: tokens.ErrorAnswer,
		}
		v, err := x.Explain(ctx, in, log)
		if err != nil || v.Found() {
			return v, err
		}
		if first == nil {
			first = v
		}
	}
	return first, nil
}

// findLog reads the lines about a request: from the file that --log names, or else
// from the file that receives the server's standard error, to which the server has left
// a link in the data directory. It returns nil if there is neither.
func findLog(cmd *cobra.Command, cfg config.Config, named string, input explain.Input) (*explain.Log, error) {
	switch {
	case named != "" && !input.IsRequest():
		return nil, deployment.Usage(deployment.Hint(errors.New("--log is for a request id"), "a request id is the 16 hexadecimal digits of an answer's X-Request-Id"))
	case !input.IsRequest():
		return nil, nil
	case named == "":
		return linkedLog(cfg, input.Text)
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
	log, err := readLog(in, named, input.Text)
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

func linkedLog(cfg config.Config, requestID string) (*explain.Log, error) {
	path, err := filepath.EvalSymlinks(filepath.Join(cfg.Data, deployment.LinkedLog))
	if err != nil {
		return nil, nil
	}
	// Reading a pipe would block the command.
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
