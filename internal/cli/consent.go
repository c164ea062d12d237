package cli

import (
	"cmp"
	"fmt"
	"io"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mintage/mintage/internal/adminapi"
	"github.com/mintage/mintage/internal/adminclient"
	"github.com/mintage/mintage/internal/pages"
)

func newAPIConsent(s *settings) *cobra.Command {
	var locale string
	cmd := &cobra.Command{
		Use:   "consent ID [--locale LANGUAGE]",
		Short: "Show what the consent page says of an API",
		Long: `Show what the consent page of the running server says to a user of whom an
application asks all scopes of an API.`,
		Example: "  mintage api consent https://api.example.com/orders --locale ja",
		Args:    exactly(1, "one API's id"),
	}
	cmd.Flags().StringVar(&locale, "locale", pages.Locales[0], "language of the page: "+strings.Join(pages.Locales, ", "))
	return s.shows(cmd, func(cmd *cobra.Command, a *adminclient.Client, args []string) (any, text, error) {
		var v adminapi.ConsentPreview
		_, err := a.Get(cmd.Context(), &v, url.Values{"locale": {locale}}, "apis", args[0], "consent")
		return v, func(w io.Writer) error {
			forms := map[string]string{"heading": "# %s\n", "item": "- %s\n", "button": "[%s]\n"}
			for _, word := range v.Words {
				if _, err := fmt.Fprintf(w, cmp.Or(forms[word.Kind], "%s\n"), word.Text); err != nil {
					return err
				}
			}
			return nil
		}, err
	})
}
