package cli

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/spf13/cobra"

	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/deployment"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/show"
)

func newKeys(s *settings) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "keys",
		Short: "List, rotate and export keys",
		Long: `List, rotate and export the keys that make tokens, codes and signatures. The
server rotates them by itself: each is used for key_lifetime, and its follower
is made and published key_lead earlier. All of them are wrapped by the
key-encryption key, which is not in the store.`,
		Args: cobra.ArbitraryArgs,
		RunE: onlySubcommands,
	}
	cmd.AddCommand(newKeysList(s), newKeysRotate(s), newKeysWithdraw(s), newKeysExport(s))
	return cmd
}

// keyView is a key as it is listed.
type keyView struct {
	ID        string     `json:"id"`
	Purpose   string     `json:"purpose"`
	Phase     string     `json:"phase"`
	CreatedAt *time.Time `json:"created_at"`
	ActiveAt  *time.Time `json:"active_at"`
	// EndsAt is when the phase ends, null if it does not.
	EndsAt *time.Time `json:"ends_at"`
}

func newKeysList(s *settings) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List keys and where they are in their lives",
		Long: `List keys and where they are in their lives: next (published, not used), active
(makes what is new), retired (checks what it made), gone (a signing key of which
nothing is left to check), withdrawn (nothing that it made counts). An active key whose follower is not made yet ends
when that will be used. Keys for tokens and codes stay retired for ever, so that
an old token is still recognised; the pepper, which secrets are stored under,
never rotates. It needs no key-encryption key.`,
		Args: exactly(0, "no argument"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			o, err := s.openOffice(cmd.Context())
			if err != nil {
				return err
			}
			defer o.store.Close()
			records, err := o.records(cmd)
			if err != nil {
				return err
			}
			schedule := deployment.KeySchedule(o.cfg)
			views, rows := []keyView{}, [][]string{}
			for _, l := range keys.NewTimeline(records).Lives(o.now, schedule) {
				ends := l.EndsAt
				if l.Phase == keys.Active && ends == 0 && slices.Contains(schedule.Rotating(), l.Purpose) {
					ends = l.ActiveAt.Add(schedule.Lifetime)
				}
				views = append(views, keyView{l.ID.String(), string(l.Purpose), string(l.Phase),
					show.JSONInstant(l.CreatedAt), show.JSONInstant(l.ActiveAt), show.JSONInstant(ends)})
				rows = append(rows, []string{l.ID.String(), string(l.Purpose), string(l.Phase),
					show.Instant(l.CreatedAt), show.Instant(l.ActiveAt), show.OrDash(show.Instant(ends))})
			}
			if asJSON {
				return show.JSON(cmd.OutOrStdout(), views)
			}
			return show.Table(cmd.OutOrStdout(), "KEY|PURPOSE|PHASE|CREATED|USED FROM|PHASE ENDS", rows)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
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
		RunE: func(cmd *cobra.Command, _ []string) error {
			r := issuer.Rotation{}
			if cmd.Flags().Changed("in") {
				d, err := config.ParseDuration(in)
				if err != nil {
					return &oauth.Invalid{Field: "in", Message: err.Error()}
				}
				if d <= 0 {
					return &oauth.Invalid{Field: "in", Message: "must be longer than " + d.String()}
				}
				r.In = d.Std()
			}
			o, err := s.openOffice(cmd.Context())
			if err != nil {
				return err
			}
			defer o.store.Close()
			schedule := deployment.KeySchedule(o.cfg)
			if r.Purposes, err = parsePurposes(purposes, schedule); err != nil {
				return err
			}
			kek, err := deployment.ReadKEK(o.cfg)
			if err != nil {
				return err
			}
			r.Actor = o.actor
			added, err := issuer.RotateKeys(cmd.Context(), o.store, kek, schedule, r, time.Now)
			if err != nil {
				return err
			}
			for _, k := range added {
				fmt.Fprintf(cmd.OutOrStdout(), "%s key %s will be used from %s\n", k.Purpose, k.ID, show.Instant(k.ActiveAt))
			}
			return nil
		},
	}
	cmd.Flags().StringSliceVar(&purposes, "purpose", nil, "mac, seal, audit, ES256, EdDSA or RS256; repeatable; default: all of these")
	cmd.Flags().StringVar(&in, "in", "", "when the followers are used, from now on; default: as soon as every verifier can know them")
	return cmd
}

func parsePurposes(names []string, s keys.Schedule) ([]keys.Purpose, error) {
	var list []keys.Purpose
	for _, name := range names {
		p := keys.Purpose(name)
		switch {
		case p == keys.Pepper:
			return nil, &oauth.Invalid{Field: "purpose", Message: "the pepper never rotates: every stored secret depends on it"}
		case !slices.Contains(s.Rotating(), p):
			return nil, &oauth.Invalid{Field: "purpose", Message: fmt.Sprintf("%q is not mac, seal, audit, ES256, EdDSA or RS256", name)}
		case !slices.Contains(list, p):
			list = append(list, p)
		}
	}
	return list, nil
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
			o, err := s.openOffice(cmd.Context())
			if err != nil {
				return err
			}
			defer o.store.Close()
			ring, err := o.ring(cmd.Context())
			if err != nil {
				return err
			}
			schedule := deployment.KeySchedule(o.cfg)
			set := jose.JSONWebKeySet{Keys: []jose.JSONWebKey{}}
			for _, k := range ring.JWKS(o.now, schedule) {
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
			return printPEM(cmd, ring, set.Keys, o.now, schedule)
		},
	}
	cmd.Flags().StringVar(&format, "format", "jwks", "jwks or pem")
	cmd.Flags().StringVar(&id, "id", "", "only this key; default: all")
	return cmd
}

// printPEM puts a line over each key, which readers of PEM skip.
func printPEM(cmd *cobra.Command, ring *keys.Ring, list []jose.JSONWebKey, now grant.Instant, s keys.Schedule) error {
	for _, k := range list {
		text, _ := ring.PublicPEM(k.KeyID, now, s)
		if _, err := fmt.Fprintf(cmd.OutOrStdout(), "%s key %s\n%s", k.Algorithm, k.KeyID, text); err != nil {
			return err
		}
	}
	return nil
}
