package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/json"

	"github.com/mintage/mintage/internal/directory"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keyset"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/overload"
	"github.com/mintage/mintage/internal/store"
)

// maxCandidates limits how many published keys with one kid are tried for a signature: a
// set with many such keys must not make requests slower.
const maxCandidates = 2

// Named returns the client id in the subject of an assertion, for a request whose form
// has no client_id (RFC 7521 section 4.2). It verifies nothing.
func Named(text oauth.Secret) (id string, err error) {
	_, a, err := parseAssertion(text)
	switch {
	case err != nil:
		return "", err
	case a.Subject == "" || len(a.Subject) > oauth.MaxClientAddress:
		return "", wrongClaim("sub", "is missing or too long, and the form has no client_id")
	}
	return a.Subject, nil
}

// byAssertion authenticates a client by an assertion (RFC 7523 section 3).
func (a *Authenticator) byAssertion(ctx context.Context, view *directory.View, cred oauth.Credentials, from netip.Addr) (*store.Client, error) {
	c, err := a.Directory.Client(ctx, view, a.Realm, cred.ClientID)
	if c == nil && err == nil {
		c, err = a.described(ctx, view, cred, from)
	}
	switch {
	case err != nil:
		return nil, err
	case c == nil || !c.Auth.Allows(cred.Method):
		return nil, unfit(view, a.Realm, cred.ClientID)
	case cred.Unnamed && c.Auth == store.AuthFederated:
		// The issuer of such a token did not choose its sub to be a client's id.
		return nil, wrongClaim("client_id", "is missing in the form: a token of another issuer does not name the client")
	}
	signed, claims, err := parseAssertion(cred.Assertion)
	if err != nil {
		return nil, err
	}
	if err := a.verify(ctx, c, signed, from); err != nil {
		return nil, err
	}
	now := a.Now()
	if c.Auth == store.AuthFederated {
		return c, a.checkFederated(c, signed, claims, now)
	}
	if err := a.checkOwn(c, claims, now); err != nil {
		return nil, err
	}
	return c, a.use(ctx, c, claims, now)
}

// verify checks header and signature with the client's keys. The registration, not
// the assertion, names the algorithm (RFC 8725 section 3.1); if the document of a
// client does not, the header may name any that one of the client's keys is for.
func (a *Authenticator) verify(ctx context.Context, c *store.Client, signed *jose.JSONWebSignature, from netip.Addr) error {
	header := signed.Signatures[0].Header
	alg := jose.SignatureAlgorithm(c.Assertion.Alg)
	if alg == "" && c.SelfRegistered() {
		alg = jose.SignatureAlgorithm(header.Algorithm)
	}
	if header.Algorithm != string(alg) {
		return wrongClaim("alg", "is not the one that the client is registered for")
	}
	if err := checkHeader(signed); err != nil {
		return err
	}
	if _, typ, other := typOf(signed); other || typ == oauth.JWTIDJAG {
		return wrongClaim("typ", "is that of another kind of token")
	}
	set, err := a.keySet(ctx, c, header.KeyID, alg, from)
	if err != nil {
		return &store.ExternalFault{Cause: err}
	}
	return verifyWith(ctx, signed, set, "client", c.SelfRegistered() || c.Assertion.KeysURI != "")
}

// verifyWith verifies a signature with the keys of its signer. It tries at most
// maxCandidates keys of a published set, whose size the operator does not control.
func verifyWith(ctx context.Context, signed *jose.JSONWebSignature, set keyset.Set, signer string, published bool) error {
	header := signed.Signatures[0].Header
	candidates := set.Find(header.KeyID, jose.SignatureAlgorithm(header.Algorithm))
	switch {
	case len(candidates) == 0:
		return wrongClaimWithValue(header.KeyID, "kid", fmt.Sprintf("names none of the %s's keys for %s", signer, header.Algorithm))
	case published && header.KeyID == "" && len(candidates) > 1:
		return wrongClaim("kid", fmt.Sprintf("is missing, and more than one of the %s's keys fits", signer))
	case published:
		candidates = candidates[:min(len(candidates), maxCandidates)]
	}
	for _, key := range candidates {
		if err := ctx.Err(); err != nil {
			return store.Unavailable(err)
		}
		if _, err := signed.Verify(key.Key); err == nil {
			return nil
		}
	}
	return wrongClaim("signature", fmt.Sprintf("does not verify with the %s's keys", signer))
}

