package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/deployment"
	"github.com/mintage/mintage/internal/directory"
	"github.com/mintage/mintage/internal/show"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/moving"
	"github.com/mintage/mintage/internal/store/postgres"
	"github.com/mintage/mintage/internal/store/sqlite"
)

func newMigrateStore(s *settings) *cobra.Command {
	m := &migration{settings: s}
	cmd := &cobra.Command{
		Use:   "migrate-store --from sqlite:DIR --to postgres://USER@HOST/DATABASE",
		Short: "Move the store from SQLite to PostgreSQL",
		Long: `Move the SQLite store of a data directory into an empty PostgreSQL database. Live
tokens and codes continue to work. Stop the server first: a server does not start
on the moved store afterwards.

The command copies the rows, then reads both stores again and compares counts and
checksums. Only then can servers use the database. If it is interrupted,
give it again: it starts from the beginning.

The database's password comes from --store-password-file, PGPASSFILE or ~/.pgpass.
Every server needs the kek file of the old one.

--undo takes the store back. Before the move has finished, nothing is lost.
Afterwards it needs --to, to keep servers from the database, and --yes: changes
since the move are lost. It is a restore: clients that have refreshed since get 503
until it is declared, beside the server (mintage restore --declare). That also ends
again what the audit log says was revoked.`,
		Example: `  mintage migrate-store --from sqlite:/var/lib/mintage \
      --to postgres://mintage@db.example.com:5432/mintage --store-password-file /etc/mintage/db-password
  mintage migrate-store --undo --from sqlite:/var/lib/mintage`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("store") {
				return deployment.Usage(deployment.Hint(errors.New("--store: this command has --to instead"), "name the destination with --to"))
			}
			if m.undo {
				return m.takeBack(cmd)
			}
			return m.move(cmd)
		},
	}
	cmd.Flags().StringVar(&m.from, "from", "", "the store to move: sqlite:DIRECTORY")
	cmd.Flags().StringVar(&m.to, "to", "", "the URL of an empty PostgreSQL database, without a password")
	cmd.Flags().BoolVar(&m.undo, "undo", false, "undo the move, and use the store in --from again")
	cmd.Flags().BoolVar(&m.gone, "destination-is-gone", false, "with --undo of a finished move: the database no longer exists")
	cmd.Flags().BoolVar(&m.yes, "yes", false, "with --undo of a finished move: confirm")
	return cmd
}

// A migration is one run of migrate-store.
type migration struct {
	*settings
	from, to        string
	undo, gone, yes bool
}

// source opens and locks the store to move.
func (m *migration) source(cmd *cobra.Command) (_ *sqlite.Moving, end func(), err error) {
	dir, ok := strings.CutPrefix(m.from, "sqlite:")
	switch {
	case m.from == "":
		return nil, nil, deployment.Usage(deployment.Hint(errors.New("--from is missing"), "see: mintage migrate-store --help"))
	case !ok || dir == "":
		return nil, nil, deployment.Usage(deployment.Hint(fmt.Errorf("--from: %q does not look like sqlite:/var/lib/mintage", m.from), "stores move from SQLite to PostgreSQL, and not the other way"))
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, nil, err
	}
	if err := sqlite.Exists(dir); err != nil {
		return nil, nil, err
	}
	release, err := lockStore(dir, "for a move: stop the server on it, or wait for the other migrate-store")
	if err != nil {
		return nil, nil, err
	}
	from, err := sqlite.OpenToMove(cmd.Context(), dir)
	if err != nil {
		release()
		return nil, nil, err
	}
	return from, func() {
		from.Close()
		release()
	}, nil
}

// destination opens the database that --to names, by the rules of --store.
func (m *migration) destination(cmd *cobra.Command) (*postgres.Moving, error) {
	if err := cmd.Flags().Set("store", m.to); err != nil {
		return nil, err
	}
	cfg, err := m.load()
	if err == nil {
		err = cfg.CheckStore()
	}
	if err != nil {
		// The errors of --store are about --to here.
		text := strings.TrimPrefix(err.Error(), "--")
		if about, ok := strings.CutPrefix(text, "store: "); ok {
			err = errors.New("--to: " + about)
		}
		return nil, deployment.Usage(err)
	}
	if cfg.Store == config.StoreSQLite {
		return nil, deployment.Usage(deployment.Hint(errors.New("--to: stores move to PostgreSQL"), "name it like postgres://USER@HOST:5432/DATABASE"))
	}
	return postgres.OpenToMove(cmd.Context(), deployment.Database(cfg))
}

func (m *migration) move(cmd *cobra.Command) error {
	switch {
	case m.to == "":
		return deployment.Usage(deployment.Hint(errors.New("--to is missing"), "see: mintage migrate-store --help"))
	case m.gone || m.yes:
		return deployment.Usage(deployment.Hint(errors.New("--destination-is-gone and --yes belong to --undo"), "see: mintage migrate-store --help"))
	}
	from, end, err := m.source(cmd)
	if err != nil {
		return err
	}
	defer end()
	to, err := m.destination(cmd)
	if err != nil {
		return err
	}
	defer to.Close()
	p := newProgress(cmd.ErrOrStderr(), time.Now)
	outcome, err := moving.Run(cmd.Context(), from, to, p.moved)
	p.end()
	if err != nil {
		return adviseMove(cmd.Context(), err, from.Name())
	}
	return printMove(cmd.OutOrStdout(), outcome, from.Name(), to.Name())
}

