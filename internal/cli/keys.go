package cli

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/go-jose/go-jose/v4"
	"github.com/spf13/cobra"

	"github.com/mintage/mintage/internal/adminapi"
	"github.com/mintage/mintage/internal/adminclient"
	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/deployment"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/show"
)

func newKeys(s *settings) *cobra.Command {
	return parent("keys", "List, rotate and export keys", `List, rotate and export the keys for tokens, codes and signatures. The server
rotates them: each is used for key_lifetime, and its successor is created and
published key_lead earlier. The key-encryption key, which is not in the store,
wraps all of them.`,
		newKeysList(s), newKeysRotate(s), newKeysWithdraw(s), newKeysExport(s))
}

func newKeysList(s *settings) *cobra.Command {
	return s.shows(&cobra.Command{
		Use:   "list",
		Short: "List keys and their phases",
		Long: `List keys and their phases: next (published, not used yet), active, retired (only
verifies), gone (no longer published: nothing that it signed is valid; the server
still verifies old id_tokens by it which clients send as hints), withdrawn (nothing
that it made is valid). A signing key is gone when the longest-lived of the JWTs
has expired that clients and APIs are registered for. An active key without a
successor shows when it will be replaced. Keys for tokens and codes stay retired
for ever, to recognise replays; the pepper, under which secrets are stored, never
rotates. The key-encryption key is not needed.`,
	}, func(cmd *cobra.Command, a *adminclient.Client, _ []string) (any, text, error) {
		list, _, err := adminclient.Items[adminapi.Key](cmd.Context(), a, "keys", nil, "keys")
		return listed(cmd, list, err, "", "KEY|PURPOSE|PHASE|CREATED|USED FROM|PHASE ENDS", func(v adminapi.Key) []string {
			return []string{v.ID, v.Purpose, v.Phase, when(v.CreatedAt), when(v.ActiveAt), when(v.EndsAt)}
		})
	})
}

func newKeysRotate(s *settings) *cobra.Command {
	var purposes []string
	var in string
	cmd := &cobra.Command{
		Use:   "rotate [--purpose P] [--in DURATION]",
		Short: "Rotate keys now instead of at the scheduled time",
		Long: `Create the successors of keys now instead of at the scheduled time: of all keys
but the pepper, or of those with the named purposes. Servers publish a successor
within two seconds, and use it 10 seconds plus max_skew later; signing keys also
wait for jwks_max_age. What the old key made stays valid until it expires.

Without a running server, the command needs the server's configuration, for
jwks_max_age and max_skew.`,
		Example: `  mintage keys rotate --config /etc/mintage/mintage.yaml
  mintage keys rotate --purpose ES256 --in 24h --config /etc/mintage/mintage.yaml`,
		RunE: s.calls(func(cmd *cobra.Command, a *adminclient.Client, _ []string) error {
			var answer struct{ Added []adminapi.KeyChange }
			if err := a.Post(cmd.Context(), adminapi.RotateRequest{Purposes: purposes, In: in}, &answer, "keys", "rotate"); err != nil {
				return err
			}
			for _, k := range answer.Added {
				fmt.Fprintf(cmd.OutOrStdout(), "%s key %s will be used from %s\n", k.Purpose, k.ID, instant(k.ActiveAt))
			}
			return nil
		}),
	}
	cmd.Flags().StringSliceVar(&purposes, "purpose", nil, "mac, seal, audit, ES256, EdDSA or RS256, or registration if clients may register themselves; repeatable; default: all of these")
	cmd.Flags().StringVar(&in, "in", "", "use the successors after this time, before the scheduled rotation; default: as soon as every verifier has them")
	return cmd
}