// otherTypes are the types of tokens that are no assertions.
var otherTypes = []string{"at+jwt", "logout+jwt", "secevent+jwt", "dpop+jwt", "token-introspection+jwt", "revocations+jwt"}

// typOf returns the header's typ as it is written, and in lower case without the prefix
// application/. Other reports that a token of that type is no assertion (RFC 8725 section
// 3.11).
func typOf(signed *jose.JSONWebSignature) (exact, typ string, other bool) {
	value, given := signed.Signatures[0].Header.ExtraHeaders["typ"]
	exact, _ = value.(string)
	typ = strings.TrimPrefix(strings.ToLower(exact), "application/")
	return exact, typ, given && typ == "" || slices.Contains(otherTypes, typ)
}

// checkHeader refuses extensions: none is understood here, and none changes what is
// signed or how it is read (RFC 7515 section 4.1.11, RFC 7797 section 7, RFC 7519 section
// 5.1).
func checkHeader(signed *jose.JSONWebSignature) error {
	for _, member := range []string{"b64", "crit", "zip"} {
		if _, given := signed.Signatures[0].Header.ExtraHeaders[jose.HeaderKey(member)]; given {
			return wrongClaim(member, "is in the header, and must not be")
		}
	}
	return nil
}

// keySet returns the keys of a client. No operator has checked an address that a client
// registered itself: the fetch counts for the caller's network.
func (a *Authenticator) keySet(ctx context.Context, c *store.Client, kid string, alg jose.SignatureAlgorithm, from netip.Addr) (set keyset.Set, err error) {
	enough := func(s keyset.Set) bool { return s.Has(kid, alg) }
	none := errors.New("no key sets are fetched here")
	switch {
	case c.SelfRegistered() && a.OwnKeys == nil:
		err = none
	case c.SelfRegistered():
		set, err = a.OwnKeys(ctx, c.Assertion.KeysURI, networkOf(from), enough)
	case c.Assertion.KeysURI == "":
		return keyset.Parse(c.Assertion.Keys)
	case a.Keys == nil:
		err = none
	default:
		// Keys that were fetched before the last change of the client do not count: a
		// stolen key may be the reason for the change.
		set, err = a.Keys(ctx, c.Assertion.KeysURI, c.Assertion.KeysCA, c.UpdatedAt.Time(), enough)
	}
	if err != nil {
		err = fmt.Errorf("fetch keys of client %s: %w", c.ID, err)
	}
	return set, err
}

func networkOf(from netip.Addr) netip.Prefix {
	if !from.IsValid() {
		return netip.Prefix{}
	}
	return overload.Party(from)
}

// described returns the client of a document that no user has consented to yet, or nil. It
// fetches the document only if an operator has created a trust in the issuer of the
// request's ID-JAG.
func (a *Authenticator) described(ctx context.Context, view *directory.View, cred oauth.Credentials, from netip.Addr) (*store.Client, error) {
	_, known := view.Registered(a.Realm, cred.ClientID)
	if known || a.Described == nil || !oauth.IsClientAddress(cred.ClientID) || !a.Directory.Admits(a.Realm, cred.ClientID) {
		return nil, nil
	}
	_, claims, err := parseAssertion(cred.Grant)
	t, trusted := view.Trust(a.Realm, claims.Issuer, store.TrustIDJAG, cred.ClientID)
	if err != nil || !trusted || t.Disabled {
		return nil, nil
	}
	c, err := a.Described(ctx, cred.ClientID, networkOf(from))
	if err != nil {
		return nil, &store.ExternalFault{Cause: fmt.Errorf("fetch the document of client %s: %w", cred.ClientID, err)}
	}
	view.Offer(c)
	return c, nil
}

