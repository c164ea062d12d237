package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/mintage/mintage/internal/account"
	"github.com/mintage/mintage/internal/adminclient"
	"github.com/mintage/mintage/internal/audit"
	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/deployment"
	"github.com/mintage/mintage/internal/explain"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/node"
	"github.com/mintage/mintage/internal/server"
	"github.com/mintage/mintage/internal/show"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/postgres"
)

// policy is what bounds a registration.
func (o *office) policy() grant.Policy {
	return grant.Policy{AccessLifetime: o.cfg.AccessTokenLifetime.Std()}
}

// client reads a client that has not been deleted.
func (o *office) client(cmd *cobra.Command, id string) (store.Client, error) {
	var c store.Client
	err := store.ErrNotFound // no id is other than UTF-8, which PostgreSQL refuses to look for
	if utf8.ValidString(id) {
		c, err = o.store.Client(cmd.Context(), id)
	}
	if errors.Is(err, store.ErrNotFound) {
		return c, deployment.Hint(fmt.Errorf("there is no client %q", id), "see: mintage client list")
	}
	if err == nil && c.State == store.ClientDeleted {
		return c, deployment.Hint(fmt.Errorf("client %q was deleted on %s", id, show.Instant(c.UpdatedAt)), "see: mintage client list --all")
	}
	return c, err
}

// change writes back a client that was read and changed.
func (o *office) change(cmd *cobra.Command, c store.Client, cutoffs []store.Cutoff, name store.EventName, detail string) error {
	c.Version++
	c.UpdatedAt = o.now
	err := o.store.Commit(cmd.Context(), store.Change{Entries: []store.Entry{c.Entry()}, Cutoffs: cutoffs, Events: []store.Event{o.event(name, c.ID, detail)}})
	if errors.Is(err, store.ErrConflict) {
		return deployment.Hint(fmt.Errorf("client %q was changed by somebody else at this moment; nothing was done", c.ID), "look at it and try again: mintage client show "+c.ID)
	}
	return err
}

// serviceName is what an authenticator app calls us.
func (o *office) serviceName() string {
	if u, err := url.Parse(o.cfg.PublicURL); err == nil && u.Hostname() != "" {
		return u.Hostname()
	}
	return "Mintage"
}

// event records what the operator does.
func (o *office) event(name store.EventName, about, detail string) store.Event {
	return store.Event{At: o.now, Name: name, About: about, Actor: o.actor, Detail: detail}
}

// events are the last ones about a grant, a client or a subject, oldest first.
func (o *office) events(ctx context.Context, about string) ([]show.Event, error) {
	list, err := o.store.Events(ctx, about, readEvents)
	if err != nil {
		return nil, err
	}
	list = list[max(0, len(list)-shownEvents):]
	var views []show.Event
	for _, e := range list {
		views = append(views, show.Event{At: show.JSONInstant(e.At), Name: string(e.Name), Actor: e.Actor, Detail: e.Detail})
	}
	return views, nil
}

// explainer has what is explained from the office's store. Without the
// key-encryption key it explains what it can.
func (o *office) explainer(ctx context.Context) (*explain.Explainer, error) {
	cfg := ofDev(o.cfg)
	kek, locked := deployment.ReadKEK(cfg)
	directory, err := issuer.ReadDirectory(ctx, o.store, kek, deployment.KeySchedule(cfg), time.Now)
	if err != nil && kek != nil {
		// Perhaps it is the key of another store.
		locked = err
		directory, err = issuer.ReadDirectory(ctx, o.store, nil, deployment.KeySchedule(cfg), time.Now)
	}
	if err != nil {
		return nil, err
	}
	tokens := server.TokenEndpoints{InvalidRequestForDeadRefresh: cfg.Compat.InvalidRequestForDeadRefresh}
	return &explain.Explainer{
		Config: cfg, Issuer: node.NewIssuer(cfg, o.store, directory, slog.New(slog.DiscardHandler)), Store: o.store, Locked: locked,
		Told: tokens.Told,
	}, nil
}

func (o *office) grant(cmd *cobra.Command, text string) (grant.Grant, error) {
	id, err := grant.ParseID(text)
	if err != nil {
		return grant.Grant{}, deployment.Usage(err)
	}
	g, err := o.store.Grant(cmd.Context(), id)
	if errors.Is(err, store.ErrNotFound) {
		return g, deployment.Hint(fmt.Errorf("there is no grant %s", id), "it never began, or its last token expired and its row was removed")
	}
	return g, err
}

