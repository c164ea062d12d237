package client

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"github.com/go-jose/go-jose/v4"

	"github.com/mintage/mintage/internal/keyset"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
)

// A GrantFault is why an assertion is not accepted as a grant: the claim, the member of
// the header or the trust that failed, and for some the value, shortened and in quotes.
type GrantFault struct{ Claim, Why string }

func (f *GrantFault) Error() string { return oauth.ErrGrant.Error() + ": the " + f.Text() }

// Text returns what failed, for records.
func (f *GrantFault) Text() string { return "assertion's " + f.Claim + " " + f.Why }

func (f *GrantFault) Unwrap() error { return oauth.ErrGrant }

// rules are the rules for assertions of both kinds, in the order of their checks. Before
// the signature is verified, the claims serve only to find the trust.
var rules = []rule{
	{"form", (*judgement).read},
	{"typ", (*judgement).typ},
	{"header", (*judgement).header},
	{"iss", (*judgement).trust},
	{"signature", (*judgement).signature},
	{"client_id", (*judgement).forClient},
	{"aud", (*judgement).audience},
	{"exp", (*judgement).times},
	{"jti", (*judgement).id},
	{"sub", (*judgement).sub},
	{"tenant", (*judgement).tenant},
	{"narrowing", (*judgement).narrows},
	{"cnf", (*judgement).confirmation},
	{"act", (*judgement).actors},
	{"scope", (*judgement).scope},
	{"subject", (*judgement).subject},
}

// A Finding is the result of one rule for an assertion.
type Finding struct {
	Claim string `json:"claim"`
	Fault string `json:"fault,omitempty"` // "": it is right
}

// Assertion verifies an assertion that a client presents as a grant. Without a client id,
// the client is that of the only trust that fits. Assertion returns oauth.ErrClient for an
// ID-JAG of a client that is not authenticated; its other errors are GrantFaults and
// faults of the server.
func (a *Authenticator) Assertion(ctx context.Context, clientID string, authenticated bool, text oauth.Secret) (*Asserted, error) {
	j, err := a.judge(clientID, authenticated, text)
	if err != nil {
		return nil, err
	}
	for _, r := range rules {
		if err := r.check(j, ctx); err != nil {
			return nil, granted(err)
		}
	}
	return &j.out, nil
}

// Findings returns the result of each rule for an assertion, as if the client of its trust
// presented it. If no trust is found, it ends with the rule that failed.
func (a *Authenticator) Findings(ctx context.Context, text oauth.Secret) (list []Finding, out *Asserted, err error) {
	j, err := a.judge("", true, text)
	if err != nil {
		return nil, nil, err
	}
	for _, r := range rules {
		var fault *GrantFault
		switch err := granted(r.check(j, ctx)); {
		case err == nil:
			list = append(list, Finding{Claim: r.claim})
		case errors.As(err, &fault):
			list = append(list, Finding{r.claim, fault.Claim + " " + fault.Why})
		default:
			list = append(list, Finding{r.claim, err.Error()})
		}
		if r.claim == "typ" && j.kind == store.TrustIDJAG {
			j.client = j.claims.ClientID
		}
		if fault != nil && j.out.Trust == nil {
			break // the further rules need a trust
		}
	}
	return list, &j.out, nil
}

func (a *Authenticator) judge(clientID string, authenticated bool, text oauth.Secret) (*judgement, error) {
	view, err := a.Directory.View()
	if err != nil {
		return nil, store.Unavailable(err)
	}
	return &judgement{a: a, view: view, client: clientID, authenticated: authenticated, text: text, now: a.Now()}, nil
}

// granted converts an AssertionFault to a GrantFault.
func granted(err error) error {
	if fault, ok := errors.AsType[*AssertionFault](err); ok {
		return &GrantFault{fault.Claim, fault.Why}
	}
	return err
}

// read decodes the assertion.
func (j *judgement) read(context.Context) (err error) {
	if j.signed, j.claims.assertion, err = parseAssertion(j.text); err != nil {
		return err
	}
	payload := j.signed.UnsafePayloadWithoutVerification()
	if err = cmp.Or(decodeClaims(payload, &j.claims), decodeClaims(payload, &j.all)); err != nil {
		return err
	}
	end := strings.LastIndexByte(string(j.text), '.')
	sum := sha256.Sum256([]byte(j.text[:max(0, end)]))
	j.out.Digest = binary.BigEndian.Uint64(sum[:])
	return nil
}

// typ derives the kind of assertion from the header's typ alone (RFC 8725 section 3.11):
// an ID-JAG is never accepted as the assertion of a workload.
func (j *judgement) typ(context.Context) error {
	exact, typ, other := typOf(j.signed)
	j.kind = store.TrustWorkload
	switch {
	case exact == oauth.JWTIDJAG && !j.authenticated:
		return errNobody
	case exact == oauth.JWTIDJAG:
		j.kind = store.TrustIDJAG
	case typ == oauth.JWTIDJAG:
		return wrongClaimWithValue(exact, "typ", "is not written "+oauth.JWTIDJAG)
	case other:
		return wrongClaimWithValue(exact, "typ", "is that of another kind of token")
	}
	return nil
}

// errNobody is the refusal of an ID-JAG without the authentication of its client.
var errNobody = fmt.Errorf("%w: an ID-JAG is accepted of clients that authenticate only", oauth.ErrClient)

func (j *judgement) header(context.Context) error { return checkHeader(j.signed) }