// checkOwn checks the claims of an assertion that the client signed itself. If the client
// registered itself, the audience may also be the token endpoint: agents use that, and no
// operator could permit it to each of them. Such clients use PKCE, and get no tokens for
// themselves.
func (a *Authenticator) checkOwn(c *store.Client, claims assertion, now time.Time) error {
	switch {
	case claims.Issuer != c.ID:
		return wrongClaim("iss", "is not the client id")
	case claims.Subject != c.ID:
		return wrongClaim("sub", "is not the client id")
	case len(claims.Audience.names) != 1:
		return wrongClaim("aud", "is not one string, or a list of one")
	case claims.Audience.list && c.FAPI():
		return wrongClaim("aud", "is a list, and must be the issuer as a string (FAPI 2.0 section 5.3.2.1)")
	case claims.Audience.names[0] != a.Issuer && !((c.Assertion.TokenEndpoint || c.SelfRegistered()) && slices.Contains(a.TokenEndpoint, claims.Audience.names[0])):
		return wrongClaim("aud", "is not the issuer")
	case claims.ID == "" || len(claims.ID) > maxJTI:
		return wrongClaim("jti", fmt.Sprintf("is missing, or longer than %d bytes", maxJTI))
	}
	if err := checkTimes(claims, now, assertionLife+assertionAhead); err != nil {
		return err
	}
	if claims.IssuedAt != nil && *claims.ExpiresAt-*claims.IssuedAt > assertionLife.Seconds() {
		return wrongClaim("exp", "is more than 5 minutes after iat")
	}
	return nil
}

// checkFederated checks the claims of an assertion of an issuer that the client trusts.
// Its jti is not checked: the client presents the same token until it expires.
func (a *Authenticator) checkFederated(c *store.Client, signed *jose.JSONWebSignature, claims assertion, now time.Time) error {
	trust := c.Assertion
	switch {
	case claims.Issuer != trust.Issuer:
		return wrongClaim("iss", "is not the issuer that the client trusts")
	case claims.Issuer == a.Issuer:
		return wrongClaim("iss", "is this server, whose tokens authenticate no client")
	case !MatchSubject(trust.Subject, claims.Subject):
		return wrongClaim("sub", "does not match the subject that the client trusts")
	case len(claims.Audience.names) != 1:
		return wrongClaim("aud", "is not one string, or a list of one")
	case claims.Audience.names[0] != cmp.Or(trust.Audience, a.Issuer):
		return wrongClaim("aud", "is not the audience that the client is registered for")
	}
	if err := checkTimes(claims, now, trust.Lifetime.Or(defaultFederated)); err != nil {
		return err
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(signed.UnsafePayloadWithoutVerification(), &all); err != nil {
		return wrongClaim("claims", "are not a JSON object")
	}
	for _, claim := range trust.Claims {
		name, value, _ := strings.Cut(claim, "=")
		if !isValue(all[name], value) {
			return wrongClaim(name, "is not the value that the client is registered for")
		}
	}
	return nil
}

// use records an assertion, which is accepted once (RFC 7523 section 3, item 7): in the
// store if other nodes use it, and otherwise in memory. A restart clears the memory, so
// this server refuses assertions that were issued before it began. Two kinds would
// be accepted again after a restart, and are recorded in the store as well: those dated
// later than now by a signer's clock that is ahead, and those dated in the first minute of
// this server, which may have been of the first kind before the restart.
func (a *Authenticator) use(ctx context.Context, c *store.Client, claims assertion, now time.Time) error {
	replayed := wrongClaim("jti", "was used before: an assertion is accepted once")
	issued := *claims.ExpiresAt - assertionLife.Seconds()
	if claims.IssuedAt != nil {
		issued = *claims.IssuedAt
	}
	began := math.Inf(-1)
	if a.Running != nil {
		began = seconds(now) - a.Running().Seconds()
	}
	if !a.Shared && issued+1 < began { // times are in whole seconds
		return &store.ExternalFault{Cause: errors.New("a client assertion was issued before this server began: it may have been used")}
	}
	if a.Shared || issued > seconds(now) || issued < began+assertionAhead.Seconds() {
		expires := grant.At(time.UnixMilli(int64(*claims.ExpiresAt * 1000)))
		first, err := store.RecordUse(ctx, a.Store, store.DocumentAssertion, a.Realm, c.ID+"\x00"+claims.ID, expires)
		switch {
		case err != nil:
			return err
		case !first:
			return replayed
		case a.Shared:
			return nil
		}
	}
	of := &a.used
	if c.SelfRegistered() {
		of = &a.ownUsed
	}
	switch first, full := of.note(c.ID, claims.ID, now, c.SelfRegistered()); {
	case full && c.SelfRegistered():
		return oauth.ErrTooManyRequests
	case full:
		return &store.ExternalFault{Cause: errors.New("too many client assertions are remembered")}
	case !first:
		return replayed
	}
	return nil
}