func newKeysExport(s *settings) *cobra.Command {
	var format, id string
	cmd := &cobra.Command{
		Use:   "export [--format jwks|pem] [--id ID]",
		Short: "Print the public signing keys",
		Long: `Print the public signing keys that are next, active or retired, which the servers
publish, as a JWK Set or in PEM. Private keys are never printed. A verifier that
uses a copy needs a new one before a key that the copy lacks is used.`,
		Example: `  mintage keys export > jwks.json
  mintage keys export --format pem --id 0f1e2d3c`,
		PreRunE: func(*cobra.Command, []string) error {
			if format != "jwks" && format != "pem" {
				return &oauth.Invalid{Field: "format", Message: fmt.Sprintf("%q is not jwks or pem", format)}
			}
			return nil
		},
		RunE: s.calls(func(cmd *cobra.Command, a *adminclient.Client, _ []string) error {
			set := jose.JSONWebKeySet{}
			if _, err := a.Get(cmd.Context(), &set, nil, "keys", "public"); err != nil {
				return err
			}
			if len(set.Keys) == 0 {
				return deployment.Hint(errors.New("the store has no signing keys yet"), "the server makes them when it starts")
			}
			set.Keys = slices.DeleteFunc(set.Keys, func(k jose.JSONWebKey) bool { return id != "" && k.KeyID != id })
			switch {
			case len(set.Keys) == 0:
				return deployment.Hint(fmt.Errorf("no signing key %q is next, active or retired", id), "see: mintage keys list")
			case format == "jwks":
				return show.JSON(cmd.OutOrStdout(), set)
			}
			// Parsers of PEM (RFC 7468) skip the line before each key.
			for _, k := range set.Keys {
				der, err := x509.MarshalPKIXPublicKey(k.Key)
				if err != nil {
					return err
				}
				fmt.Fprintf(cmd.OutOrStdout(), "%s key %s\n%s", k.Algorithm, k.KeyID, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
			}
			return nil
		}),
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
		Short: "Withdraw compromised keys, in an emergency",
		Long: `Withdraw keys that somebody else has copied. Everything that they made is refused:
refresh tokens, access tokens, codes, JWTs, and ids of clients that registered
themselves. A signing key leaves the published set. A successor replaces a key
in use at once. Servers apply it within two seconds; it cannot be undone.

Users whose grants end must log in again; --dry-run counts them and changes
nothing. If the key-encryption key was copied as well, replace that first, with
"mintage kek rotate".`,
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
		RunE: s.calls(func(cmd *cobra.Command, a *adminclient.Client, args []string) error {
			var done adminapi.Withdrawal
			in := adminapi.WithdrawRequest{Keys: args, Purposes: purposes, All: all, DryRun: dry}
			if err := a.Post(cmd.Context(), in, &done, "keys", "withdraw"); err != nil {
				return err
			}
			for _, k := range done.Withdrawn {
				if dry {
					fmt.Fprintf(cmd.OutOrStdout(), "%s key %s would be withdrawn\n", k.Purpose, k.ID)
				} else {
					fmt.Fprintf(cmd.OutOrStdout(), "%s key %s is withdrawn since %s\n", k.Purpose, k.ID, instant(k.WithdrawnAt))
				}
			}
			for _, k := range done.Added {
				fmt.Fprintf(cmd.OutOrStdout(), "%s key %s is used at once\n", k.Purpose, k.ID)
			}
			if done.Grants == nil || done.JWTGrants == nil {
				return errors.New("the keys are withdrawn, but what that ends cannot be counted")
			}
			printEnded(cmd.OutOrStdout(), done, dry)
			return nil
		}),
	}
	cmd.Flags().StringSliceVar(&purposes, "purpose", nil, "all keys of a purpose, also retired and next ones: mac, seal, audit, ES256, EdDSA, RS256 or registration; repeatable")
	cmd.Flags().BoolVar(&all, "all", false, "all keys but the pepper")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "count what would end, and change nothing")
	return cmd
}

// printEnded prints what the withdrawal of keys ends, or would end.
func printEnded(out io.Writer, done adminapi.Withdrawal, dry bool) {
	of, signs := map[keys.Purpose]bool{}, false
	for _, k := range done.Withdrawn {
		of[keys.Purpose(k.Purpose)] = true
		signs = signs || keys.Purpose(k.Purpose).Signs()
	}
	ends := "ends"
	if dry {
		ends = "would end"
	}
	fmt.Fprintf(out, "it %s:\n", ends)
	if !signs && !of[keys.MAC] && !of[keys.Registration] && !of[keys.Seal] {
		fmt.Fprintln(out, "  nothing: no token and no code depends on it")
	}
	if of[keys.MAC] || of[keys.Registration] {
		fmt.Fprintf(out, "  %d grants: their users log in again\n", *done.Grants)
	}
	if of[keys.Seal] {
		fmt.Fprintf(out, "  codes that were issued within the last %s and not redeemed: codes are not stored and cannot be counted\n", done.CodeLifetime)
	}
	if signs {
		fmt.Fprintf(out, "  JWTs of %d grants that have not expired, at introspection; a verifier that keeps the published set accepts them for up to %s\n", *done.JWTGrants, done.JWKSMaxAge)
	}
}

func newKEK(s *settings) *cobra.Command {
	return parent("kek", "Replace the key-encryption key", `Replace the key-encryption key. It wraps all keys in the store, and is in the kek
file, which every node has.`,
		newKEKRotate(s))
}

