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
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mintage/mintage/internal/account"
	"github.com/mintage/mintage/internal/adminapi"
	"github.com/mintage/mintage/internal/adminclient"
	"github.com/mintage/mintage/internal/oauth"
)

// maxImportLine limits a line of an import, which holds all claims of a user.
const maxImportLine = 16 << 10

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
	return s.shows(cmd, func(cmd *cobra.Command, a *adminclient.Client, args []string) (any, text, error) {
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
		i.send = func(users []adminapi.ImportedUser) (done adminapi.Imported, err error) {
			err = a.Post(cmd.Context(), adminapi.ImportRequest{Users: users, DryRun: dry}, &done, "imports")
			return done, err
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
		return i.Imported, line("users %s: %d, that exist: %d", verb, i.Created, i.Existing), err
	})
}

// A userImport reads a file in batches, each of which is one commit.
type userImport struct {
	adminapi.Imported

	seen     map[string]int // lines by username
	subjects map[string]int // lines by subject
	batch    []adminapi.ImportedUser
	lines    []int // of the batch
	send     func([]adminapi.ImportedUser) (adminapi.Imported, error)
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
		if len(i.batch) == adminapi.MaxImport {
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
	var u adminapi.ImportedUser
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&u); err != nil {
		return fmt.Errorf("read a JSON object: %s", adminapi.Misread("it", err))
	}
	if _, err := dec.Token(); err != io.EOF { // More ignores a closing bracket
		return errors.New("there is more than one JSON object")
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
	i.batch = append(i.batch, u)
	i.lines = append(i.lines, n)
	return nil
}

// flush sends the batch, counts the users and empties the batch.
func (i *userImport) flush() error {
	if len(i.batch) == 0 {
		return nil
	}
	done, err := i.send(i.batch)
	if wrong := (*oauth.Invalid)(nil); errors.As(err, &wrong) {
		err = fmt.Errorf("%s: %s", wrong.Field, wrong.Message) // it names no flag
		if at := strings.SplitN(wrong.Field, ".", 3); len(at) == 3 {
			if n, bad := strconv.Atoi(at[1]); bad == nil && n < len(i.lines) {
				return fmt.Errorf("line %d: %s: %s", i.lines[n], at[2], wrong.Message)
			}
		}
	}
	if err != nil {
		return fmt.Errorf("lines %d to %d: %w", i.lines[0], i.lines[len(i.lines)-1], err)
	}
	i.Created += done.Created
	i.Existing += done.Existing
	i.batch, i.lines = i.batch[:0], i.lines[:0]
	i.progress.report("import", int64(i.Created+i.Existing), 0, false, func(time.Duration) string {
		return fmt.Sprintf("%d users", i.Created+i.Existing)
	})
	return nil
}
