package cli

import (
	"github.com/spf13/cobra"
)

func newKEK(s *settings) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "kek",
		Short: "Replace the key-encryption key",
		Long: `Replace the key-encryption key, which wraps all keys in the store and is not in the
store itself: it is in the kek file, which every node has.`,
		Args: cobra.ArbitraryArgs,
		RunE: onlySubcommands,
	}
	cmd.AddCommand(newKEKRotate(s))
	return cmd
}

func newKEKRotate(s *settings) *cobra.Command {
	return &cobra.Command{
		Use:   "rotate",
		Short: "Wrap all keys by a new key-encryption key",
		Long: `Wrap all keys by a new key-encryption key, beside servers that run on. It takes
three steps, and after a crash the same command goes on:

1. A new key is written into the kek file, as a second line. A line that you have
   put there yourself is taken instead.
2. All keys of the store are wrapped by it, in one transaction. Servers read the
   file again.
3. The old key is written into a file of its own, FILE.FINGERPRINT, which older
   backups need, and leaves the kek file.

With PostgreSQL, it ends after the first step: copy the file to every node, and
give the command again. A node without the new key answers 503 until it has it.`,
		Args: exactly(0, "no argument"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			o, err := s.openOffice(cmd.Context())
			if err != nil {
				return err
			}
			defer o.store.Close()
			return o.rotateKEK(cmd)
		},
	}
}