// printCovered tells how many grants of the store a cutoff covers, whatever
// their state: none is perhaps a name that was mistyped. The cutoff stands
// already, because counting takes a while.
func (o *office) printCovered(cmd *cobra.Command, cut store.Cutoff) error {
	f := store.GrantFilter{Realm: cut.Realm, Subject: cut.Subject, ClientID: cut.ClientID, Limit: 1000}
	covered := 0
	for covered < maxCount {
		page, err := o.store.Grants(cmd.Context(), f)
		if err != nil {
			return fmt.Errorf("it is in force, but the grants that it covers cannot be counted: %w", err)
		}
		for _, g := range page {
			if g.AuthorizedAt <= cut.At {
				covered++
			}
		}
		if len(page) < f.Limit {
			break
		}
		f.After = page[len(page)-1].ID
	}
	text := fmt.Sprintf("%d grants", covered)
	switch {
	case covered == 0:
		text = "no grant: is the name right? (it also covers codes that were not redeemed yet)"
	case covered == 1:
		text = "1 grant"
	case covered >= maxCount:
		text = fmt.Sprintf("%d or more grants", maxCount)
	}
	fmt.Fprintln(cmd.OutOrStdout(), "in the store, it covers "+text)
	return nil
}

func (o *office) revokeGrant(cmd *cobra.Command, text string) error {
	g, err := o.grant(cmd, text)
	if err != nil {
		return err
	}
	err = o.store.UpdateGrant(cmd.Context(), g.ID, func(g grant.Grant) (grant.Grant, []store.Event) {
		return g.Revoke(grant.ReasonOperator).Next, []store.Event{o.event(store.EventGrantRevoked, g.ID.String(), "by command")}
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(cmd.OutOrStdout(), "grant %s is revoked\n", g.ID)
	return nil
}

func (o *office) rotateKEK(cmd *cobra.Command) error {
	// A link leads to where the file is.
	path, _ := deployment.KEKPath(o.cfg)
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return err
	}
	// A second run that had read the file before would write over the first
	// one's new key, which wraps all others by then.
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := syscall.Flock(int(dir.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return fmt.Errorf("lock %s: %w: is another kek rotate running? Give the command again when it has ended", filepath.Dir(path), err)
	}
	kek, err := deployment.ReadKEK(o.cfg)
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
	records, err := o.records(cmd)
	if err != nil {
		return err
	}
	// Otherwise the new key would be lost with the mistake.
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
		if kek, err = deployment.ReadKEK(o.cfg); err != nil {
			return err
		}
		fmt.Fprintf(out, "key-encryption key %s was added to %s, beside %s\n", kek.Next().Fingerprint(), path, kek.Fingerprint())
		if o.cfg.Store != config.StoreSQLite {
			fmt.Fprintln(out, "copy the file to every node, then give the same command again")
			return nil
		}
	}
	n, err := issuer.RewrapKeys(cmd.Context(), o.store, kek, o.actor, time.Now)
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
	fmt.Fprintf(out, "%s is now %s; backups of before need %s\n", path, kek.Next().Fingerprint(), old)
	fmt.Fprintln(out, "copy both to a safe place, make a backup, and on other nodes remove the first line of the file")
	return nil
}

// records are the keys as the store has them.
func (o *office) records(cmd *cobra.Command) ([]keys.Record, error) {
	ch, err := o.store.Changes(cmd.Context(), 0)
	return ch.Keys, err
}

// An office is the store opened for an administrator's command, beside a
// server that may be running on it.
type office struct {
	cfg   config.Config
	store store.Store
	trail *audit.Log                                  // closed with the store; nil if there is none
	nodes func(context.Context) ([]store.Node, error) // that share the store; nil if only one can
	now   grant.Instant
	actor string
}

// openOffice opens the configured store. Close it.
// It needs no key: who has lost one, or does not have it at hand in the middle
// of an incident, can still look, disable and revoke.
func (s *settings) openOffice(ctx context.Context) (*office, error) {
	cfg, err := s.load()
	if err != nil {
		return nil, err
	}
	st, err := deployment.OpenStore(ctx, cfg)
	if err != nil {
		return nil, err
	}
	o := &office{cfg: cfg, now: grant.At(time.Now()), actor: deployment.Operator()}
	if shared, ok := st.(*postgres.Store); ok {
		o.nodes = shared.Nodes
	}
	st, o.trail = deployment.Audited(cfg, st)
	o.store = announcing{st, cfg}
	return o, nil
}

// cutoffAt is the instant of a cutoff that ends everything until now.
func (o *office) cutoffAt() grant.Instant { return grant.At(time.Now()).Add(issuer.CutoffReach) }

// ring opens the key ring, for what makes secrets.
func (o *office) ring(ctx context.Context) (*keys.Ring, error) {
	kek, err := deployment.ReadKEK(o.cfg)
	if err != nil {
		return nil, err
	}
	dir, err := issuer.OpenDirectory(ctx, o.store, kek, keys.Schedule{}, slog.New(slog.DiscardHandler), time.Now)
	if err != nil {
		return nil, err
	}
	view, err := dir.View()
	if err != nil {
		return nil, err
	}
	return view.Ring, nil
}

// user reads a user.
func (o *office) user(cmd *cobra.Command, username string) (account.User, error) {
	u, err := account.Find(cmd.Context(), o.store, deployment.Realm, username)
	if errors.Is(err, store.ErrNotFound) {
		return u, deployment.Hint(fmt.Errorf("there is no user %q", username), "see: mintage user list")
	}
	return u, err
}

// userEvent records a change of a user, as a matter of the subject.
func (o *office) userEvent(name store.EventName, u account.User, detail string) store.Event {
	text := fmt.Sprintf("user %q", u.Username)
	if detail != "" {
		text += ": " + detail
	}
	return o.event(name, store.AboutSubject(u.Subject), text)
}

// putUser stores a changed user.
func (o *office) putUser(cmd *cobra.Command, u account.User, cutoffs []store.Cutoff, name store.EventName, detail string) error {
	err := account.Put(cmd.Context(), o.store, u, cutoffs, o.userEvent(name, u, detail))
	if errors.Is(err, store.ErrConflict) {
		return deployment.Hint(fmt.Errorf("user %q was changed by somebody else at this moment; nothing was done", u.Username), "look at it and try again: mintage user show "+u.Username)
	}
	return err
}

const (
	// settleTime bounds the wait for what servers have not written yet. A node
	// that does not reach the store for so long answers no request.
	settleTime = 6 * time.Second
	// lately is when a node may still be running whose last heartbeat is that old,
	// by another machine's clock.
	lately = 30 * time.Second
)

// clientInUse is client, with the last uses of its secrets that the running
// servers hold in memory. They write a use that matters for the verdict at their
// next poll; only a secret that seems safe to revoke is worth the wait.
func (o *office) clientInUse(cmd *cobra.Command, id string) (store.Client, error) {
	c, err := o.client(cmd, id)
	if err != nil || !slices.ContainsFunc(c.Secrets, func(s store.Secret) bool { return issuer.SecretVerdict(c, s, o.now) == "" }) {
		return c, err
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), settleTime)
	defer cancel()
	reached := adminclient.Poll(ctx, o.cfg)
	switch {
	case o.nodes != nil:
		o.awaitNodes(ctx)
	case !reached && serverRuns(o.cfg.Data):
		pause(ctx, 2*issuer.PollInterval)
	}
	o.now = grant.At(time.Now())
	return o.client(cmd, id)
}

