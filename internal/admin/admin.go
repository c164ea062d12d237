// Package admin holds what an operator can do with clients, secrets, users, keys,
// cutoffs, sessions and grants. The command line and the admin API call the same
// functions, which record the same events.
package admin

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/mintage/mintage/internal/account"
	"github.com/mintage/mintage/internal/adminapi"
	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/directory"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/pages"
	"github.com/mintage/mintage/internal/show"
	"github.com/mintage/mintage/internal/store"
)

// Languages are the languages of the pages. A scope may have a text in each.
var Languages = pages.Locales

// An Admin changes and reads the store for one operator. Keys are opened only to
// make secrets and keys: an operator without the key-encryption key can still
// look, disable and revoke.
type Admin struct {
	Store  store.Store
	Whole  store.Store // of all realms, for keys and restores; nil: Store
	Realm  string
	Issuer string // the issuer identifier of the realm
	// OperatorRealm is the realm whose built-in users sign in as operators of the console.
	// "": operators sign in at another system, or by invitation only.
	OperatorRealm string
	Actor         Actor // in events
	Policy        grant.Policy
	Policies      map[string]grant.Policy // by realm, to count what a withdrawal of keys ends
	Schedule      keys.Schedule
	// Profile is the profile that every client which gets tokens must follow; "": none.
	Profile store.Profile
	Now     func() time.Time
	KEK     func(context.Context) (*keys.KEK, error)
	Ring    func(context.Context) (*keys.Ring, error)
	// Current returns the directory as the store has it now. Nil: each use case that
	// needs it reads all of it.
	Current func(context.Context) (*directory.View, error)
	// UserCache holds the users for the next page. Nil: each page reads all of them.
	UserCache *account.UserCache
	// Records finds clients that registered themselves. Nil: each search reads all of them.
	Records *Records
	// DryRun checks changes of clients and APIs, and makes none.
	DryRun bool
	// Changed is called after a change of the directory, so that a running server
	// reads it at once.
	Changed func(context.Context)
	// Settle waits until the running servers have written the uses of secrets that
	// they hold in memory.
	Settle func(context.Context)
}

// A Code is the kind of failure of a use case.
type Code string

const (
	NotFound Code = "not found"
	Deleted  Code = "deleted"
	Taken    Code = "taken"
	Changed  Code = "changed" // by somebody else since it was read
	Full     Code = "full"    // the client cannot have another secret
	InUse    Code = "in use"
	Conflict Code = "conflict"
)

// An Error reports why a use case did nothing.
type Error struct {
	Code     Code
	Kind, ID string // of the object that the error is about; a Kind is "client", for example
	Message  string
}

func (e *Error) Error() string { return e.Message }

// Advice returns what an operator can do about it.
func (e *Error) Advice() string {
	switch e.Code {
	case NotFound:
		switch e.Kind {
		case "grant":
			return "it never began, or its last token expired and its row was removed"
		case "secret":
			return "see: mintage client secret list " + e.ID
		}
		if e.Kind == "session" {
			return "see: mintage session list --subject SUBJECT"
		}
		return fmt.Sprintf("see: mintage %s list", e.Kind)
	case Deleted:
		return "see: mintage client list --all"
	case Taken:
		if e.Kind == operatorKind {
			return "to change the role, remove and add the operator: mintage operator remove " + e.ID
		}
		if e.Kind == "client" {
			return "choose another with --id; ids never come back, even after deletion"
		}
		if e.Kind == tokenKind {
			return "choose another name, or revoke it: mintage admin token revoke " + e.ID
		}
	case Changed:
		if e.Kind == "restore" {
			return "see: mintage restore --status"
		}
		return fmt.Sprintf("look at it and try again: mintage %s show %s", e.Kind, e.ID)
	case Conflict:
		return "see: mintage api list, and mintage client list"
	case InUse:
		if e.Kind == operatorKind {
			return "add another admin first: mintage operator add NAME --role admin"
		}
		return "add --force to do it all the same"
	}
	return fmt.Sprintf("see: mintage %s show %s", e.Kind, e.ID)
}

// The Error.Kind of an operator of the console, and of a token of the admin API.
const (
	operatorKind = "operator"
	tokenKind    = "admin token"
)

// Clients returns the use cases of clients and their secrets.
func (a *Admin) Clients() Clients { return Clients{a} }

// APIs returns the use cases of APIs.
func (a *Admin) APIs() APIs { return APIs{a} }

// Users returns the use cases of built-in users.
func (a *Admin) Users() Users { return Users{a} }

// Grants returns the use cases of grants and cutoffs.
func (a *Admin) Grants() Grants { return Grants{a} }

// Sessions returns the use cases of sessions.
func (a *Admin) Sessions() Sessions { return Sessions{a} }

// Keys returns the use cases of the key ring.
func (a *Admin) Keys() Keys { return Keys{a} }

// Restores returns the use cases of restores.
func (a *Admin) Restores() Restores { return Restores{a} }

// Tokens returns the use cases of tokens of the admin API.
func (a *Admin) Tokens() Tokens { return Tokens{a} }

