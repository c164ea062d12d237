package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mintage/mintage/internal/adminapi"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/show"
	"github.com/mintage/mintage/internal/store"
)

const (
	// TokenPrefix begins every token of the admin API, so that people and secret scanners
	// recognize one.
	TokenPrefix = "mintage_op_"

	// maxTokens fit into one document.
	maxTokens        = 50
	tokenLifetime    = 90 * 24 * time.Hour // unless the request has another one
	maxTokenLifetime = 366 * 24 * time.Hour
	// useInterval is how often the last use of a token is written.
	useInterval = time.Hour
	useTime     = time.Second // for the write
)

// A Token is a token of the admin API, as it is stored.
type Token struct {
	Name      string        `json:"name"`
	Role      Role          `json:"role"`
	Realm     string        `json:"realm,omitempty"` // the only one that it is for; "": all
	Digest    []byte        `json:"digest"`
	CreatedBy string        `json:"by"`
	CreatedAt grant.Instant `json:"created"`
	ExpiresAt grant.Instant `json:"expires"`
	UsedAt    grant.Instant `json:"used,omitempty"`
}

// Expired reports whether the token is of no use any more.
func (t Token) Expired(now grant.Instant) bool { return now >= t.ExpiresAt }

// Actor returns the actor of requests with the token.
func (t Token) Actor() Actor { return Actor{ViaToken, t.Name, t.Role, t.Realm} }

// ViewToken returns the view of a token.
func ViewToken(t Token, now grant.Instant) adminapi.Token {
	state := "active"
	if t.Expired(now) {
		state = "expired"
	}
	return adminapi.Token{
		Name: t.Name, Role: string(t.Role), Realm: strings.TrimPrefix(t.Realm, "/"), State: state, CreatedBy: t.CreatedBy,
		CreatedAt: show.JSONInstant(t.CreatedAt), ExpiresAt: show.JSONInstant(t.ExpiresAt), LastUsedAt: show.JSONInstant(t.UsedAt),
	}
}

// tokens is the stored list of tokens of the admin API, sorted by name.
const tokens = store.List[Token](store.DocumentAdminTokens)

// aboutTokens is the About of events of tokens. It is no client's id: those have no space.
const aboutTokens = "admin tokens"

// List returns the tokens of the admin API, sorted by name.
func (a Tokens) List(ctx context.Context) ([]adminapi.Token, error) {
	list, err := tokens.Read(ctx, a.Store)
	views := []adminapi.Token{}
	for _, t := range list {
		views = append(views, ViewToken(t, a.now()))
	}
	return views, err
}

// tokenNames are the characters of names of tokens. A dot is none of them: the name of the
// token of the configuration has one.
const tokenNames = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"

