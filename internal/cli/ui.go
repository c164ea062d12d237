package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/mintage/mintage/internal/admin"
	"github.com/mintage/mintage/internal/adminapi"
	"github.com/mintage/mintage/internal/adminclient"
	"github.com/mintage/mintage/internal/backup"
	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/deployment"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/show"
	"github.com/mintage/mintage/internal/store/moving"
)

// Results go to standard output, as a table for people or as JSON (internal/show);
// the rest goes to standard error, behind "mintage: ", in lower case, without a
// period.

// sqliteCorrupt is the result code of a damaged page (https://sqlite.org/rescode.html).
const sqliteCorrupt = 11

// A text writes a command's result for people.
type text func(io.Writer) error

// table returns a text that writes rows as a table.
func table(heading string, rows [][]string) text {
	return func(w io.Writer) error { return show.Table(w, heading, rows) }
}

// listed returns the result of a command that lists: the list for JSON, or a table with a
// row for each item. For an empty list, it prints empty, unless "", on standard error.
func listed[T any](cmd *cobra.Command, list []T, err error, empty, heading string, row func(T) []string) (any, text, error) {
	if empty != "" {
		noteEmpty(cmd, list, err, empty)
	}
	rows := make([][]string, len(list))
	for i, item := range list {
		rows[i] = row(item)
	}
	return list, table(heading, rows), err
}

// fields returns a text that writes names and values, followed by other texts.
func fields(list [][2]string, more ...text) text {
	return func(w io.Writer) error {
		err := show.Fields(w, list)
		for _, t := range more {
			err = errors.Join(err, t(w))
		}
		return err
	}
}

// calls returns the RunE of a command that calls the admin API: of the server, or of
// this process if no server runs.
func (s *settings) calls(run func(cmd *cobra.Command, a *adminclient.Client, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		for _, name := range []string{"realm", "subject", "client"} {
			// In a script, it is an unset variable, and the command would apply to everything.
			if f := cmd.Flags().Lookup(name); f != nil && f.Changed && f.Value.String() == "" {
				return deployment.Usage(fmt.Errorf("--%s is empty: name one, or leave the flag out", name))
			}
		}
		a, err := s.connect(cmd)
		if err != nil {
			return err
		}
		defer a.Close()
		return flagged(cmd, run(cmd, a, args))
	}
}

// connect returns a client of the configured deployment's admin API.
func (s *settings) connect(cmd *cobra.Command) (*adminclient.Client, error) {
	cfg, err := s.load()
	if err != nil {
		return nil, err
	}
	a, err := adminclient.Connect(cmd.Context(), cfg, cmd.Root().Version, cmd.Flags().Changed("admin-listen"))
	if err != nil {
		return nil, err
	}
	if s.verbose && s.stderr != nil {
		fmt.Fprintf(s.stderr(), "mintage: admin API: %s\n", a.At())
	}
	a.InRealm(s.realm)
	return a, nil
}

// shows adds --json to a command that calls the admin API and prints what it read:
// the value as JSON, or the text for people.
func (s *settings) shows(cmd *cobra.Command, run func(cmd *cobra.Command, a *adminclient.Client, args []string) (any, text, error)) *cobra.Command {
	asJSON := cmd.Flags().Bool("json", false, "print JSON")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		var value any
		var forPeople text
		read := s.calls(func(cmd *cobra.Command, a *adminclient.Client, args []string) (err error) {
			value, forPeople, err = run(cmd, a, args)
			return err
		})
		if err := read(cmd, args); err != nil {
			return err
		}
		return output(cmd, *asJSON, value, forPeople) // after the store is closed: a pager may read slowly
	}
	return cmd
}

// changes completes a command that calls the admin API and prints a sentence.
func (s *settings) changes(cmd *cobra.Command, run func(cmd *cobra.Command, a *adminclient.Client, args []string) (string, error)) *cobra.Command {
	cmd.RunE = s.calls(func(cmd *cobra.Command, a *adminclient.Client, args []string) error {
		done, err := run(cmd, a, args)
		if err == nil {
			fmt.Fprintln(cmd.OutOrStdout(), done)
		}
		return err
	})
	return cmd
}

// updated says what an update has changed.
func updated(what, changes string) string {
	if changes == "" {
		return what + " is unchanged: it has these settings already"
	}
	return what + " is changed: " + changes
}

// otherFlags maps members of the admin API to flags, where the names differ.
var otherFlags = map[string]string{"keys": "key", "purposes": "purpose", "claims": "claim", "scopes": "scope", "client_secret": "secret-stdin", "password": "password-stdin", "client_id": "client", "subjects": "subject", "email_domains": "email-domain"}

// flagged returns an error about a member of the admin API as one about the flag of a
// command, or about its argument.
func flagged(cmd *cobra.Command, err error) error {
	invalid := (*oauth.Invalid)(nil)
	if !errors.As(err, &invalid) {
		return err
	}
	flag := cmp.Or(otherFlags[invalid.Field], strings.ReplaceAll(invalid.Field, "_", "-"))
	if i := slices.IndexFunc(client.Settings, func(s client.Setting) bool { return s.Member == invalid.Field }); i >= 0 {
		flag = client.Settings[i].Flag
	}
	if cmd.Flags().Lookup(flag) == nil {
		return deployment.Usage(fmt.Errorf("%s: %s", flag, invalid.Message))
	}
	return &oauth.Invalid{Field: flag, Message: invalid.Message}
}