// adviseMove adds advice to an error.
func adviseMove(ctx context.Context, err error, from string) error {
	undo := "mintage migrate-store --undo --from " + from
	var refusal *moving.Refusal
	var differences *moving.Differences
	switch {
	case errors.As(err, &refusal):
		if refusal.Advice != "" {
			return deployment.Hint(err, refusal.Advice)
		}
		return err
	case errors.As(err, &differences):
		return deployment.Hint(fmt.Errorf("%w; nothing was lost: the source is as it was, and servers are kept from the copy", err),
			"another program has written to the copy, or a disk is faulty. Undo: "+undo+"; then move again")
	case ctx.Err() != nil:
		return deployment.Hint(errors.New("stopped; the move is not finished, and neither store can be served"), "the same command starts again; to undo: "+undo)
	}
	return deployment.Hint(fmt.Errorf("the move is not finished: %w", err), "the same command starts again; if the source can no longer be served, undo: "+undo)
}

func printMove(w io.Writer, o moving.Outcome, from, to string) error {
	if len(o.Tables) > 0 {
		var rows [][]string
		for _, c := range o.Tables {
			rows = append(rows, []string{c.Table, fmt.Sprint(c.Source.Rows), fmt.Sprint(c.Copy.Rows), fmt.Sprintf("%x", c.Copy.Digest), "same"})
		}
		if err := show.Table(w, "TABLE|ROWS|COPIED|SHA-256|", rows); err != nil {
			return err
		}
		fmt.Fprintln(w)
	}
	done := "has moved to"
	if o.Already {
		done = "had moved before to"
	}
	_, err := fmt.Fprintf(w, "%s %s %s\nServe it with --store and the same key-encryption key (kek), public_url and TLS certificate.\n", from, done, to)
	return err
}

func (m *migration) takeBack(cmd *cobra.Command) error {
	from, end, err := m.source(cmd)
	if err != nil {
		return err
	}
	defer end()
	state, err := from.Migration(cmd.Context())
	if err != nil {
		return err
	}
	switch {
	case m.to != "" && m.gone:
		return deployment.Usage(deployment.Hint(errors.New("--to and --destination-is-gone exclude each other"), "see: mintage migrate-store --help"))
	case state.State == store.Left && m.to == "" && !m.gone:
		return deployment.Usage(deployment.Hint(fmt.Errorf("the move to %s was finished, and servers may be using it", state.OtherStore),
			"name it with --to, so that they are kept from it; or add --destination-is-gone"))
	}
	var to moving.Destination
	used := m.gone && state.State == store.Left
	if m.to != "" {
		opened, err := m.destination(cmd)
		if err != nil {
			return err
		}
		defer opened.Close()
		here, err := opened.Migration(cmd.Context())
		if err != nil {
			return err
		}
		used = here.State == store.Arrived
		to = opened
		if used {
			if err := unused(cmd.Context(), opened); err != nil {
				return err
			}
		}
	}
	if used && !m.yes {
		return deployment.Usage(deployment.Hint(fmt.Errorf("nothing was done: all that has happened in %s since the move would be lost; codes that were redeemed there could be redeemed again, and tokens that were revoked there would be valid again", state.OtherStore),
			"add --yes to do it; then start the server, and declare the restore: "+declareUndo))
	}
	was, err := moving.Undo(cmd.Context(), from, to, m.gone)
	if err != nil {
		if refusal := (*moving.Refusal)(nil); errors.As(err, &refusal) {
			return deployment.Hint(err, refusal.Advice)
		}
		return deployment.Hint(err, "give the same command again")
	}
	if was.State == "" {
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s is not being moved, and has not moved: there is nothing to undo\n", from.Name())
		return err
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s can be served again; %s can not\n", from.Name(), was.OtherStore)
	if err == nil && was.State == store.Left {
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "Clients that have refreshed there get 503 until you start the server and declare the restore:\n  %s\n", declareUndo)
	}
	return err
}

// declareUndo is the command that must follow the undo of a finished move: tokens that were
// rotated in the database are ahead of the store that is served again.
const declareUndo = "mintage restore --declare --backup-time INSTANT --yes, with the time at which the server was stopped for the move"

// beats is longer than the interval of a node's heartbeats.
const beats = 3 * time.Second

// unused returns an error if servers run on the database: they would continue to use it.
func unused(ctx context.Context, to *postgres.Moving) error {
	before, err := to.Nodes(ctx)
	if err != nil {
		return err
	}
	if !directory.Pause(ctx, beats) {
		return ctx.Err()
	}
	after, err := to.Nodes(ctx)
	if err != nil {
		return err
	}
	for _, n := range store.Running(before, after) {
		return deployment.Hint(fmt.Errorf("a server on %s uses %s", n.Name, to.Name()), "stop all servers first")
	}
	return nil
}