// awaitNodes waits until every node that runs has sent two heartbeats from now on:
// it writes uses before each of them, and the first may have been under way.
func (o *office) awaitNodes(ctx context.Context) {
	last, beats := map[store.NodeID]grant.Instant{}, map[store.NodeID]int{}
	for first := true; ; first = false {
		nodes, err := o.nodes(ctx)
		if err != nil {
			return // the store's own fault: the next read tells
		}
		waiting := false
		for _, n := range nodes {
			switch at, known := last[n.ID]; {
			case first && o.now.Since(n.Clock).Abs() > lately: // it has ended
			case first:
				waiting = true
				last[n.ID] = n.Clock
			case known && n.Clock != at:
				last[n.ID] = n.Clock
				beats[n.ID]++
				fallthrough
			case known:
				waiting = waiting || beats[n.ID] < 2
			}
		}
		if !waiting || !pause(ctx, issuer.PollInterval/10) {
			return
		}
	}
}

// pause waits, and reports whether ctx goes on.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// serverRuns reports whether a server seems to run on a data directory: its lock
// file names a process that there is.
func serverRuns(dir string) bool {
	text, err := os.ReadFile(filepath.Join(dir, "serve.lock"))
	if err != nil {
		return false
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	return err == nil && pid > 0 && syscall.Kill(pid, 0) != syscall.ESRCH
}

// printEnded tells what the withdrawal of keys ends.
func (o *office) printEnded(cmd *cobra.Command, records []keys.Record, ends string) error {
	n, err := issuer.CountEnded(cmd.Context(), o.store, records, o.cfg.AccessTokenLifetime.Std(), o.now)
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
		fmt.Fprintf(out, "  codes that were issued within the last %s and not redeemed: codes are not stored, so nobody can count them\n", o.cfg.CodeLifetime)
	}
	if signs {
		fmt.Fprintf(out, "  JWTs of %d grants that were issued within the last %s, at introspection; a verifier that keeps the published set accepts them for up to %s\n", n.JWTs, o.cfg.AccessTokenLifetime, o.cfg.JWKSMaxAge)
	}
	return nil
}
