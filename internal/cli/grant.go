package cli

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mintage/mintage/internal/adminapi"
	"github.com/mintage/mintage/internal/adminclient"
	"github.com/mintage/mintage/internal/deployment"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/show"
)

func newGrant(s *settings) *cobra.Command {
	return parent("grant", "List, show and revoke what users have granted", `List, show and revoke what users have granted. A grant begins when a client
redeems a code, and continues with every refresh. Revoking it ends all its
tokens. Tokens are not stored and cannot be shown.`,
		newGrantList(s), newGrantShow(s), newGrantRevoke(s))
}

func newGrantList(s *settings) *cobra.Command {
	var subject, client string
	l := listing{filters: "--subject, --client"}
	cmd := &cobra.Command{
		Use:   "list [--subject S] [--client ID]",
		Short: "List grants",
		Long: `List grants, of a subject or a client. The state is active, revoked, expired or
cut off (ended by a revocation of the whole subject or client). With --subject,
the events of the subject follow.`,
		Example: `  mintage grant list --subject alice
  mintage grant list --client billing --json`,
		PreRunE: func(*cobra.Command, []string) error {
			if err := l.Check(); err != nil {
				return err
			}
			if l.After != "" {
				if _, err := grant.ParseID(l.After); err != nil {
					return deployment.Usage(fmt.Errorf("--after: %w", err))
				}
			}
			return errors.Join(checkText("subject", subject), checkText("client", client))
		},
	}
	cmd.Flags().StringVar(&subject, "subject", "", "only this subject's")
	cmd.Flags().StringVar(&client, "client", "", "only this client's")
	l.registerPaging(cmd, "grant")
	return s.shows(cmd, func(cmd *cobra.Command, a *adminclient.Client, _ []string) (any, text, error) {
		list, err := readList[adminapi.Grant](cmd, a, "grants", l, given("subject", subject, "client_id", client))
		_, forPeople, err := listed(cmd, list, err, "no grant is found", "GRANT|STATE|CLIENT|SUBJECT|SCOPE|GENERATION|ROTATED|EXPIRES", func(g adminapi.Grant) []string {
			return []string{g.ID, g.State, g.ClientID, g.Subject, g.Scope, fmt.Sprint(g.Generation), instant(g.RotatedAt), instant(g.ExpiresAt)}
		})
		if err != nil || subject == "" {
			return list, forPeople, err
		}
		changes, err := eventsAbout(cmd.Context(), a, "subject", subject)
		return list, func(w io.Writer) error { return errors.Join(forPeople(w), events(changes)(w)) }, err
	})
}

func newGrantShow(s *settings) *cobra.Command {
	return s.shows(&cobra.Command{
		Use:   "show GRANT",
		Short: "Show one grant and its events",
		Long: `Show one grant and its events: state, reason of a revocation, and times.
Redemptions and refreshes leave no event; they increment the generation.`,
		Args: exactly(1, "one grant id"),
	}, func(cmd *cobra.Command, a *adminclient.Client, args []string) (any, text, error) {
		id, err := grant.ParseID(args[0])
		if err != nil {
			return nil, nil, deployment.Usage(err)
		}
		var g adminapi.Grant
		if _, err := a.Get(cmd.Context(), &g, nil, "grants", id.String()); err != nil {
			return nil, nil, err
		}
		g.Events, err = eventsAbout(cmd.Context(), a, "grant_id", g.ID)
		return g, fields([][2]string{
			{"grant", g.ID}, {"state", g.State}, {"reason", g.Reason}, {"cut off at", instant(g.Cutoff)},
			{"client", g.ClientID}, {"subject", g.Subject}, {"claims", string(g.Claims)}, {"scope", g.Scope}, {"apis", strings.Join(g.APIs, " ")},
			{"session", g.Session}, {"authenticated", instant(g.AuthTime)}, {"authorized", instant(g.AuthorizedAt)}, {"generation", fmt.Sprint(g.Generation)},
			{"rotated", instant(g.RotatedAt)}, {"expires", instant(g.ExpiresAt)},
			{"row kept until", instant(g.DeleteAfter)}, {"key", g.Key},
		}, events(g.Events)), err
	})
}

