package cli

import (
	"github.com/spf13/cobra"

	"github.com/mintage/mintage/internal/adminapi"
	"github.com/mintage/mintage/internal/adminclient"
)

func newRealm(s *settings) *cobra.Command {
	return parent("realm", "List the realms of the deployment", `List the realms of the deployment. Each has users, clients, APIs, grants, sessions
and an issuer of its own. The section realms of the configuration names them; the
commands about a realm take its name with --realm.`, newRealmList(s))
}

func newRealmList(s *settings) *cobra.Command {
	return s.shows(&cobra.Command{
		Use:   "list",
		Short: "List the realms, the default one first",
		Long: `List the realms, with the issuer of each and where its users log in. The first is
the default one, whose settings are outside of realms; it needs no --realm.`,
		Example: `  mintage realm list
  mintage client list --realm staff`,
	}, func(cmd *cobra.Command, a *adminclient.Client, _ []string) (any, text, error) {
		list, _, err := adminclient.Items[adminapi.Realm](cmd.Context(), a, "realms", nil, "realms")
		return listed(cmd, list, err, "", "NAME|ISSUER|LOGIN", func(r adminapi.Realm) []string { return []string{r.Name, r.Issuer, r.Login} })
	})
}
