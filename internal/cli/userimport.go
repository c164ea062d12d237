package cli

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/mintage/mintage/internal/account"
	"github.com/mintage/mintage/internal/admin"
	"github.com/mintage/mintage/internal/claims"
)

// Limits of an import: a line holds all claims of a user, and a batch is one commit.
const (
	maxImportLine = 16 << 10
	importBatch   = 100
)

func newUserImport(s *settings) *cobra.Command {
	var dry bool
	cmd := &cobra.Command{
		Use:   "import FILE [--dry-run]",
		Short: "Create users from a file of JSON lines",
		Long: `Create users from a file, or from standard input if FILE is -. Each line is a
JSON object with username and, if need be, name, subject, claims and
password_hash: a hash by argon2id in PHC text, as Mintage itself stores it. A
user without one cannot log in until "mintage user password" sets a password.

A username that exists is left as it is. So an import that has stopped, because
of a wrong line for example, is repeated with the whole file. --dry-run checks
all of it and stores nothing.`,
		Example: `  mintage user import users.jsonl --dry-run
  mintage user import users.jsonl`,
		Args: exactly(1, "one file, or - for standard input"),
	}
	cmd.Flags().BoolVar(&dry, "dry-run", false, "check the file, and store nothing")
	return s.prints(cmd, func(cmd *cobra.Command, a *session, args []string) (any, text, error) {
		in := cmd.InOrStdin()
		if args[0] != "-" {
			f, err := os.Open(args[0])
			if err != nil {
				return nil, nil, err
			}
			defer f.Close()
			in = f
		}
		i := userImport{seen: map[string]int{}, subjects: map[string]int{}, progress: newProgress(cmd.ErrOrStderr(), time.Now)}
		clients := &admin.ClientIDs{}
		i.store = func(list []account.Registration) (int, error) {
			return a.ImportUsers(cmd.Context(), list, dry, clients)
		}
		err := i.read(in)
		i.progress.end()
		if err != nil && !dry && i.Created+i.Existing > 0 {
			err = fmt.Errorf("%w; %d users of the lines before were imported: correct the line, and import the whole file again", err, i.Created)
		}
		verb := "imported"
		if dry {
			verb = "to import"
		}
		return i, line("users %s: %d, that exist: %d", verb, i.Created, i.Existing), err
	})
}

// A userImport reads a file in batches.
type userImport struct {
	Created  int `json:"created"`
	Existing int `json:"existing"`

	seen     map[string]int // lines by username
	subjects map[string]int // lines by subject
	batch    []account.Registration
	lines    []int // of the batch
	store    func([]account.Registration) (created int, err error)
	progress *progress
}

func (i *userImport) read(in io.Reader) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(make([]byte, 4096), maxImportLine)
	n := 0
	for lines.Scan() {
		n++
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		if err := i.add(n, lines.Bytes()); err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
		if len(i.batch) == importBatch {
			if err := i.flush(); err != nil {
				return err
			}
		}
	}
	if err := lines.Err(); errors.Is(err, bufio.ErrTooLong) {
		return fmt.Errorf("line %d: longer than %d bytes", n+1, maxImportLine)
	} else if err != nil {
		return err
	}
	return i.flush()
}

func (i *userImport) add(n int, text []byte) error {
	var u struct {
		Username     string        `json:"username"`
		Name         string        `json:"name"`
		Subject      string        `json:"subject"`
		Claims       claims.Claims `json:"claims"`
		PasswordHash string        `json:"password_hash"`
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&u); err != nil {
		return fmt.Errorf("read a JSON object: %w", err)
	}
	if dec.More() {
		return errors.New("more than one JSON object")
	}
	username := account.Fold(u.Username)
	if first := i.seen[username]; first != 0 {
		return fmt.Errorf("the username %q is in line %d already", username, first)
	}
	if len(i.seen) == account.MaxUsers {
		return fmt.Errorf("more than %d users", account.MaxUsers)
	}
	i.seen[username] = n
	subject := cmp.Or(u.Subject, username)
	if first := i.subjects[subject]; first != 0 {
		return fmt.Errorf("the subject %q is in line %d already", subject, first)
	}
	i.subjects[subject] = n
	i.batch = append(i.batch, account.Registration{Username: u.Username, Name: u.Name, Subject: u.Subject, Claims: u.Claims, PasswordHash: u.PasswordHash})
	i.lines = append(i.lines, n)
	return nil
}

// flush stores the batch.
func (i *userImport) flush() error {
	if len(i.batch) == 0 {
		return nil
	}
	created, err := i.store(i.batch)
	var wrong *admin.ImportError
	switch {
	case errors.As(err, &wrong):
		return fmt.Errorf("line %d: %w", i.lines[wrong.Index], wrong.Err)
	case err != nil:
		return fmt.Errorf("lines %d to %d: %w", i.lines[0], i.lines[len(i.lines)-1], err)
	}
	i.Created += created
	i.Existing += len(i.batch) - created
	i.batch, i.lines = i.batch[:0], i.lines[:0]
	i.progress.report("import", int64(i.Created+i.Existing), 0, false, func(time.Duration) string {
		return fmt.Sprintf("%d users", i.Created+i.Existing)
	})
	return nil
}
