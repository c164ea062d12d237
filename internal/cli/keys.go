package cli

import (
	"errors"
	"fmt"

	"github.com/go-jose/go-jose/v4"
	"github.com/spf13/cobra"

	"github.com/mintage/mintage/internal/deployment"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/show"
)

func newKeys(s *settings) *cobra.Command {
	return parent("keys", "List, rotate and export keys", `List, rotate and export the keys that make tokens, codes and signatures. The
server rotates them by itself: each is used for key_lifetime, and its follower
is made and published key_lead earlier. All of them are wrapped by the
key-encryption key, which is not in the store.`,
		newKeysList(s), newKeysRotate(s), newKeysWithdraw(s), newKeysExport(s))
}

func newKeysList(s *settings) *cobra.Command {
	return s.prints(&cobra.Command{
		Use:   "list",
		Short: "List keys and where they are in their lives",
		Long: `List keys and where they are in their lives: next (published, not used), active
(makes what is new), retired (checks what it made), gone (a signing key of which
nothing is left to check), withdrawn (nothing that it made counts). An active key whose follower is not made yet ends
when that will be used. Keys for tokens and codes stay retired for ever, so that
an old token is still recognised; the pepper, which secrets are stored under,
never rotates. It needs no key-encryption key.`,
		Args: exactly(0, "no argument"),
	}, func(cmd *cobra.Command, a *session, _ []string) (any, text, error) {
		views, err := a.Keys(cmd.Context())
		var rows [][]string
		for _, v := range views {
			rows = append(rows, []string{v.ID, v.Purpose, v.Phase, when(v.CreatedAt), when(v.ActiveAt), when(v.EndsAt)})
		}
		return views, table("KEY|PURPOSE|PHASE|CREATED|USED FROM|PHASE ENDS", rows), err
	})
}

func newKeysRotate(s *settings) *cobra.Command {
	var purposes []string
	var in string
	cmd := &cobra.Command{
		Use:   "rotate [--purpose P] [--in DURATION]",
		Short: "Make followers of keys now, before they are due",
		Long: `Make followers of keys now, before they are due: of every key but the pepper, or
of those with the purposes that are named. The server publishes a follower
within two seconds and uses it when every verifier can know it: 10 seconds
(and max_skew) later for the purposes mac, seal and audit, jwks_max_age more for
signing keys. What the old key made stays good until it expires.

Give it the server's configuration, for jwks_max_age and max_skew.`,
		Example: `  mintage keys rotate --config /etc/mintage/mintage.yaml
  mintage keys rotate --purpose ES256 --in 24h --config /etc/mintage/mintage.yaml`,
		Args: exactly(0, "no argument"),
		RunE: s.with(func(cmd *cobra.Command, a *session, _ []string) error {
			d, err := positive("in", in)
			if err != nil {
				return err
			}
			added, err := a.RotateKeys(cmd.Context(), purposes, d)
			if err != nil {
				return err
			}
			for _, k := range added {
				fmt.Fprintf(cmd.OutOrStdout(), "%s key %s will be used from %s\n", k.Purpose, k.ID, show.Instant(k.ActiveAt))
			}
			return nil
		}),
	}
	cmd.Flags().StringSliceVar(&purposes, "purpose", nil, "mac, seal, audit, ES256, EdDSA or RS256; repeatable; default: all of these")
	cmd.Flags().StringVar(&in, "in", "", "when the followers are used, from now on; default: as soon as every verifier can know them")
	return cmd
}

