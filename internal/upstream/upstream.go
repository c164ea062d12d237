// Package upstream authenticates users at an OpenID Connect provider (login.mode
// upstream): it redirects the browser there, redeems the returned code, and accepts
// an ID token only if every check of OpenID Connect Core section 3.1.3.7 passes. It
// does not depend on clients, sessions and pages; its result is the user's identity.
package upstream

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
	"golang.org/x/sync/singleflight"

	"github.com/mintage/mintage/internal/oauth"
)

// A Config names the provider, and this server's client there.
type Config struct {
	Issuer       string // the provider's issuer identifier, character by character
	ClientID     string
	ClientSecret oauth.Secret // "" for a public client
	Scopes       []string     // openid is added if absent
	// SubjectClaim is the claim of the ID token that becomes the subject: "sub" by
	// default, the only one that a provider never reassigns (OIDC Core section
	// 5.7).
	SubjectClaim string
	// SubjectPrefix is put before the value of SubjectClaim, so that subjects of this
	// provider are not mistaken for those of another.
	SubjectPrefix string
	// Claims maps standard claims to the provider's names of them.
	Claims      map[string]string
	RedirectURL string
	// LogoutURL is where the provider sends browsers back after a logout; "": a logout
	// here does not log out at the provider.
	LogoutURL string
	// HTTP's transport carries the requests; nil for the default one.
	// Redirects are never followed.
	HTTP *http.Client
	Now  func() time.Time
	// Discovered is shared by Providers that replace one another, so that a new one works
	// while the provider is down. Nil: New makes one.
	Discovered *Discovered
}

// A Provider is an OpenID Connect provider. It is safe for concurrent use, and can
// be made while the provider is down: its metadata are fetched on first use.
type Provider struct {
	cfg    Config
	client *http.Client

	searching singleflight.Group
}

