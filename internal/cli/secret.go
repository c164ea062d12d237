package cli

import (
	"net/url"

	"github.com/spf13/cobra"

	"github.com/mintage/mintage/internal/adminapi"
	"github.com/mintage/mintage/internal/adminclient"
)

func newSecret(s *settings) *cobra.Command {
	cmd := parent("secret", "Add, list and revoke a client's secrets", `Add, list and revoke a client's secrets. To replace a secret without an outage,
add a new one, configure it at the client, wait until the old one is no longer
used, and revoke that.`, newSecretAdd(s), newSecretList(s), newSecretRevoke(s))
	cmd.Example = `  mintage client secret add billing
  mintage client secret list billing
  mintage client secret revoke billing 3fQ8xYb1Tz0K`
	return cmd
}

// secrets returns a table of secrets.
func secrets(list []adminapi.Secret) text {
	var rows [][]string
	for _, v := range list {
		rows = append(rows, []string{v.ID, v.State, when(v.CreatedAt), when(v.ExpiresAt), when(v.LastUsedAt), v.Revocation})
	}
	return table("SECRET|STATE|CREATED|EXPIRES|LAST USED|REVOKING IT", rows)
}

func newSecretAdd(s *settings) *cobra.Command {
	var expires string
	cmd := &cobra.Command{
		Use:   "add CLIENT",
		Short: "Add a secret to a client and print it",
		Long:  "Add a secret to a client and print it once. Existing secrets stay valid.",
		Args:  exactly(1, "one client id"),
	}
	cmd.Flags().StringVar(&expires, "expires-in", "", "lifetime, such as 90d; default: until it is revoked")
	return s.shows(cmd, func(cmd *cobra.Command, a *adminclient.Client, args []string) (any, text, error) {
		var v adminapi.NewSecret
		err := a.Post(cmd.Context(), adminapi.SecretRequest{ExpiresIn: expires}, &v, "clients", args[0], "secrets")
		return v, secretFields(cmd, v.Secret, "keep the secret now", [][2]string{{"secret_id", v.SecretID}, {"client_secret", v.Secret}}), err
	})
}

func newSecretList(s *settings) *cobra.Command {
	return s.shows(&cobra.Command{
		Use:   "list CLIENT",
		Short: "List a client's secrets and their last use",
		Long: `List a client's secrets by id, with their last use and whether one can be revoked
safely: it is not the only one, and was not used within a day.`,
		Args: exactly(1, "one client id"),
	}, func(cmd *cobra.Command, a *adminclient.Client, args []string) (any, text, error) {
		list, _, err := adminclient.Items[adminapi.Secret](cmd.Context(), a, "secrets", nil, "clients", args[0], "secrets")
		noteEmpty(cmd, list, err, "the client has no secret")
		return list, secrets(list), err
	})
}

func newSecretRevoke(s *settings) *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use:   "revoke CLIENT SECRET-ID",
		Short: "Revoke one of a client's secrets",
		Long: `Revoke one of a client's secrets. Without --force, a secret that was used within a
day, or is the only one, is not revoked.`,
		Example: `  mintage client secret list billing
  mintage client secret revoke billing 3fQ8xYb1Tz0K`,
		Args: exactly(2, "a client id and a secret id"),
	}
	cmd.Flags().BoolVar(&force, "force", false, "also if it is in use")
	return s.changes(cmd, func(cmd *cobra.Command, a *adminclient.Client, args []string) (string, error) {
		query := url.Values{}
		if force {
			query.Set("force", "true")
		}
		return "secret " + args[1] + " is revoked", a.Delete(cmd.Context(), query, "clients", args[0], "secrets", args[1])
	})
}