type (
	// Clients registers, changes and reads clients.
	Clients struct{ *Admin }
	// APIs registers, changes and reads APIs.
	APIs struct{ *Admin }
	// Users makes, changes and reads built-in users.
	Users struct{ *Admin }
	// Grants reads and revokes grants, one by one and by cutoffs.
	Grants struct{ *Admin }
	// Sessions reads and ends the sessions of users.
	Sessions struct{ *Admin }
	// Keys reads, rotates and withdraws keys.
	Keys struct{ *Admin }
	// Restores reads and declares restores.
	Restores struct{ *Admin }
	// Tokens makes, reads and revokes tokens of the admin API.
	Tokens struct{ *Admin }
)

// whole returns the store of all realms.
func (a *Admin) whole() store.Store {
	if a.Whole != nil {
		return a.Whole
	}
	return a.Store
}

// view returns the directory as the store has it now. It is of all realms.
func (a *Admin) view(ctx context.Context) (*directory.View, error) {
	if a.Current != nil {
		return a.Current(ctx)
	}
	d, err := directory.Read(ctx, a.whole(), nil, a.Schedule, a.Now)
	if err != nil {
		return nil, err
	}
	return d.Latest(), nil
}

func (a *Admin) now() grant.Instant { return grant.At(a.Now()) }

// cutoffAt returns the instant of a cutoff that ends everything until now, on
// every node.
func (a *Admin) cutoffAt() grant.Instant { return a.now().Add(directory.CutoffReach) }

func (a *Admin) event(at grant.Instant, name store.EventName, about, detail string) store.Event {
	return store.Event{At: at, Name: name, About: about, Actor: a.Actor.String(), Detail: detail}
}

// commit stores a change with its event, and calls Changed if the change is one of the
// directory. A dry run does neither.
func (a *Admin) commit(ctx context.Context, c store.Change, e store.Event) error {
	if a.DryRun {
		return nil
	}
	c.Events = []store.Event{e}
	err := a.Store.Commit(ctx, c)
	if !c.Directory() {
		return err
	}
	return a.announce(ctx, err)
}

// announce calls Changed unless err is the error of the change, and returns err.
func (a *Admin) announce(ctx context.Context, err error) error {
	if err == nil && a.Changed != nil {
		a.Changed(ctx)
	}
	return err
}

// storable returns an error about a text with NUL or invalid UTF-8: no name in the store
// equals such a text, and PostgreSQL rejects it in queries.
func storable(field, text string) error {
	if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
		return &oauth.Invalid{Field: field, Message: "is not UTF-8 text"}
	}
	return nil
}

// Events reads at most readEvents events, and returns the last shownEvents of them.
const (
	shownEvents = 100
	readEvents  = 10000
)

// Events returns the last events about a grant, a client or a subject, oldest
// first.
func (a *Admin) Events(ctx context.Context, about string) ([]adminapi.Event, error) {
	if err := storable("about", about); err != nil {
		return nil, err
	}
	views := []adminapi.Event{}
	if realm, _ := store.SplitRealm(about); realm != "" {
		return views, nil // it names another realm: no name of this realm begins like that
	}
	list, err := a.Store.Events(ctx, about, readEvents)
	if err != nil {
		return nil, err
	}
	for _, e := range list[max(0, len(list)-shownEvents):] {
		views = append(views, adminapi.Event{At: show.JSONInstant(e.At), Name: string(e.Name), Actor: e.Actor, Detail: e.Detail})
	}
	return views, nil
}

// Positive parses a duration, which must be greater than zero. For "", it returns 0.
func Positive(field, text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	d, err := config.ParseDuration(text)
	if err == nil && d <= 0 {
		err = errors.New("must be longer than 0s")
	}
	if err != nil {
		return 0, &oauth.Invalid{Field: field, Message: err.Error()}
	}
	return d.Std(), nil
}

// matchesPage reports whether one of the texts contains p.Match, in any case.
func matchesPage(p adminapi.Page, texts ...string) bool {
	match := strings.ToLower(p.Match)
	return match == "" || slices.ContainsFunc(texts, func(text string) bool {
		return strings.Contains(strings.ToLower(text), match)
	})
}

// pick returns the first p.Limit selected items of rest, and whether more follow. rest is
// what follows the item p.After in a sorted list; nil: the list does not have that item.
func pick[T any](p adminapi.Page, rest iter.Seq[T], selected func(T) bool) (shown []T, more bool, err error) {
	if rest == nil {
		return nil, false, &oauth.Invalid{Field: "after", Message: fmt.Sprintf("%q is not in the list", p.After)}
	}
	for item := range rest {
		switch {
		case !selected(item):
		case len(shown) == p.Limit:
			return shown, true, nil
		default:
			shown = append(shown, item)
		}
	}
	return shown, false, nil
}

// after lists the items of a sorted list that follow the one with the key p.After, or
// returns nil if there is none.
func after[T any](p adminapi.Page, all []T, key func(T) string) iter.Seq[T] {
	if p.After != "" {
		i := slices.IndexFunc(all, func(item T) bool { return key(item) == p.After })
		if i < 0 {
			return nil
		}
		all = all[i+1:]
	}
	return slices.Values(all)
}
