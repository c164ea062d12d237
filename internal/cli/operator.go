package cli

import (
	"github.com/spf13/cobra"

	"github.com/mintage/mintage/internal/adminapi"
	"github.com/mintage/mintage/internal/adminclient"
)

func newOperator(s *settings) *cobra.Command {
	return parent("operator", "Manage who may use the console", `Manage who may use the console. An operator has a role: an auditor reads, an admin
reads and changes. Where users are built in, an operator is one of them, by name; where
another system has them, the name is the subject of a login there.`,
		newOperatorAdd(s), newOperatorList(s), newOperatorRemove(s))
}

func newOperatorAdd(s *settings) *cobra.Command {
	var in adminapi.OperatorRequest
	cmd := &cobra.Command{
		Use:   "add NAME --role auditor|admin [--realm REALM]",
		Short: "Add an operator of the console",
		Long: `Add an operator of the console, who needs an invitation for the first sign-in
(mintage console invite NAME). With --realm, the role is for what that realm has, as
that of an admin token is.`,
		Example: `  mintage operator add alice --role admin
  mintage operator add help-desk --role admin --realm staff`,
		Args: exactly(1, "one name"),
	}
	cmd.Flags().StringVar(&in.Role, "role", "", "what the operator may do: auditor or admin (required)")
	cmd.PersistentFlags().StringVar(&in.Realm, "realm", "", "the only realm that the operator is for (see: mintage realm list); default: all, and the deployment")
	return s.changes(cmd, func(cmd *cobra.Command, a *adminclient.Client, args []string) (string, error) {
		var v adminapi.Operator
		in.Name = args[0]
		err := a.Post(cmd.Context(), in, &v, "operators")
		return "operator " + v.Name + " is added, as " + roleOf(v.Role, v.Realm), err
	})
}

func newOperatorList(s *settings) *cobra.Command {
	return s.shows(&cobra.Command{
		Use:   "list",
		Short: "List the operators of the console",
		Long: `List the operators of the console, with their role, who added them, and their last
sign-in. Whoever is signed in by a rule of console.operators is there too.`,
	}, func(cmd *cobra.Command, a *adminclient.Client, _ []string) (any, text, error) {
		list, _, err := adminclient.Items[adminapi.Operator](cmd.Context(), a, "operators", nil, "operators")
		return listed(cmd, list, err, "there is no operator", "NAME|ROLE|ADDED|BY|LAST SIGN-IN", func(o adminapi.Operator) []string {
			return []string{o.Name, roleOf(o.Role, o.Realm), when(o.CreatedAt), o.CreatedBy, when(o.SeenAt)}
		})
	})
}

func newOperatorRemove(s *settings) *cobra.Command {
	return s.changes(&cobra.Command{
		Use:   "remove NAME",
		Short: "Remove an operator of the console",
		Long:  "Remove an operator of the console, and end the sessions. It applies to the next\nrequest, on every node. The last admin is not removed.",
		Args:  exactly(1, "one name"),
	}, func(cmd *cobra.Command, a *adminclient.Client, args []string) (string, error) {
		return "operator " + args[0] + " is removed", a.Delete(cmd.Context(), nil, "operators", args[0])
	})
}

// roleOf describes a role, with the only realm that it covers, if there is one.
func roleOf(role, realm string) string {
	if realm != "" {
		role += " of " + realm
	}
	return role
}

func newConsole(s *settings) *cobra.Command {
	session := parent("session", "List and end sessions of the console", "List and end sessions of the console, each of which is a browser of an operator.",
		newConsoleSessionList(s), newConsoleSessionEnd(s))
	return parent("console", "Let operators into the console", `Let operators into the console, which console.listen switches on.`, newConsoleInvite(s), session)
}

func newConsoleInvite(s *settings) *cobra.Command {
	return s.shows(&cobra.Command{
		Use:   "invite NAME",
		Short: "Make a link that lets an operator into the console once",
		Long: `Make a link that lets an operator into the console once, within 10 minutes: for the
first sign-in, and for when operators cannot sign in. A built-in user sets up a
second factor with it, or enters a code of the one that is set up.`,
		Args: exactly(1, "one name"),
	}, func(cmd *cobra.Command, a *adminclient.Client, args []string) (any, text, error) {
		var v adminapi.NewInvitation
		err := a.Post(cmd.Context(), adminapi.InvitationRequest{Operator: args[0]}, &v, "console", "invitations")
		return v, secretFields(cmd, v.URL, "give the link to the operator alone", [][2]string{{"operator", v.Operator}, {"expires", when(v.ExpiresAt)}, {"link", v.URL}}), err
	})
}

func newConsoleSessionList(s *settings) *cobra.Command {
	return s.shows(&cobra.Command{
		Use:   "list",
		Short: "List the sessions of the console",
		Long:  "List the sessions of the console, the latest first.",
	}, func(cmd *cobra.Command, a *adminclient.Client, _ []string) (any, text, error) {
		list, _, err := adminclient.Items[adminapi.ConsoleSession](cmd.Context(), a, "sessions", nil, "console", "sessions")
		return listed(cmd, list, err, "nobody is signed in to the console", "ID|OPERATOR|SIGNED IN BY|ADDRESS|BEGAN|LAST USED|ENDS", func(v adminapi.ConsoleSession) []string {
			return []string{v.ID, v.Operator, v.How, v.Address, when(v.BeganAt), when(v.UsedAt), when(v.EndsAt)}
		})
	})
}

func newConsoleSessionEnd(s *settings) *cobra.Command {
	return s.changes(&cobra.Command{
		Use:   "end ID",
		Short: "End a session of the console",
		Long:  "End a session of the console: the browser is signed out with its next request.",
		Args:  exactly(1, "one id"),
	}, func(cmd *cobra.Command, a *adminclient.Client, args []string) (string, error) {
		return "console session " + args[0] + " has ended", a.Delete(cmd.Context(), nil, "console", "sessions", args[0])
	})
}