// Create creates a token of the admin API and returns its text, of which only a digest is
// stored. The caller has checked that the realm of r exists.
func (a Tokens) Create(ctx context.Context, r adminapi.TokenRequest) (v adminapi.NewToken, err error) {
	lifetime, err := Positive("expires_in", r.ExpiresIn)
	switch {
	case err != nil:
		return v, err
	case r.Name == "" || len(r.Name) > 40 || strings.Contains("_-", r.Name[:1]) || strings.Trim(r.Name, tokenNames) != "":
		return v, &oauth.Invalid{Field: "name", Message: "is 1 to 40 letters, digits, - and _, the first a letter or a digit"}
	case r.Role != string(RoleAuditor) && r.Role != string(RoleAdmin):
		return v, &oauth.Invalid{Field: "role", Message: fmt.Sprintf("%q is neither auditor nor admin", r.Role)}
	case lifetime > maxTokenLifetime:
		return v, &oauth.Invalid{Field: "expires_in", Message: "is more than a year (366d)"}
	case lifetime == 0:
		lifetime = tokenLifetime
	}
	ring, err := a.Ring(ctx)
	if err != nil {
		return v, err
	}
	text, now := TokenPrefix+string(keys.NewSecret()), a.now()
	t := Token{
		Name: r.Name, Role: Role(r.Role), Realm: realmOf(r.Realm), Digest: ring.AdminTokenDigest(oauth.Secret(text)),
		CreatedBy: show.Bounded(a.Actor.String()), CreatedAt: now, ExpiresAt: now.Add(lifetime),
	}
	err = tokens.Change(ctx, a.Store, func(list []Token) ([]Token, []store.Event, error) {
		i, taken := slices.BinarySearchFunc(list, t.Name, byName)
		switch {
		case taken:
			return nil, nil, &Error{Taken, tokenKind, t.Name, fmt.Sprintf("there is an admin token %q already", t.Name)}
		case len(list) >= maxTokens:
			return nil, nil, &oauth.Invalid{Field: "name", Message: fmt.Sprintf("there are %d admin tokens, and no more are possible: revoke one", len(list))}
		}
		return slices.Insert(list, i, t), []store.Event{a.event(now, store.EventAdminTokenCreated, aboutTokens, fmt.Sprintf("%s: %s, expires %s", t.Name, t.described(), show.Instant(t.ExpiresAt)))}, nil
	})
	return adminapi.NewToken{Token: text, Name: t.Name, Role: r.Role, Realm: strings.TrimPrefix(t.Realm, "/"), ExpiresAt: show.JSONInstant(t.ExpiresAt)}, err
}

// realmOf returns a realm with its slash; "" is none.
func realmOf(name string) string {
	if name == "" {
		return ""
	}
	return "/" + strings.TrimPrefix(name, "/")
}

// described returns the role, and the realm that it is confined to.
func (t Token) described() string {
	if t.Realm == "" {
		return string(t.Role)
	}
	return string(t.Role) + " of the realm " + t.Realm[1:]
}

func byName(t Token, name string) int { return strings.Compare(t.Name, name) }

// Revoke removes a token of the admin API.
func (a Tokens) Revoke(ctx context.Context, name string) error {
	return tokens.Change(ctx, a.Store, func(list []Token) ([]Token, []store.Event, error) {
		i, found := slices.BinarySearchFunc(list, name, byName)
		if !found {
			return nil, nil, &Error{NotFound, tokenKind, name, fmt.Sprintf("there is no admin token %q", name)}
		}
		return slices.Delete(list, i, i+1), []store.Event{a.event(a.now(), store.EventAdminTokenRevoked, aboutTokens, name)}, nil
	})
}

// errNoToken ends noteUse if the token was revoked, or if a later use is stored.
var errNoToken = errors.New("there is no such admin token")

// Find returns the token with a text, or nil. The token may have expired; otherwise, Find
// notes its use.
func (a Tokens) Find(ctx context.Context, text string) (*Token, error) {
	if !strings.HasPrefix(text, TokenPrefix) {
		return nil, nil
	}
	ring, err := a.Ring(ctx)
	if err != nil {
		return nil, err
	}
	list, err := tokens.Read(ctx, a.Store)
	if err != nil {
		return nil, store.Unavailable(err)
	}
	now := a.now()
	var found *Token
	for i := range list {
		if ring.IsAdminToken(list[i].Digest, oauth.Secret(text)) {
			found = &list[i]
		}
	}
	if found != nil && !found.Expired(now) && now.Since(found.UsedAt) >= useInterval {
		a.noteUse(ctx, found.Name, now)
	}
	return found, nil
}

// noteUse writes the last use of a token. It ignores a failure, because the next use
// writes again.
func (a Tokens) noteUse(ctx context.Context, name string, now grant.Instant) {
	ctx, cancel := context.WithTimeout(ctx, useTime)
	defer cancel()
	_ = tokens.Change(ctx, a.Store, func(list []Token) ([]Token, []store.Event, error) {
		i, found := slices.BinarySearchFunc(list, name, byName)
		if !found || now <= list[i].UsedAt {
			return nil, nil, errNoToken
		}
		list[i].UsedAt = now
		return list, nil, nil
	})
}
