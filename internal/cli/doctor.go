package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/mintage/mintage/internal/adminapi"
	"github.com/mintage/mintage/internal/adminclient"
	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/deployment"
	"github.com/mintage/mintage/internal/directory"
	"github.com/mintage/mintage/internal/doctor"
	"github.com/mintage/mintage/internal/node"
	"github.com/mintage/mintage/internal/show"
)

func newDoctor(s *settings) *cobra.Command {
	var p doctor.Deployment
	var offline, asJSON, accept, last bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Find what is wrong with the deployment, and what to do",
		Long: `Find what is wrong with the deployment, and what to do: configuration, files,
certificate, database, keys, clients, backups, audit log, the running server,
clocks, and what clients receive at public_url. The running server reports how a
request arrives through proxies. The command changes nothing.

Run it on the server's machine, as its user, with its configuration. Each line is
ok, note (left out, or nothing to check), unknown (could not be checked), warning
or fault.

The exit status is 0 if all is well, 1 for a fault, 3 for only warnings or
unknowns, and 2 for a wrong command line.`,
		Example: `  mintage doctor --config /etc/mintage/mintage.yaml
  mintage doctor --config /etc/mintage/mintage.yaml --offline --json
  mintage doctor --config /etc/mintage/mintage.yaml --connect 10.0.0.2:443   # this proxy, whatever DNS says
  mintage doctor --dev --data mintage-data`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s.ignorePackagedFile = p.Dev
			if last {
				return s.lastCheckup(cmd, asJSON)
			}
			cfg, err := s.load()
			if err != nil {
				return err
			}
			// In production, public_url is set. Without it, use the deployment of serve --dev.
			if dev, err := asDev(cfg); err == nil && (p.Dev || cfg.PublicURL == "") {
				cfg, p.Dev = dev, true
			} else if p.Dev {
				return err
			}
			fillDeployment(cmd.Context(), cfg, &p)
			if p.Store != nil {
				defer p.Store.Close()
			}
			if accept {
				of, err := s.settingsOf(cfg)
				if err != nil {
					return err
				}
				return acceptIssuer(cmd, &p, of)
			}
			list := p.Examine(cmd.Context(), offline, func(f doctor.Finding) {
				if !asJSON {
					doctor.Print(cmd.OutOrStdout(), f)
				}
			})
			return conclude(cmd.OutOrStdout(), doctor.Conclude(list), asJSON)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&offline, "offline", false, "leave out checks of the public address")
	f.BoolVar(&p.Dev, "dev", false, "the server runs with --dev: take its address and certificate from its data directory (also done if no public_url is given)")
	f.StringVar(&p.Connect, "connect", "", "connect to this HOST:PORT instead of the address of public_url")
	f.StringVar(&p.CAFile, "ca-file", "", "certificate authorities that clients trust, PEM; default: the system's")
	f.BoolVar(&accept, "accept-issuer", false, "store the configured issuer as the right one, and do nothing else; with --realm, that of a realm")
	f.BoolVar(&last, "last", false, "print what the running server found when it last examined itself, which it does each hour if it has a console; from any machine")
	f.BoolVar(&asJSON, "json", false, "print JSON")
	f.StringVar(&s.realm, "realm", "", "for --accept-issuer: the realm whose issuer is meant")
	return cmd
}

// lastCheckup prints the findings of the server's last checkup.
func (s *settings) lastCheckup(cmd *cobra.Command, asJSON bool) error {
	return s.calls(func(cmd *cobra.Command, a *adminclient.Client, _ []string) error {
		var v adminapi.Checkup
		if _, err := a.Get(cmd.Context(), &v, nil, "checkup"); err != nil {
			return err
		}
		if v.At == nil {
			return deployment.Hint(errors.New("the server has not examined itself yet"), "use: mintage doctor, on the server's machine")
		}
		if !asJSON {
			fmt.Fprintf(cmd.OutOrStdout(), "at %s:\n", when(v.At))
			for _, f := range v.Findings {
				doctor.Print(cmd.OutOrStdout(), f)
			}
		}
		return conclude(cmd.OutOrStdout(), doctor.Conclude(v.Findings), asJSON)
	})(cmd, nil)
}

// asDev returns cfg with the settings that serve --dev sets.
func asDev(cfg config.Config) (config.Config, error) {
	info, err := deployment.ReadDevFile(cfg)
	if err != nil {
		return cfg, deployment.Hint(fmt.Errorf("--dev: %w", err), "name the data directory of a server that runs with --dev: --data")
	}
	u, err := url.Parse(info.TokenEndpoint)
	if err != nil {
		return cfg, fmt.Errorf("%s: %w", deployment.DevFile(cfg), err)
	}
	cfg.PublicURL, cfg.Listen = "https://"+u.Host, cmp.Or(info.Listen, u.Host)
	cfg.TLS.Cert, cfg.TLS.Key = deployment.DevCertificate(cfg)
	if m, err := url.Parse(info.Management); err == nil {
		cfg.Management.Listen = m.Host
	}
	cfg.Share()
	return cfg, nil
}

// fillDeployment sets the fields of p that the checks read and that are no flags. The
// caller closes p.Store, if it was opened.
func fillDeployment(ctx context.Context, cfg config.Config, p *doctor.Deployment) {
	node.DescribeDeployment(cfg, p)
	p.StoreErr = openDeployment(ctx, cfg, p)
	api, unreachable := adminclient.Open(cfg, p.CAFile)
	p.Admin = func(ctx context.Context, method, path string, out any) error {
		if unreachable != nil {
			return unreachable
		}
		return api.Call(ctx, method, path, out)
	}
	if p.CAFile == "" && p.Dev {
		p.CAFile = deployment.DevCAFile(cfg)
	}
}

// storeTime limits opening and reading the store.
const storeTime = 20 * time.Second

// openDeployment opens the store and reads its directory.
func openDeployment(ctx context.Context, cfg config.Config, p *doctor.Deployment) error {
	ctx, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	st, err := deployment.OpenStore(ctx, cfg)
	if err != nil {
		return err
	}
	if err := node.ReadStore(ctx, st, p); err != nil {
		return errors.Join(err, st.Close())
	}
	node.NameEngine(cfg, st, p)
	return nil
}

func acceptIssuer(cmd *cobra.Command, p *doctor.Deployment, of config.Config) error {
	if p.Store == nil {
		return p.StoreErr
	}
	if err := p.Config.Check(); err != nil {
		return deployment.Usage(fmt.Errorf("configuration:\n%w", err))
	}
	if err := directory.AdoptIssuer(cmd.Context(), p.Store, of.Realm, of.IssuerID()); err != nil {
		return err
	}
	fmt.Fprintf(cmd.OutOrStdout(), "the issuer is %s from now on\n", of.IssuerID())
	return nil
}

// A doctorError reports findings through the exit status.
type doctorError struct{ doctor.Report }

func (d *doctorError) Error() string { return d.Complaint() }

// ExitStatus returns the status that the report determines.
func (d *doctorError) ExitStatus() int { return d.Exit }

// conclude prints the summary, and returns the error for the exit status.
func conclude(w io.Writer, r doctor.Report, asJSON bool) error {
	if asJSON {
		if err := show.JSON(w, r); err != nil {
			return err
		}
	}
	if r.Exit != 0 {
		return &doctorError{r}
	}
	if !asJSON {
		fmt.Fprintf(w, "\nall is well: %d ok\n", r.OK)
	}
	return nil
}
