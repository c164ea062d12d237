package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/deployment"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/show"
)

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
2. Wrap all keys of the store with it, in one transaction. Servers read the file
   again.
3. Move the old key from the kek file to FILE.FINGERPRINT. Older backups need it.

With PostgreSQL, the command ends after step 1: copy the file to every node, and
repeat it. A node without the new key answers 503 until it has the file.`,
		Args: exactly(0, "no argument"),
		RunE: s.with(func(cmd *cobra.Command, a *session, _ []string) error { return a.rotateKEK(cmd) }),
	}
}

func (a *session) rotateKEK(cmd *cobra.Command) error {
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
	records, err := a.KeyRecords(cmd.Context())
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
			return deployment.Hint(fmt.Errorf("write the new key-encryption key: %w", err),
				"write it yourself, as a second line of "+show.Quote(path)+" (openssl rand -base64 32), and give the command again")
		}
		if kek, err = deployment.ReadKEK(a.cfg); err != nil {
			return err
		}
		fmt.Fprintf(out, "key-encryption key %s was added to %s, beside %s\n", kek.Next().Fingerprint(), path, kek.Fingerprint())
		if a.cfg.Store != config.StoreSQLite {
			fmt.Fprintln(out, "copy the file to every node, then give the same command again")
			return nil
		}
	}
	n, err := a.RewrapKeys(cmd.Context(), kek)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%d keys were wrapped by %s\n", n, kek.Next().Fingerprint())
	old := path + "." + kek.Fingerprint()
	err = deployment.ReplaceFile(old, []byte(lines[0]+"\n"), mode)
	if err == nil {
		err = deployment.ReplaceFile(path, []byte(lines[1]+"\n"), mode)
	}
	if err != nil {
		return deployment.Hint(fmt.Errorf("the keys are wrapped by the new key-encryption key, but the old one cannot be put aside: %w", err),
			"keep the first line of "+show.Quote(path)+" for older backups, and remove it there")
	}
	fmt.Fprintf(out, "%s is now %s; earlier backups need %s\n", path, kek.Next().Fingerprint(), old)
	fmt.Fprintln(out, "copy both to a safe place, make a backup, and on other nodes remove the first line of the file")
	return nil
}
