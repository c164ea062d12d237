package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/mintage/mintage/internal/admin"
	"github.com/mintage/mintage/internal/deployment"
	"github.com/mintage/mintage/internal/oauth"
)

// Results go to standard output, as a table for people or as JSON (internal/show);
// the rest goes to standard error, behind "mintage: ", in lower case, without a
// period.

// sqliteCorrupt is the result code of a damaged page (https://sqlite.org/rescode.html).
const sqliteCorrupt = 11

// noteEmpty says on standard error that a list has nothing in it, which is not
// the same as one that could not be read.
func noteEmpty(cmd *cobra.Command, entries int, what string) {
	if entries == 0 {
		fmt.Fprintf(cmd.ErrOrStderr(), "mintage: %s\n", what)
	}
}

// checkText refuses the value of a flag that is not UTF-8, as typed in a terminal
// with another encoding. Nothing stored is like it, and PostgreSQL refuses to
// look for it.
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
		// Only a signal cancels a command.
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