func newKeysExport(s *settings) *cobra.Command {
	var format, id string
	cmd := &cobra.Command{
		Use:   "export [--format jwks|pem] [--id ID]",
		Short: "Print the public signing keys",
		Long: `Print the public signing keys that verifiers need: those that are next, active
or retired, as a JWK Set or in PEM. Private keys are never printed. A verifier
that is given a copy must be given another one before a key is used that the
copy lacks; one that loads the set from the server needs no copy.`,
		Example: `  mintage keys export > jwks.json
  mintage keys export --format pem --id 0f1e2d3c`,
		Args: exactly(0, "no argument"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if format != "jwks" && format != "pem" {
				return &oauth.Invalid{Field: "format", Message: fmt.Sprintf("%q is not jwks or pem", format)}
			}
			a, err := s.open(cmd.Context())
			if err != nil {
				return err
			}
			defer a.Close()
			ring, err := a.Ring(cmd.Context())
			if err != nil {
				return err
			}
			set := jose.JSONWebKeySet{Keys: []jose.JSONWebKey{}}
			for _, k := range ring.JWKS(a.now, a.Schedule) {
				if id == "" || k.KeyID == id {
					set.Keys = append(set.Keys, k)
				}
			}
			if id != "" && len(set.Keys) == 0 {
				return deployment.Hint(fmt.Errorf("no signing key %q is next, active or retired", id), "see: mintage keys list")
			}
			if len(set.Keys) == 0 {
				return deployment.Hint(errors.New("the store has no signing keys yet"), "the server makes them when it starts")
			}
			if format == "jwks" {
				return show.JSON(cmd.OutOrStdout(), set)
			}
			// Readers of PEM skip the line over each key.
			for _, k := range set.Keys {
				text, _ := ring.PublicPEM(k.KeyID, a.now, a.Schedule)
				fmt.Fprintf(cmd.OutOrStdout(), "%s key %s\n%s", k.Algorithm, k.KeyID, text)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&format, "format", "jwks", "jwks or pem")
	cmd.Flags().StringVar(&id, "id", "", "only this key; default: all")
	return cmd
}

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
		PreRunE: func(_ *cobra.Command, args []string) error {
			if n := len(args) + len(purposes); all == (n > 0) {
				return deployment.Usage(deployment.Hint(errors.New("name keys, --purpose or both; or --all"), "see: mintage keys list"))
			}
			return nil
		},
		RunE: s.with(func(cmd *cobra.Command, a *session, args []string) error {
			w, err := a.Withdrawal(args, purposes, all)
			if err != nil {
				return err
			}
			if dry {
				records, err := a.KeyRecords(cmd.Context())
				if err != nil {
					return err
				}
				if records, err = w.Choose(records); err != nil {
					return err
				}
				for _, k := range records {
					fmt.Fprintf(cmd.OutOrStdout(), "%s key %s would be withdrawn\n", k.Purpose, k.ID)
				}
				return a.printEnded(cmd, records, "would end")
			}
			done, err := a.WithdrawKeys(cmd.Context(), w)
			if err != nil {
				return err
			}
			for _, k := range done.Keys {
				fmt.Fprintf(cmd.OutOrStdout(), "%s key %s is withdrawn since %s\n", k.Purpose, k.ID, show.Instant(k.WithdrawnAt()))
			}
			for _, k := range done.Added {
				fmt.Fprintf(cmd.OutOrStdout(), "%s key %s is used at once\n", k.Purpose, k.ID)
			}
			if err := a.printEnded(cmd, done.Keys, "ends"); err != nil {
				return fmt.Errorf("the keys are withdrawn, but what that ends cannot be counted: %w", err)
			}
			return nil
		}),
	}
	cmd.Flags().StringSliceVar(&purposes, "purpose", nil, "every key of a purpose, retired and next ones too: mac, seal, audit, ES256, EdDSA or RS256; repeatable")
	cmd.Flags().BoolVar(&all, "all", false, "every key of every purpose but the pepper")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "count what it would end, and do nothing")
	return cmd
}

// printEnded says what the withdrawal of keys ends.
func (a *session) printEnded(cmd *cobra.Command, records []keys.Record, ends string) error {
	n, err := a.EndedBy(cmd.Context(), records)
	if err != nil {
		return err
	}
	of := map[keys.Purpose]bool{}
	signs := false
	for _, r := range records {
		of[r.Purpose] = true
		signs = signs || r.Purpose.Signs()
	}
	out := cmd.OutOrStdout()
	fmt.Fprintf(out, "it %s:\n", ends)
	if of[keys.MAC] {
		fmt.Fprintf(out, "  %d grants: their users log in again\n", n.Grants)
	}
	if of[keys.Seal] {
		fmt.Fprintf(out, "  codes that were issued within the last %s and not redeemed: codes are not stored, so nobody can count them\n", a.cfg.CodeLifetime)
	}
	if signs {
		fmt.Fprintf(out, "  JWTs of %d grants that were issued within the last %s, at introspection; a verifier that keeps the published set accepts them for up to %s\n", n.JWTs, a.cfg.AccessTokenLifetime, a.cfg.JWKSMaxAge)
	}
	return nil
}
