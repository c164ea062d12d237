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
		Long: `Run the server. It needs public_url, tls.cert and tls.key; the data directory is
made if it is absent. With --dev it needs nothing: it makes a local certificate
authority, a certificate and a demo client in the data directory, and prints
commands to paste.

Every setting can be given in the --config file (tls.cert), in the environment
(MINTAGE_TLS_CERT) or as a flag (--tls-cert); a flag goes over the environment
and that over the file. SIGHUP has a running server read all of it again; see
also "mintage config".`,
		Example: `  mintage serve --dev
  mintage serve --config /etc/mintage/mintage.yaml`,
		Args: exactly(0, "no argument"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			s.apart = dev
			return node.Serve(cmd.Context(), node.Source{Read: s.read, Dev: dev, Version: cmd.Root().Version})
		},
	}
	cmd.Flags().BoolVar(&dev, "dev", false, "try it out on this machine, with nothing prepared")
	s.register(cmd.Flags())
	return cmd
}