// trust finds the trust. It refuses assertions of this server, whatever trusts the store
// holds.
func (j *judgement) trust(context.Context) error {
	if j.claims.Issuer == j.a.Issuer {
		return wrongClaim("iss", "is this server, whose tokens are no assertions")
	}
	t, err := j.fitting()
	switch {
	case err != nil:
		return err
	case t.Disabled:
		return wrongClaim("iss", "is one whose trust is disabled: mintage trust update "+t.ID+" --disabled=false")
	}
	j.out.Trust = t
	return nil
}

// fitting returns the client's trust or, if the request names no client, the only trust
// that fits. If only disabled ones fit, it returns one of them, so that the refusal says
// that the trust is disabled.
func (j *judgement) fitting() (*store.Trust, error) {
	if j.client != "" {
		t, ok := j.view.Trust(j.a.Realm, j.claims.Issuer, j.kind, j.client)
		if !ok {
			return nil, j.untrusted(wrongClaimWithValue(j.claims.Issuer, "iss", fmt.Sprintf("has no %s trust for the client", j.kind)))
		}
		return t, nil
	}
	var fits, disabled []*store.Trust
	for t := range j.view.TrustsOf(j.a.Realm, j.claims.Issuer) {
		switch {
		case t.Kind != j.kind || !j.aimed(t) || !matches(t, j.claims.Subject):
		case t.Disabled:
			disabled = append(disabled, t)
		default:
			fits = append(fits, t)
		}
	}
	switch {
	case len(fits) == 1:
		return fits[0], nil
	case len(fits) > 1:
		return nil, wrongClaim("iss", fmt.Sprintf("with sub and aud fits %d trusts of workloads, and one must fit: narrow the subjects, or send client_id", len(fits)))
	case len(disabled) > 0:
		return disabled[0], nil
	}
	return nil, j.untrusted(wrongClaim("iss", "with sub and aud fits no trust of workloads: mintage trust list"))
}

// untrusted returns an error about typ if the client has a trust of the other kind, or
// else err.
func (j *judgement) untrusted(err error) error {
	exact, _, _ := typOf(j.signed)
	has := func(kind store.TrustKind) bool {
		_, ok := j.view.Trust(j.a.Realm, j.claims.Issuer, kind, cmp.Or(j.client, j.claims.ClientID))
		return ok
	}
	switch {
	case j.kind == store.TrustWorkload && has(store.TrustIDJAG):
		return wrongClaimWithValue(exact, "typ", "is not "+oauth.JWTIDJAG+", and the client's trust is for ID-JAGs")
	case j.kind == store.TrustIDJAG && has(store.TrustWorkload):
		return wrongClaim("typ", "is "+exact+", and the client's trust is for workloads")
	}
	return err
}

func (j *judgement) signature(ctx context.Context) error {
	t, header := j.out.Trust, j.signed.Signatures[0].Header
	alg := jose.SignatureAlgorithm(header.Algorithm)
	if c, known := j.view.Registered(j.a.Realm, cmp.Or(j.client, t.ClientID)); known && c.FAPI() && alg == jose.RS256 {
		return wrongClaim("alg", "is RS256, and the client follows the FAPI 2.0 Security Profile: have its issuer sign by PS256, ES256 or EdDSA (section 5.4.1)")
	}
	set, err := j.a.trustedKeys(ctx, t, func(s keyset.Set) bool { return s.Has(header.KeyID, alg) })
	if err != nil {
		return &store.ExternalFault{Cause: fmt.Errorf("fetch keys of trust %s: %w", t.ID, err)}
	}
	return verifyWith(ctx, j.signed, set, "issuer", len(t.Keys) == 0)
}

// trustedKeys returns the keys of a trust's issuer. Keys that were fetched before the trust
// was created, or enabled again, do not count: they may be why it was disabled.
func (a *Authenticator) trustedKeys(ctx context.Context, t *store.Trust, enough func(keyset.Set) bool) (keyset.Set, error) {
	switch {
	case len(t.Keys) > 0:
		return keyset.Parse(t.Keys)
	case a.Keys == nil || a.Discovered == nil:
		return nil, errors.New("no key sets are fetched here")
	case t.KeysURI != "":
		return a.Keys(ctx, t.KeysURI, t.KeysCA, t.Since.Time(), enough)
	}
	return a.Discovered(ctx, t.Issuer, t.KeysCA, t.Since.Time(), enough)
}

func (j *judgement) forClient(context.Context) error {
	if j.kind == store.TrustIDJAG && j.claims.ClientID != j.client {
		return wrongClaimWithValue(j.claims.ClientID, "client_id", "is not the client that presents it")
	}
	return nil
}

func (j *judgement) audience(context.Context) error {
	if j.aimed(j.out.Trust) {
		return nil
	}
	why, list := "is not the audience of the trust", j.claims.Audience.names
	switch {
	case len(list) != 1:
		why = fmt.Sprintf("has %d audiences, and must have one", len(list))
	case j.kind == store.TrustIDJAG && strings.HasPrefix(list[0], j.a.Issuer+"/"):
		why = "is an address below the issuer, and must be the issuer"
	case j.kind == store.TrustIDJAG:
		why = "is not the issuer of this server"
	}
	return wrongClaimWithValue(strings.Join(list, " "), "aud", why)
}

// aimed reports whether the audience is the one that a trust requires. A slash at the end
// of this server's issuer does not count.
func (j *judgement) aimed(t *store.Trust) bool {
	if len(j.claims.Audience.names) != 1 {
		return false
	}
	aud := j.claims.Audience.names[0]
	if t.Kind == store.TrustWorkload && t.Audience != "" {
		return aud == t.Audience
	}
	return strings.TrimSuffix(aud, "/") == strings.TrimSuffix(j.a.Issuer, "/")
}