// eventsAbout reads the last events about a client, a grant, a subject or an API.
func eventsAbout(ctx context.Context, a *adminclient.Client, kind, id string) ([]adminapi.Event, error) {
	list, _, err := adminclient.Items[adminapi.Event](ctx, a, "events", url.Values{kind: {id}}, "events")
	return list, err
}

func output(cmd *cobra.Command, asJSON bool, value any, forPeople text) error {
	if asJSON {
		return show.JSON(cmd.OutOrStdout(), value)
	}
	return forPeople(cmd.OutOrStdout())
}

// when formats an instant of an answer for a table; "-" for none.
func when(t *time.Time) string { return show.OrDash(instant(t)) }

// instant formats an instant of an answer for people; "" for none.
func instant(t *time.Time) string {
	if t == nil {
		return ""
	}
	return t.Format(time.RFC3339)
}

// given returns the parameters of a query, pairs of name and value, that have a value.
func given(pairs ...string) url.Values {
	query := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			query.Set(pairs[i], pairs[i+1])
		}
	}
	return query
}

// line returns a text that writes one line.
func line(format string, args ...any) text {
	return func(w io.Writer) error { _, err := fmt.Fprintf(w, format+"\n", args...); return err }
}

// secretFields is fields for a list with a secret. Unless the secret is empty, it first
// prints advice on standard error.
func secretFields(cmd *cobra.Command, secret, advice string, list [][2]string) text {
	return func(w io.Writer) error {
		if secret != "" {
			fmt.Fprintf(cmd.ErrOrStderr(), "mintage: %s: it is not shown again\n", advice)
		}
		return show.Fields(w, list)
	}
}

// noteEmpty reports on standard error that a list which could be read is empty.
func noteEmpty[T any](cmd *cobra.Command, list []T, err error, what string) {
	if len(list) == 0 && err == nil {
		fmt.Fprintf(cmd.ErrOrStderr(), "mintage: %s\n", what)
	}
}

// checkText returns an error if the value of a flag is not UTF-8, as from a
// terminal with another encoding. PostgreSQL does not accept such text.
func checkText(flag, value string) error {
	if !utf8.ValidString(value) {
		return deployment.Usage(deployment.Hint(fmt.Errorf("--%s: %q is not UTF-8 text", flag, value), "use a terminal that sends UTF-8; see: locale charmap"))
	}
	return nil
}

func printError(w io.Writer, err error) {
	if invalid, ok := errors.AsType[*oauth.Invalid](err); ok {
		err = fmt.Errorf("--%s: %s", strings.ReplaceAll(invalid.Field, "_", "-"), invalid.Message)
		if invalid.Field == "after" {
			err = deployment.Hint(err, "begin again without --after")
		}
	}
	if failed, ok := errors.AsType[*admin.Error](err); ok {
		err = deployment.Hint(err, failed.Advice())
	}
	text := err.Error()
	if errors.Is(err, context.Canceled) {
		// Only a signal cancels the context.
		text = strings.ReplaceAll(text, context.Canceled.Error(), "stopped by a signal before it was done")
	}
	fmt.Fprintf(w, "mintage: %s\n", text)
	var h *deployment.Hinted
	switch {
	case errors.As(err, &h):
		fmt.Fprintf(w, "         %s\n", h.Hint)
	case isCorrupt(err) && !strings.Contains(text, "restore a backup"):
		fmt.Fprintln(w, "         the store's file is damaged: put it aside and restore a backup; see: mintage restore --help")
	}
}

// isCorrupt reports whether SQLite has found a file damaged.
func isCorrupt(err error) bool {
	var coded interface{ Code() int }
	return errors.As(err, &coded) && coded.Code()&0xff == sqliteCorrupt
}

// A listing holds the flags of a sorted list.
type listing struct {
	adminapi.Page
	filters string // flags that make the list shorter
}

func (l *listing) register(cmd *cobra.Command, what, key string, states []string) {
	cmd.PreRunE = func(*cobra.Command, []string) error { return l.Check(states...) }
	f := cmd.Flags()
	f.StringVar(&l.Match, "match", "", "only those whose "+what+" contains this text, ignoring case")
	if l.filters = "--match"; states != nil {
		f.StringVar(&l.State, "state", "", "only those that are "+strings.Join(states, " or "))
		l.filters = "--match, --state"
	}
	l.registerPaging(cmd, key)
}

// registerPaging registers the flags of every list that may be long.
func (l *listing) registerPaging(cmd *cobra.Command, key string) {
	cmd.Flags().IntVar(&l.Limit, "limit", 100, "maximum number")
	cmd.Flags().StringVar(&l.After, "after", "", "continue after this "+key+", the last of the previous page")
}

