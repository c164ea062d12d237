package resource

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/mintage/mintage/internal/dpop"
)

// maxToken is the longest accepted token, in characters.
const maxToken = 8192

// A Verifier verifies access tokens for one audience of one issuer. An API has one
// Verifier for as long as it runs. Its methods are safe for concurrent use.
type Verifier struct {
	cfg           Config
	client        *http.Client
	work          *background
	metadata      *document[metadata]
	keys          *document[keySet]
	lookups       *lookups  // nil without ClientID
	revocations   *follower // nil unless they are followed
	introspection outage
	nonces        dpop.Nonces // nil: none are demanded
	seen          dpop.Seen
}

// New returns a verifier. It sends no request, so the authorization server may be
// down while the API starts. Its errors concern only the Config. See
// [Verifier.Ready].
func New(cfg Config) (*Verifier, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	v := &Verifier{cfg: cfg, nonces: noncesOf(cfg.NonceKey), client: newClient(cfg.HTTPClient), work: newBackground()}
	v.metadata = newDocument(v, "metadata", maxMetadata, func(context.Context) (string, error) { return wellKnown(cfg.Issuer), nil }, v.parseMetadata)
	v.keys = newDocument(v, "keys", maxKeySet, v.keysAddress, parseKeySet)
	v.introspection = outage{what: "introspection", log: cfg.Logger}
	if cfg.ClientID != "" {
		v.lookups = &lookups{ask: v.introspect, keep: cfg.IntrospectionCache, work: v.work, running: map[fingerprint]*lookup{}, cached: map[fingerprint]*lookup{}}
	}
	if cfg.FollowRevocations {
		v.revocations = newFollower(v)
		v.work.do(v.revocations.run)
	}
	return v, nil
}

// Close ends the work in the background and waits for it. Waiting and later requests fail
// with ErrUnavailable. It may be called more than once.
func (v *Verifier) Close() {
	v.work.close()
	if v.cfg.HTTPClient == nil {
		v.client.CloseIdleConnections()
	}
}

// Verify verifies an access token: a JWT (RFC 9068) by the server's keys, any other
// token by introspection. Token is the text after "Bearer ". Use it, and
// [Verifier.VerifyBound], where [Verifier.Require] does not fit. A token that is bound to
// a key is not valid here.
//
// The error wraps ErrInvalidToken if the token is not valid, ErrInsufficientScope if
// it lacks one of scopes, and ErrUnavailable if it cannot be verified now or ctx has
// ended. A JWT needs the network only while the server's keys, or the first list of
// revocations, are not cached.
func (v *Verifier) Verify(ctx context.Context, token string, scopes ...string) (Principal, error) {
	p, err := v.verify(ctx, token)
	if err == nil && p.KeyThumbprint != "" {
		err = errBound
	}
	return v.admit(p, err, scopes)
}

// admit returns a copy of the principal of a token, so that callers cannot change the
// cache. It returns err, or an error if the token lacks one of scopes, or breaks the rule
// of Config.Actors.
func (v *Verifier) admit(p Principal, err error, scopes []string) (Principal, error) {
	_, acts := p.Actor()
	switch {
	case err != nil:
	case !p.HasScope(scopes...):
		err = ErrInsufficientScope
	case v.cfg.Actors == ActorsRequired && !acts:
		err = errNoActor
	case v.cfg.Actors == ActorsRefused && acts:
		err = errActor
	default:
		p.Scope, p.Audience, p.Actors = slices.Clone(p.Scope), slices.Clone(p.Audience), slices.Clone(p.Actors)
		return p, nil
	}
	return Principal{}, err
}

func (v *Verifier) verify(ctx context.Context, token string) (Principal, error) {
	switch {
	case v.work.ctx.Err() != nil:
		return Principal{}, unavailable(errClosed)
	case !isToken(token) || len(token) > maxToken:
		return Principal{}, invalid("too long, or with characters that no token has")
	case strings.Count(token, ".") == 2: // an opaque token of the server has no dots
		return v.verifyJWT(ctx, token)
	case v.lookups == nil:
		return Principal{}, invalid("not a JWT; other tokens require Config.ClientID")
	}
	return v.lookups.get(ctx, token)
}

// Ready reports whether tokens can be verified: the server's metadata and keys are
// cached or can be fetched, and the list of revocations, with FollowRevocations, has
// not expired. The error wraps ErrUnavailable and says what is wrong. Use it for a
// readiness probe, or at the start to detect a wrong Issuer. It does not try the
// ClientSecret.
func (v *Verifier) Ready(ctx context.Context) error {
	if v.work.ctx.Err() != nil {
		return unavailable(errClosed)
	}
	m, err := v.metadata.get(ctx)
	if err != nil {
		return err
	}
	if v.lookups != nil && m.Introspection == "" {
		return unavailable(errors.New("the server's metadata has no introspection_endpoint"))
	}
	if _, err := v.keys.get(ctx); err != nil {
		return err
	}
	if v.revocations != nil {
		_, err = v.revocations.list(ctx)
	}
	return err
}

// isToken reports whether s is a b64token, the syntax of a bearer token (RFC 6750
// section 2.1).
func isToken(s string) bool {
	const characters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~+/"
	body := strings.TrimRight(s, "=")
	return body != "" && strings.Trim(body, characters) == ""
}
