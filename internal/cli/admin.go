package cli

import (
	"github.com/spf13/cobra"

	"github.com/mintage/mintage/internal/adminapi"
	"github.com/mintage/mintage/internal/adminclient"
)

func newAdmin(s *settings) *cobra.Command {
	token := parent("token", "Create, list and revoke tokens of the admin API", `Create, list and revoke tokens of the admin API, for people and programs that
call it over TCP (--admin-listen HOST:PORT). On the Unix socket, nobody needs one.`,
		newAdminTokenCreate(s), newAdminTokenList(s), newAdminTokenRevoke(s))
	return parent("admin", "Manage who may call the admin API", `Manage who may call the admin API over TCP. Whoever may open its Unix socket,
which are the server's user and the members of admin.group, may do everything.`, token)
}

func newAdminTokenCreate(s *settings) *cobra.Command {
	var in adminapi.TokenRequest
	cmd := &cobra.Command{
		Use:   "create NAME --role auditor|admin [--realm REALM] [--expires-in 90d]",
		Short: "Create a token of the admin API and print it",
		Long: `Create a token of the admin API and print it once. The audit log names it as the
actor of what its bearer changes.

An auditor reads; an admin reads and changes, and may create further tokens. With
--realm, the role is for what that realm has: its clients, APIs, users, grants and
sessions. All else, such as keys, restores and tokens, is refused to its bearer.`,
		Example: `  mintage admin token create alice --role admin --expires-in 30d
  mintage admin token create monitoring --role auditor --json
  mintage admin token create help-desk --role admin --realm staff`,
		Args: exactly(1, "one name"),
	}
	cmd.Flags().StringVar(&in.Role, "role", "", "what its bearer may do: auditor or admin (required)")
	cmd.PersistentFlags().StringVar(&in.Realm, "realm", "", "the only realm that the token is for (see: mintage realm list); default: all, and the deployment")
	cmd.Flags().StringVar(&in.ExpiresIn, "expires-in", "", "lifetime, at most 366d; default: 90d")
	return s.shows(cmd, func(cmd *cobra.Command, a *adminclient.Client, args []string) (any, text, error) {
		var v adminapi.NewToken
		in.Name = args[0]
		err := a.Post(cmd.Context(), in, &v, "admin-tokens")
		return v, secretFields(cmd, v.Token, "keep the token now", [][2]string{{"name", v.Name}, {"role", v.Role}, {"realm", v.Realm}, {"expires", when(v.ExpiresAt)}, {"token", v.Token}}), err
	})
}

func newAdminTokenList(s *settings) *cobra.Command {
	return s.shows(&cobra.Command{
		Use:   "list",
		Short: "List the tokens of the admin API and their last use",
		Long: `List the tokens of the admin API, with their role, their last use to the hour, and
who created them. The token of admin.token_file is not among them.`,
	}, func(cmd *cobra.Command, a *adminclient.Client, _ []string) (any, text, error) {
		list, _, err := adminclient.Items[adminapi.Token](cmd.Context(), a, "admin_tokens", nil, "admin-tokens")
		return listed(cmd, list, err, "there is no admin token", "NAME|ROLE|STATE|CREATED|BY|EXPIRES|LAST USED", func(t adminapi.Token) []string {
			return []string{t.Name, roleOf(t.Role, t.Realm), t.State, when(t.CreatedAt), t.CreatedBy, when(t.ExpiresAt), when(t.LastUsedAt)}
		})
	})
}

func newAdminTokenRevoke(s *settings) *cobra.Command {
	return s.changes(&cobra.Command{
		Use:   "revoke NAME",
		Short: "Revoke a token of the admin API",
		Long:  "Revoke a token of the admin API. It applies to the next request, on every node.",
		Args:  exactly(1, "one name"),
	}, func(cmd *cobra.Command, a *adminclient.Client, args []string) (string, error) {
		return "admin token " + args[0] + " is revoked", a.Delete(cmd.Context(), nil, "admin-tokens", args[0])
	})
}