func newKEKRotate(s *settings) *cobra.Command {
	return &cobra.Command{
		Use:   "rotate",
		Short: "Wrap all keys with a new key-encryption key",
		Long: `Wrap all keys with a new key-encryption key while servers run, in three steps.
After a crash, repeat the command:

1. Write a new key as second line of the kek file, unless there is one already.
2. Wrap all keys with it, in one transaction. Servers read the file again.
3. Move the old key from the kek file to FILE.FINGERPRINT. Older backups need it.

With PostgreSQL, or with --kek-file, the command ends after step 1: copy the file to
every node, restart a service that has it as a systemd credential, and repeat the
command. A node without the new key answers 503 until it has it.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			a, err := s.open(cmd.Context())
			if err != nil {
				return err
			}
			defer a.Close()
			return a.rotateKEK(cmd)
		},
	}
}

// kekAdvice returns advice about a kek file that the command cannot write: byHand, unless
// there is better advice. On a full disk, an editor would leave an empty file. If this user
// may not write the directory, such as /etc/mintage, root may, and keeps the file's owner.
func kekAdvice(err error, user int, byHand string) string {
	switch {
	case errors.Is(err, syscall.ENOSPC):
		return "make room on its disk, and give the same command again; do not edit the file before"
	case errors.Is(err, fs.ErrPermission) && user != 0:
		return "give the command again as root, which keeps the file's owner (sudo mintage kek rotate); or " + byHand
	}
	return byHand
}

func (a *opened) rotateKEK(cmd *cobra.Command) error {
	if _, err := deployment.ReadKEK(a.cfg); err != nil {
		return err // with advice, if there is no file
	}
	// The file may be a link; replace its target.
	path, _ := deployment.KEKPath(a.cfg)
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return err
	}
	// Two runs at once could overwrite the new key that the first one has wrapped all
	// keys with.
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := syscall.Flock(int(dir.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return fmt.Errorf("lock %s: %w: is another kek rotate running? Give the command again when it has ended", filepath.Dir(path), err)
	}
	kek, err := deployment.ReadKEK(a.cfg)
	if err != nil {
		return err
	}
	text, err := deployment.ReadSecretFile(path)
	if err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	mode := info.Mode().Perm()
	lines := strings.Fields(text)
	records, err := a.Keys().Records(cmd.Context())
	if err != nil {
		return err
	}
	// Refuse a wrong key before a new one is added beside it.
	if _, err := keys.Open(kek, records); err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	if kek.Next() == nil {
		lines = append(lines, strings.TrimSpace(keys.NewKEKText()))
		if err := deployment.ReplaceFile(path, []byte(strings.Join(lines, "\n")+"\n"), mode); err != nil {
			return deployment.Hint(fmt.Errorf("write the new key-encryption key: %w", err), kekAdvice(err, os.Geteuid(),
				"write it yourself, as a second line of "+show.Quote(path)+" (openssl rand -base64 32), and give the command again"))
		}
		if kek, err = deployment.ReadKEK(a.cfg); err != nil {
			return err
		}
		fmt.Fprintf(out, "key-encryption key %s was added to %s, beside %s\n", kek.Next().Fingerprint(), path, kek.Fingerprint())
		// If --kek-file names the file, a server may read a copy of it, such as a systemd
		// credential.
		if a.cfg.Store != config.StoreSQLite || cmd.Flags().Changed("kek-file") {
			fmt.Fprintln(out, "copy the file to every node (restart a service that has it as a systemd credential), then give the same command again")
			return nil
		}
	}
	n, err := a.Keys().Rewrap(cmd.Context(), kek)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%d keys were wrapped by %s\n", n, kek.Next().Fingerprint())
	old := path + "." + kek.Fingerprint()
	err = deployment.ReplaceFile(old, []byte(lines[0]+"\n"), mode, path)
	if err == nil {
		err = deployment.ReplaceFile(path, []byte(lines[1]+"\n"), mode)
	}
	if err != nil {
		return deployment.Hint(fmt.Errorf("the keys are wrapped by the new key-encryption key, but the old one cannot be put aside: %w", err),
			kekAdvice(err, os.Geteuid(), "keep the first line of "+show.Quote(path)+" for older backups, and remove it there"))
	}
	fmt.Fprintf(out, "%s is now %s; earlier backups need %s\n", path, kek.Next().Fingerprint(), old)
	fmt.Fprintln(out, "copy both to a safe place, make a backup, and on other nodes remove the first line of the file")
	return nil
}
