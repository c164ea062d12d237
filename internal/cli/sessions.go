package cli

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/mintage/mintage/internal/admin"
	"github.com/mintage/mintage/internal/deployment"
	"github.com/mintage/mintage/internal/show"
)

func newSession(s *settings) *cobra.Command {
	return parent("session", "List and end the sessions of a subject", `List and end the sessions of a subject, with the grants that they made. A session
begins when a user logs in at a browser. Grants refer to it if their scope has
openid. To see which session made a grant: mintage explain GRANT-ID.`,
		newSessionList(s), newSessionEnd(s))
}

// bySubject adds the flag --subject, which is required.
func bySubject(cmd *cobra.Command, subject *string) *cobra.Command {
	cmd.Flags().StringVar(subject, "subject", "", "whose sessions (required)")
	check := cmd.PreRunE
	cmd.PreRunE = func(cmd *cobra.Command, args []string) error {
		if *subject == "" {
			return deployment.Usage(deployment.Hint(errors.New("--subject is missing"), "see: "+cmd.CommandPath()+" --help"))
		}
		if err := checkText("subject", *subject); err != nil || check == nil {
			return err
		}
		return check(cmd, args)
	}
	return cmd
}

func newSessionList(s *settings) *cobra.Command {
	var subject string
	return s.prints(bySubject(&cobra.Command{
		Use:   "list --subject S",
		Short: "List the sessions of a subject and their grants",
		Long: `List the sessions of a subject, the latest first: those that go on, and those that
have ended and made grants whose rows are kept. A session is active until it
expires or ends; whether its browser has been idle for too long, the store cannot
tell.`,
		Example: `  mintage session list --subject alice`,
		Args:    exactly(0, "no argument"),
	}, &subject), func(cmd *cobra.Command, a *session, _ []string) (any, text, error) {
		list, err := a.Sessions(cmd.Context(), subject)
		rows := [][]string{}
		for _, v := range list {
			rows = append(rows, []string{v.Session, v.State, when(v.Began), when(v.ExpiresAt), "", "", ""})
			for _, g := range v.Grants {
				rows = append(rows, []string{"", "", "", "", g.ID, g.ClientID, g.State})
			}
		}
		noteEmpty(cmd, rows, err, "no session is found")
		return list, table("SESSION|STATE|BEGAN|EXPIRES|GRANT|CLIENT|GRANT STATE", rows), err
	})
}

func newSessionEnd(s *settings) *cobra.Command {
	var subject string
	var all bool
	cmd := bySubject(&cobra.Command{
		Use:   "end --subject S {SESSION | --all}",
		Short: "End a session of a subject with the grants that it made, or all",
		Long: `End a session of a subject and the grants that it made, for example because a
browser was stolen. With --all, end all sessions and all grants of the subject by a
cutoff within two seconds, as grant revoke --subject does.`,
		Example: `  mintage session end --subject alice 5f2b6c0e9a1d44735f2b6c0e
  mintage session end --subject alice --all`,
		Args: cobra.MaximumNArgs(1),
		PreRunE: func(cmd *cobra.Command, args []string) error {
			if (len(args) == 1) == all {
				return deployment.Usage(deployment.Hint(errors.New("name one session, or --all"), "see: "+cmd.CommandPath()+" --help"))
			}
			return nil
		},
	}, &subject)
	cmd.Flags().BoolVar(&all, "all", false, "all sessions and all grants of the subject")
	return s.prints(cmd, func(cmd *cobra.Command, a *session, args []string) (any, text, error) {
		name := ""
		if !all {
			name = args[0]
		}
		e, err := a.EndSessions(cmd.Context(), subject, name)
		return e, func(w io.Writer) error {
			if all {
				fmt.Fprintf(w, "all sessions of subject %q have ended, and everything authorized until %s is refused: %s\n", subject, when(e.Cutoff), covers(e.Grants))
				return nil
			}
			fmt.Fprintf(w, "session %s has ended, and %s\n", e.Session, show.Count(e.Grants, "grant", "grants"))
			return nil
		}, err
	})
}

// covers says how many grants a cutoff covers.
func covers(n int) string {
	if n >= admin.MaxCovered {
		return fmt.Sprintf("%d or more grants", admin.MaxCovered)
	}
	return show.Count(n, "grant", "grants")
}