func newGrantRevoke(s *settings) *cobra.Command {
	var subject, client string
	cmd := &cobra.Command{
		Use:   "revoke GRANT | --subject S | --client ID | --subject S --client ID",
		Short: "End a grant, or all of a subject, of a client, or of the pair",
		Long: `End a grant, or all of a subject, of a client, or of the pair. A single grant ends
at once. The others end by a cutoff within two seconds: everything authorized
until now is refused, including codes that are not redeemed. Users may authorize
again. Assertions of other issuers that are issued in the next 7 seconds, and
max_skew, are refused too: their issuer's clock may be ahead.`,
		Example: `  mintage grant revoke 0f3c9a50c1d24e6f8b7a6c5d4e3f2a1b
  mintage grant revoke --subject alice
  mintage grant revoke --subject alice --client Zx81kQ`,
		Args: cobra.ArbitraryArgs,
		PreRunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 || (len(args) == 1) == (subject != "" || client != "") {
				return deployment.Usage(deployment.Hint(errors.New("name one grant, or --subject, --client or both"), "see: "+cmd.CommandPath()+" --help"))
			}
			return errors.Join(checkText("subject", subject), checkText("client", client))
		},
		RunE: s.calls(func(cmd *cobra.Command, a *adminclient.Client, args []string) error {
			if len(args) == 1 {
				id, err := grant.ParseID(args[0])
				if err != nil {
					return deployment.Usage(err)
				}
				if err := a.Delete(cmd.Context(), nil, "grants", id.String()); err != nil {
					return err
				}
				fmt.Fprintf(cmd.OutOrStdout(), "grant %s is revoked\n", id)
				return nil
			}
			var cut adminapi.NewCutoff
			if err := a.Post(cmd.Context(), adminapi.CutoffRequest{Subject: subject, ClientID: client}, &cut, "cutoffs"); err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "everything authorized until %s is refused: %s\n", instant(cut.At), show.Whom(subject, client, ", "))
			if cut.Grants == nil {
				return errors.New("it is in force, but the grants that it covers cannot be counted")
			}
			text := covers(cut.Grants)
			if *cut.Grants == 0 {
				text = "no grant: is the name right? (it also covers codes that were not redeemed yet, and tokens without a grant)"
			}
			fmt.Fprintln(cmd.OutOrStdout(), "in the store, it covers "+text)
			return nil
		}),
	}
	cmd.Flags().StringVar(&subject, "subject", "", "everything of this subject")
	cmd.Flags().StringVar(&client, "client", "", "everything of this client")
	return cmd
}

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
	return s.shows(bySubject(&cobra.Command{
		Use:   "list --subject S",
		Short: "List the sessions of a subject and their grants",
		Long: `List the sessions of a subject, the latest first: active ones, and ended ones whose
grants are still stored. A session is active until it expires or ends. The store
does not record whether its browser has been idle for too long.`,
		Example: `  mintage session list --subject alice`,
	}, &subject), func(cmd *cobra.Command, a *adminclient.Client, _ []string) (any, text, error) {
		list, _, err := adminclient.Items[adminapi.Session](cmd.Context(), a, "sessions", url.Values{"subject": {subject}}, "sessions")
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
			if (len(args) == 1) == all || !all && args[0] == "" { // for "", the API ends all sessions
				return deployment.Usage(deployment.Hint(errors.New("name one session, or --all"), "see: "+cmd.CommandPath()+" --help"))
			}
			return nil
		},
	}, &subject)
	cmd.Flags().BoolVar(&all, "all", false, "all sessions and all grants of the subject")
	return s.shows(cmd, func(cmd *cobra.Command, a *adminclient.Client, args []string) (any, text, error) {
		in := adminapi.SessionRequest{Subject: subject}
		if !all {
			in.Session = args[0]
		}
		var e adminapi.EndedSessions
		err := a.Post(cmd.Context(), in, &e, "sessions", "end")
		return e, func(w io.Writer) error {
			if all {
				fmt.Fprintf(w, "all sessions of subject %q have ended, and everything authorized until %s is refused: %s\n", subject, when(e.Cutoff), covers(e.Grants))
				return nil
			}
			fmt.Fprintf(w, "session %s has ended, and %s\n", e.Session, covers(e.Grants))
			return nil
		}, err
	})
}

// covers says how many grants a cutoff covers.
func covers(n *int) string {
	switch {
	case n == nil:
		return "the grants that this covers cannot be counted"
	case *n >= adminapi.MaxCovered:
		return fmt.Sprintf("%d or more grants", adminapi.MaxCovered)
	}
	return show.Count(*n, "grant", "grants")
}
