package cli

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/mintage/mintage/internal/deployment"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/show"
)

func newKeysWithdraw(s *settings) *cobra.Command {
	var purposes []string
	var all, dry bool
	cmd := &cobra.Command{
		Use:   "withdraw KEY... | --purpose P | --all",
		Short: "Declare keys untrusted, now: for an emergency",
		Long: `Declare keys untrusted, now: somebody else has a copy of them. Nothing that they
made counts any more: refresh tokens, access tokens, codes and JWTs by them are
refused, and a signing key leaves the published set. A key in use has a successor
in the same moment, which is used at once. The server is told, or follows within
two seconds; nothing takes a withdrawal back.

Users whose grants end log in again. With --dry-run, nothing is done but to count
them. If the key-encryption key was copied as well, replace it first, with:
mintage kek rotate.`,
		Example: `  mintage keys withdraw --all --dry-run --config /etc/mintage/mintage.yaml
  mintage keys withdraw --purpose mac --purpose seal --config /etc/mintage/mintage.yaml
  mintage keys withdraw 0f1e2d3c --config /etc/mintage/mintage.yaml`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if n := len(args) + len(purposes); all == (n > 0) {
				return deployment.Usage(deployment.Hint(errors.New("name keys, --purpose or both; or --all"), "see: mintage keys list"))
			}
			o, err := s.openOffice(cmd.Context())
			if err != nil {
				return err
			}
			defer o.store.Close()
			schedule := deployment.KeySchedule(o.cfg)
			w := issuer.Withdrawal{Actor: o.actor, Purposes: schedule.Rotating()}
			if !all {
				if w.Purposes, err = parsePurposes(purposes, schedule); err != nil {
					return err
				}
			}
			for _, text := range args {
				id, err := strconv.ParseUint(text, 16, 32)
				if err != nil || len(text) != 8 {
					return &oauth.Invalid{Field: "key", Message: fmt.Sprintf("%q is not 8 hexadecimal digits (see: mintage keys list)", text)}
				}
				w.Keys = append(w.Keys, grant.KeyID(id))
			}
			if dry {
				records, err := o.records(cmd)
				if err != nil {
					return err
				}
				if records, err = w.Choose(records); err != nil {
					return err
				}
				for _, k := range records {
					fmt.Fprintf(cmd.OutOrStdout(), "%s key %s would be withdrawn\n", k.Purpose, k.ID)
				}
				return o.printEnded(cmd, records, "would end")
			}
			kek, err := deployment.ReadKEK(o.cfg)
			if err != nil {
				return err
			}
			done, err := issuer.WithdrawKeys(cmd.Context(), o.store, kek, w, time.Now)
			if err != nil {
				return err
			}
			for _, k := range done.Keys {
				fmt.Fprintf(cmd.OutOrStdout(), "%s key %s is withdrawn since %s\n", k.Purpose, k.ID, show.Instant(k.WithdrawnAt()))
			}
			for _, k := range done.Added {
				fmt.Fprintf(cmd.OutOrStdout(), "%s key %s is used at once\n", k.Purpose, k.ID)
			}
			if err := o.printEnded(cmd, done.Keys, "ends"); err != nil {
				return fmt.Errorf("the keys are withdrawn, but what that ends cannot be counted: %w", err)
			}
			return nil
		},
	}
	cmd.Flags().StringSliceVar(&purposes, "purpose", nil, "every key of a purpose, retired and next ones too: mac, seal, audit, ES256, EdDSA or RS256; repeatable")
	cmd.Flags().BoolVar(&all, "all", false, "every key of every purpose but the pepper")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "count what it would end, and do nothing")
	return cmd
}