// readList reads a list up to the limit of l. It reports on standard error if more follow.
func readList[T any](cmd *cobra.Command, a *adminclient.Client, name string, l listing, filter url.Values) ([]T, error) {
	list, last, err := adminclient.List[T](cmd.Context(), a, name, l.Page, filter)
	if last != "" {
		fmt.Fprintf(cmd.ErrOrStderr(), "mintage: only the first %d are shown; use %s or --limit\n", l.Limit, l.filters)
		fmt.Fprintf(cmd.ErrOrStderr(), "         the next page: --after %s\n", last)
	}
	return list, err
}

// events returns a text that writes a table of events below other output; none for no event.
func events(list []adminapi.Event) text {
	return func(w io.Writer) error {
		if len(list) == 0 {
			return nil
		}
		var rows [][]string
		for _, e := range list {
			rows = append(rows, []string{e.At.Format(time.RFC3339), e.Name, e.Actor, e.Detail})
		}
		fmt.Fprintln(w)
		return show.Table(w, "AT|EVENT|ACTOR|DETAIL", rows)
	}
}

const (
	terminalPace = 200 * time.Millisecond
	logPace      = 5 * time.Second
)

// A progress reports on long work: in one line of a terminal, or else in a line every few
// seconds. It reports nothing on short work.
type progress struct {
	w        io.Writer
	terminal bool
	now      func() time.Time
	phase    string
	began    time.Time // the phase
	shown    time.Time
	lines    int
	width    int  // of the line on the terminal
	whole    bool // the last line of the phase was shown
}

func newProgress(w io.Writer, now func() time.Time) *progress {
	return &progress{w: w, terminal: deployment.IsTerminal(w), now: now, began: now(), shown: now()}
}

// report shows text if the last line is old enough, with the time that the rest of
// the phase takes at the rate so far. If ending is set, a phase shows its end.
func (p *progress) report(phase string, done, total int64, ending bool, text func(took time.Duration) string) {
	now := p.now()
	if phase != p.phase {
		p.phase, p.began, p.shown, p.whole = phase, now, now, false
	}
	pace, ends := logPace, ending && total > 0 && done >= total && !p.whole
	if p.terminal {
		pace = terminalPace
	}
	if now.Sub(p.shown) < pace && !ends {
		return
	}
	took := now.Sub(p.began)
	line := text(took)
	if done > 0 && done < total && took > 0 {
		line += ", " + time.Duration(float64(took)*float64(total-done)/float64(done)).Round(time.Second).String() + " left"
	}
	p.whole, p.shown, p.lines = p.whole || ends, now, p.lines+1
	if !p.terminal {
		fmt.Fprintf(p.w, "mintage: %s\n", line)
		return
	}
	fmt.Fprintf(p.w, "\rmintage: %s%s", line, strings.Repeat(" ", max(0, p.width-len(line))))
	p.width = len(line)
}

// end moves the terminal to the next line.
func (p *progress) end() {
	if p.width > 0 {
		fmt.Fprintln(p.w)
	}
	p.width = 0
}

// moved reports on a move between stores.
func (p *progress) moved(m moving.Progress) {
	p.report(string(m.Phase), m.AllDone, m.AllTotal, true, func(took time.Duration) string {
		if m.Phase == moving.Clearing {
			return fmt.Sprintf("%s %s, from an earlier move", m.Phase, m.Table)
		}
		text := fmt.Sprintf("%s %s: %d of %d rows", m.Phase, m.Table, m.Done, m.Total)
		if m.AllDone > 0 && took > 0 {
			text += fmt.Sprintf("; all tables: %d of %d, %.0f rows/s", m.AllDone, m.AllTotal, float64(m.AllDone)/took.Seconds())
		}
		return text
	})
}

// copied reports on the copy of a store.
func (p *progress) copied(c backup.CopyProgress) {
	p.report(string(c.Phase), c.Done, c.Total, false, func(time.Duration) string {
		if c.Total == 0 {
			return string(c.Phase)
		}
		return fmt.Sprintf("%s: %.1f of %.1f MB", c.Phase, float64(c.Done)/1e6, float64(c.Total)/1e6)
	})
}

// verified reports on the audit log, in bytes.
func (p *progress) verified(done, total int64) {
	p.report("verify", done, total, p.lines > 0, func(time.Duration) string {
		return fmt.Sprintf("%d of %d MiB verified", done>>20, total>>20)
	})
	if done >= total {
		p.end()
	}
}

// parent returns a command that only has subcommands.
func parent(use, short, long string, commands ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, Long: long, Args: cobra.ArbitraryArgs, RunE: onlySubcommands}
	cmd.AddCommand(commands...)
	return cmd
}

// onlySubcommands runs a parent: without arguments it shows the help, and with an argument
// it fails, because no subcommand has that name.
func onlySubcommands(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return cmd.Help()
	}
	advice := "see: " + cmd.CommandPath() + " --help"
	cmd.SuggestionsMinimumDistance = 2
	if like := cmd.SuggestionsFor(args[0]); len(like) > 0 {
		advice = "did you mean: " + cmd.CommandPath() + " " + like[0]
	}
	return deployment.Usage(deployment.Hint(fmt.Errorf("%s has no command %q", cmd.CommandPath(), args[0]), advice))
}
