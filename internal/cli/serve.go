package cli

import (
	"github.com/spf13/cobra"

	"github.com/mintage/mintage/internal/node"
)

func newServe(s *settings) *cobra.Command {
	var dev bool
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the server",
		Long: `Run the server. It requires public_url, tls.cert and tls.key, and creates the data
directory. With --dev it requires nothing: it creates a certificate authority, a
certificate and a demo client in the data directory, and prints commands to paste.

Give settings in the --config file (tls.cert), in the environment
(MINTAGE_TLS_CERT) or as flags (--tls-cert); a flag overrides the environment, and
the environment overrides the file. SIGHUP reloads the configuration.`,
		Example: `  mintage serve --dev
  mintage serve --config /etc/mintage/mintage.yaml`,
		Args: exactly(0, "no argument"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			s.apart = dev
			return node.Serve(cmd.Context(), node.Source{Read: s.read, Dev: dev, Version: cmd.Root().Version})
		},
	}
	cmd.Flags().BoolVar(&dev, "dev", false, "try it out on this machine, without preparation")
	s.register(cmd.Flags())
	return cmd
}
