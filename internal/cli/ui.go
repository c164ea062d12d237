package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/mintage/mintage/internal/admin"
	"github.com/mintage/mintage/internal/deployment"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/show"
)

// Results go to standard output, as a table for people or as JSON (internal/show);
// the rest goes to standard error, behind "mintage: ", in lower case, without a
// period.

// sqliteCorrupt is the result code of a damaged page (https://sqlite.org/rescode.html).
const sqliteCorrupt = 11

// A text writes a command's result for people.
type text func(io.Writer) error

// table is a list as a table.
func table(heading string, rows [][]string) text {
	return func(w io.Writer) error { return show.Table(w, heading, rows) }
}

// fields is a list of names and values, followed by other texts.
func fields(list [][2]string, more ...text) text {
	return func(w io.Writer) error {
		err := show.Fields(w, list)
		for _, t := range more {
			err = errors.Join(err, t(w))
		}
		return err
	}
}

// prints adds --json to a command on the store, which then prints the result of
// run: the value as JSON, or the text for people.
func (s *settings) prints(cmd *cobra.Command, run func(cmd *cobra.Command, a *session, args []string) (any, text, error)) *cobra.Command {
	asJSON := cmd.Flags().Bool("json", false, "print JSON")
	cmd.RunE = s.with(func(cmd *cobra.Command, a *session, args []string) error {
		value, forPeople, err := run(cmd, a, args)
		if err != nil {
			return err
		}
		return output(cmd, *asJSON, value, forPeople)
	})
	return cmd
}

func output(cmd *cobra.Command, asJSON bool, value any, forPeople text) error {
	if asJSON {
		return show.JSON(cmd.OutOrStdout(), value)
	}
	return forPeople(cmd.OutOrStdout())
}

// does completes a command that changes the store and prints a sentence.
func (s *settings) does(cmd *cobra.Command, run func(cmd *cobra.Command, a *session, args []string) (string, error)) *cobra.Command {
	cmd.RunE = s.with(func(cmd *cobra.Command, a *session, args []string) error {
		done, err := run(cmd, a, args)
		if err == nil {
			fmt.Fprintln(cmd.OutOrStdout(), done)
		}
		return err
	})
	return cmd
}

// when formats an instant of a value for programs.
func when(t *time.Time) string {
	if t == nil {
		return "-"
	}
	return t.Format(time.RFC3339)
}

// line is a single line.
func line(format string, args ...any) text {
	return func(w io.Writer) error { _, err := fmt.Fprintf(w, format+"\n", args...); return err }
}

// secretFields are fields with a secret, which are preceded by advice on standard
// error unless the secret is empty.
func secretFields(cmd *cobra.Command, secret, advice string, list [][2]string) text {
	return func(w io.Writer) error {
		if secret != "" {
			fmt.Fprintf(cmd.ErrOrStderr(), "mintage: %s: it is not shown again\n", advice)
		}
		return show.Fields(w, list)
	}
}

// noteEmpty reports on standard error that a list which could be read is empty.
func noteEmpty[T any](cmd *cobra.Command, list []T, err error, what string) {
	if len(list) == 0 && err == nil {
		fmt.Fprintf(cmd.ErrOrStderr(), "mintage: %s\n", what)
	}
}

// checkText returns an error if the value of a flag is not UTF-8, as from a
// terminal with another encoding. PostgreSQL does not accept such text.
func checkText(flag, value string) error {
	if !utf8.ValidString(value) {
		return deployment.Usage(deployment.Hint(fmt.Errorf("--%s: %q is not UTF-8 text", flag, value), "use a terminal that sends UTF-8; see: locale charmap"))
	}
	return nil
}

func printError(w io.Writer, err error) {
	var invalid *oauth.Invalid
	if errors.As(err, &invalid) {
		err = fmt.Errorf("--%s: %s", strings.ReplaceAll(invalid.Field, "_", "-"), invalid.Message)
		if invalid.Field == "after" {
			err = deployment.Hint(err, "begin again without --after")
		}
	}
	var failed *admin.Error
	if errors.As(err, &failed) {
		err = deployment.Hint(err, adviceFor(failed))
	}
	text := err.Error()
	if errors.Is(err, context.Canceled) {
		// Only a signal cancels the context.
		text = strings.ReplaceAll(text, context.Canceled.Error(), "stopped by a signal before it was done")
	}
	fmt.Fprintf(w, "mintage: %s\n", text)
	var h *deployment.Hinted
	var coded interface{ Code() int }
	switch {
	case errors.As(err, &h):
		fmt.Fprintf(w, "         %s\n", h.Hint)
	case errors.As(err, &coded) && coded.Code()&0xff == sqliteCorrupt && !strings.Contains(text, "restore a backup"):
		fmt.Fprintln(w, "         the store's file is damaged: put it aside and restore a backup; see: mintage restore --help")
	}
}