// New makes a Provider.
func New(cfg Config) *Provider {
	cfg.SubjectClaim = cmp.Or(cfg.SubjectClaim, "sub")
	others := slices.DeleteFunc(slices.Clone(cfg.Scopes), func(s string) bool { return s == oidc.ScopeOpenID })
	cfg.Scopes = append([]string{oidc.ScopeOpenID}, others...)
	cfg.Discovered = cmp.Or(cfg.Discovered, &Discovered{})
	if cfg.Now == nil {
		panic("upstream: no clock") // a mistake of the wiring
	}
	next := http.DefaultTransport
	if cfg.HTTP != nil && cfg.HTTP.Transport != nil {
		next = cfg.HTTP.Transport
	}
	return &Provider{cfg: cfg, client: &http.Client{
		Transport: transport{next},
		// Some redirects repeat the body, which holds the code and the secret.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Issuer returns the provider's issuer identifier.
func (p *Provider) Issuer() string { return p.cfg.Issuer }

// PassesLogout reports whether logouts are passed on to the provider.
func (p *Provider) PassesLogout() bool { return p.cfg.LogoutURL != "" }

// Claims returns the standard claims that are taken from the provider.
func (p *Provider) Claims() []string { return slices.Sorted(maps.Keys(p.cfg.Claims)) }

// Errors of Begin and Finish. The errors that they wrap are for the log, and contain
// neither codes nor tokens.
var (
	// ErrDenied means that the user, or the provider, has denied the login.
	ErrDenied = errors.New("denied at the upstream provider")
	// ErrUnavailable: the provider cannot be reached or cannot answer. The same
	// login may succeed later, from its beginning: the code is spent.
	ErrUnavailable = errors.New("upstream provider unavailable")
	// ErrInvalid: a response of the provider cannot be trusted, or cannot be used.
	ErrInvalid = errors.New("upstream provider's answer not accepted")
)

// InteractionRequired is the error of a provider that requires interaction with the user
// although the request forbids it (OIDC Core section 3.1.2.6), or whose user cannot log in
// as acr_values require (OpenID Connect Core Error Code UnmetAuthenticationRequirements).
// It wraps ErrDenied, for callers that do not distinguish it.
type InteractionRequired struct{ Code oauth.ErrorCode }

func (e *InteractionRequired) Error() string { return "upstream provider answered " + string(e.Code) }
func (e *InteractionRequired) Unwrap() error { return ErrDenied }

func unavailable(format string, a ...any) error {
	return fmt.Errorf("%w: %w", ErrUnavailable, fmt.Errorf(format, a...))
}

func invalid(format string, a ...any) error {
	return fmt.Errorf("%w: %w", ErrInvalid, fmt.Errorf(format, a...))
}

// A Request holds the parameters of a client's authorization request that are forwarded to
// the provider.
type Request struct {
	State     string // the caller compares it with that of the response
	LoginHint string
	UILocales string
	ACRValues string
	MaxAge    *int // seconds since the user was last authenticated, at most
	// ForceLogin makes the user log in now. The provider must prove it by auth_time, because
	// the user can remove the parameter from the URL.
	ForceLogin    bool
	SelectAccount bool
	OpenID        bool // the subject becomes the sub of an id_token
	// Claims names the claims that the identity must contain as the provider sends them.
	Claims []string
}

// Pending is a login that has begun. Finish needs all fields except for URL. The caller
// must store them where the browser cannot read them.
type Pending struct {
	URL      string // where the browser goes
	Nonce    string `json:"nonce"`
	Verifier string `json:"verifier"` // PKCE (RFC 7636)
	// AuthenticatedAfter is the earliest accepted auth_time. If it is zero, every auth_time
	// is accepted, and the ID token need not have one.
	AuthenticatedAfter time.Time `json:"authenticated_after,omitzero"`
	OpenID             bool      `json:"openid,omitempty"` // of the request
	Claims             []string  `json:"claims,omitempty"` // of the request
}

// leeway is how far apart the provider's clock and ours may be.
const leeway = 30 * time.Second

// Begin begins a login, and returns it with the URL that sends the browser to the
// provider.
func (p *Provider) Begin(ctx context.Context, r Request) (Pending, error) {
	m, err := p.metadata(ctx)
	if err != nil {
		return Pending{}, err
	}
	pending := Pending{Nonce: rand.Text(), Verifier: oauth2.GenerateVerifier(), OpenID: r.OpenID, Claims: r.Claims}
	options := []oauth2.AuthCodeOption{oidc.Nonce(pending.Nonce), oauth2.S256ChallengeOption(pending.Verifier)}
	add := func(name, value string) {
		if value != "" {
			options = append(options, oauth2.SetAuthURLParam(name, value))
		}
	}
	add("login_hint", r.LoginHint)
	add("ui_locales", r.UILocales)
	add("acr_values", r.ACRValues)
	var prompt []string
	if r.ForceLogin {
		// max_age requires the provider to send auth_time (OIDC Core section 2), and
		// max_age=0 means the same as prompt=login.
		prompt = append(prompt, "login")
		r.MaxAge = new(int)
	}
	if r.SelectAccount {
		prompt = append(prompt, "select_account")
	}
	add("prompt", strings.Join(prompt, " "))
	if r.MaxAge != nil {
		add("max_age", strconv.Itoa(*r.MaxAge))
		// Measure from now, not from the end of the login: the provider may ask the user for
		// more after the password.
		age := time.Duration(min(*r.MaxAge, math.MaxInt32)) * time.Second
		pending.AuthenticatedAfter = p.cfg.Now().Add(-age - leeway)
	}
	pending.URL = p.oauth2(m).AuthCodeURL(r.State, options...)
	return pending, nil
}

func (p *Provider) oauth2(m *metadata) *oauth2.Config {
	return &oauth2.Config{
		ClientID: p.cfg.ClientID, ClientSecret: string(p.cfg.ClientSecret), Endpoint: m.endpoint,
		RedirectURL: p.cfg.RedirectURL, Scopes: p.cfg.Scopes,
	}
}

// context returns ctx with the HTTP client for the two libraries.
func (p *Provider) context(ctx context.Context) context.Context {
	return oidc.ClientContext(ctx, p.client)
}
