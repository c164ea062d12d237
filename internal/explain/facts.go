package explain

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/mintage/mintage/internal/directory"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/show"
	"github.com/mintage/mintage/internal/store"
)

// ExplainedAs is what an Explanation is about.
type ExplainedAs string

const (
	AsUnknown ExplainedAs = "unknown" // of no form that this server makes
	AsRefresh ExplainedAs = "refresh_token"
	AsAccess  ExplainedAs = "access_token"
	AsJWT     ExplainedAs = "jwt"
	AsCode    ExplainedAs = "authorization_code"
	AsGrant   ExplainedAs = "grant"
	AsDevice  ExplainedAs = "device_code"
)

// An Explanation is all that is known of a token, a code or a grant, and what
// would become of it now. It holds no secret: of a token, neither the text nor
// its MAC; of a code, neither the text nor the challenge.
type Explanation struct {
	As  ExplainedAs
	Now grant.Instant
	// Genuine tells that the text was made here. Otherwise Diagnosis, or JWT,
	// says why that is not so, and what the text claims is not proven.
	Genuine   bool
	Diagnosis keys.Diagnosis
	MadeIn    string     // the realm that has made the text, if that is another one
	JWT       *JWTFacts  // of a JWT
	Key       *keys.Life // that the text names, if this store has it

	// What the text says. Named tells that it names a grant.
	Named bool
	Token issuer.Token
	Scope string // of an access token
	Code  *grant.Code
	// Device is what a device code asks for, and what its user has answered; nil if it
	// is in the store no more.
	Device *issuer.Device
	// RedirectURI is the registered one that the code is for, "" if there is
	// none any more.
	RedirectURI string

	// APIs are those that the text names, as show.APIs: of an access token those that
	// it is for, of a code those of the grant to be.
	APIs []string
	// Audience is that of an access token which is in force.
	Audience []string
	// Directory holds the APIs and the cutoffs that exist.
	Directory store.Changes

	Grant   *grant.Grant  // its row, nil if there is none
	Client  *store.Client // its client as stored, nil if there is none
	Cutoffs []store.Cutoff
	Restore grant.Restore // the latest; zero if none
	Events  []store.Event // of the grant, oldest first
	Answer  Answer
}

// own reports whether the text is a token of a client for itself, which has no grant.
func (e *Explanation) own() bool { return e.Genuine && e.Token.Own() }

// An Answer is what would become of a request with the text now. Of a grant, it
// is about its present refresh token.
type Answer struct {
	// Known is false if it cannot be told: the text names nothing, or keys are
	// locked.
	Known bool
	Why   grant.Refusal // Allowed if it would be answered
	// Repeats tells that a spent refresh token would get the same pair again,
	// and Revokes that the request would end the grant.
	Repeats, Revokes bool
	// SharedUntil is until when an earlier refresh token is treated as the present
	// one, for a second holder under the client's reuse grace; zero if it is not.
	SharedUntil grant.Instant
	// Client says why the client could not even ask: its state, or "grant_type".
	Client string
	// WindowEnds is until when the token spent last gets the same pair again, as
	// long as the present one is unused; zero if it never does.
	WindowEnds grant.Instant
	// CatchesUp tells that a refresh token which is ahead of its row would carry
	// the grant on, because of a restore.
	CatchesUp bool
}

// explainedEvents bounds the events of one explanation.
const explainedEvents = 1000

// Token explains a refresh token, an access token of either form, or a
// code. It writes nothing.
func (x *Explainer) Token(ctx context.Context, text string) (Explanation, error) {
	view, err := x.Directory.View()
	if err != nil {
		return Explanation{}, err
	}
	e := Explanation{As: AsUnknown, Now: x.now(), Diagnosis: view.Ring.Diagnose(x.Realm, text), Directory: directoryOf(view, x.Realm)}
	token, err := x.Issuer.Read(view, text)
	e.Genuine = err == nil
	e.MadeIn = x.madeIn(view.Ring, text)
	switch e.Diagnosis.Form {
	case keys.RefreshForm:
		e.As = AsRefresh
	case keys.AccessForm, keys.ServiceForm:
		e.As = AsAccess
	case keys.CodeForm:
		e.As = AsCode
	case keys.DeviceForm:
		e.As = AsDevice
	default:
		x.readJWT(view, text, &e)
	}
	if e.Diagnosis.NamesKey {
		if life, known := view.Ring.Life(e.Diagnosis.KeyID, e.Now, x.Directory.Schedule); known {
			e.Key = &life
		}
	}
	switch {
	case e.Genuine:
		e.Token, e.Named, e.Scope = token, !token.Own(), string(token.Scope)
	case e.As == AsCode && e.Diagnosis.Fault == keys.NoFault:
		code, err := view.Ring.OpenCode(x.Realm, text)
		if err != nil {
			return e, err
		}
		e.Code, e.Named, e.Genuine = &code, true, true
		e.Token.GrantID = code.GrantID
	case e.As == AsDevice && e.Diagnosis.Fault == keys.NoFault:
		if err := readDevice(ctx, x.Issuer, view, text, &e); err != nil {
			return e, err
		}
	case e.Diagnosis.Legible:
		c := e.Diagnosis.Claim
		e.Token = issuer.Token{Key: c.Key, GrantID: c.GrantID, Generation: c.Generation, IssuedAt: c.IssuedAt, ExpiresAt: c.ExpiresAt}
		e.Named = true
	}
	if err := x.lookUp(ctx, view, &e); err != nil {
		return e, err
	}
	return e, x.answer(ctx, view, text, &e)
}

// Grant explains a grant by its id. It needs no key.
func (x *Explainer) Grant(ctx context.Context, id grant.ID) (Explanation, error) {
	view, err := x.Directory.View()
	if err != nil {
		return Explanation{}, err
	}
	e := Explanation{As: AsGrant, Now: x.now(), Named: true, Genuine: true, Token: issuer.Token{GrantID: id}, Directory: directoryOf(view, x.Realm)}
	if err := x.lookUp(ctx, view, &e); err != nil || e.Grant == nil {
		return e, err
	}
	g := *e.Grant
	e.Token = issuer.Token{GrantID: id, Generation: g.Generation, IssuedAt: g.RotatedAt, ExpiresAt: g.ExpiresAt, Key: g.KeyID}
	if life, known := view.Ring.Life(g.KeyID, e.Now, x.Directory.Schedule); known {
		e.Key = &life
	}
	x.answerRefresh(view, &e)
	return e, nil
}

// lookUp reads what the store knows of what e names.
func (x *Explainer) lookUp(ctx context.Context, view *directory.View, e *Explanation) error {
	e.Restore = view.Restore()
	var err error
	clientID, subject, authorized := "", "", grant.Instant(0)
	if e.As == AsDevice {
		clientID = e.Token.ClientID
	}
	if e.own() {
		clientID, subject, authorized = e.Token.ClientID, e.Token.Subject, e.Token.AuthorizedAt
		e.APIs = show.APIs(e.Token.APIs, x.Realm, e.Directory.APIs)
	}
	if e.Code != nil {
		clientID, subject, authorized = e.Code.ClientID, e.Code.Subject, e.Code.AuthorizedAt
		e.APIs = show.APIs(e.Code.APIs[:], x.Realm, e.Directory.APIs)
	}
	if e.Named {
		g, err := x.Store.Grant(ctx, e.Token.GrantID)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		if err == nil {
			e.Grant = &g
			clientID, subject, authorized = g.ClientID, g.Subject, g.AuthorizedAt
			if e.As == AsAccess && e.Genuine {
				e.Token = e.Token.Of(g)
				e.Scope, e.APIs = string(e.Token.Scope), show.APIs(e.Token.APIs, g.Realm, e.Directory.APIs)
			}
		}
		if e.Events, err = x.Store.Events(ctx, e.Token.GrantID.String(), explainedEvents); err != nil {
			return err
		}
	}
	if clientID == "" {
		return nil
	}
	if e.Client, err = x.clientOf(ctx, view, clientID); err != nil {
		return err
	}
	e.Cutoffs = cutoffsOf(view, x.Realm, subject, clientID, authorized, x.MaxSkew)
	if e.Genuine && e.Token.Exchanged() {
		for _, a := range append([]grant.Actor{{Subject: e.Token.ClientID}}, e.Token.Actors...) {
			e.Cutoffs = append(e.Cutoffs, cutoffsOf(view, x.Realm, subject, a.Subject, e.Token.ExchangedAt, x.MaxSkew)...)
			e.Cutoffs = append(e.Cutoffs, cutoffsOf(view, x.Realm, a.Subject, a.Subject, e.Token.ExchangedAt, x.MaxSkew)...)
		}
	}
	if e.Code != nil && e.Client != nil {
		for _, uri := range e.Client.RedirectURIs {
			if grant.HashRedirectURI(uri) == e.Code.RedirectHash {
				e.RedirectURI = uri
			}
		}
	}
	return nil
}

// cutoffsOf lists the cutoffs that name a subject, a client or the pair and are
// later than an instant, the earliest first.
func cutoffsOf(v *directory.View, realm, subject, client string, authorized grant.Instant, skew time.Duration) (list []store.Cutoff) {
	for c := range v.Cutoffs(realm) {
		if (c.Subject == "" || c.Subject == subject) && (c.ClientID == "" || c.ClientID == client) && authorized <= c.At.Add(skew) {
			list = append(list, c)
		}
	}
	slices.SortFunc(list, func(a, b store.Cutoff) int {
		return cmp.Or(cmp.Compare(a.At, b.At), strings.Compare(a.ClientID, b.ClientID), strings.Compare(a.Subject, b.Subject))
	})
	return list
}

// answer decides what would become of an authentic text now, as the endpoints do.
func (x *Explainer) answer(ctx context.Context, view *directory.View, text string, e *Explanation) error {
	if !e.Genuine {
		// The endpoints ask nothing further. A locked key may have made it.
		if e.Diagnosis.Fault != keys.Locked && (e.JWT == nil || !e.JWT.Locked) {
			e.Answer = Answer{Known: true, Why: grant.TokenUnknown}
		}
		return nil
	}
	switch e.As {
	case AsRefresh:
		x.answerRefresh(view, e)
	case AsCode:
		x.answerCode(view, e)
	case AsDevice:
		e.Answer = Answer{Known: true, Client: e.clientTrouble(store.GrantDeviceCode)}
	case AsAccess, AsJWT:
		in, err := x.Issuer.Inspect(ctx, text)
		var refused *grant.Refused
		if err != nil && !errors.As(err, &refused) {
			return err
		}
		e.Answer, e.Audience = Answer{Known: true}, in.Audience
		if refused != nil {
			e.Answer.Why = refused.Why
			if e.JWT != nil && refused.Why == grant.TokenUnknown {
				e.JWT.Fault = JWTOtherMeaning
			}
		}
		e.Answer.Client = e.clientTrouble("")
	}
	return nil
}

func (x *Explainer) answerRefresh(view *directory.View, e *Explanation) {
	a := Answer{Known: true, Client: e.clientTrouble(store.GrantRefreshToken)}
	switch {
	case e.Grant == nil:
		a.Why = e.Restore.Unrecorded(e.Token.IssuedAt, e.Token.ExpiresAt, e.Now)
	case e.Client == nil:
		a.Why = grant.ClientDisabled
	default:
		g := *e.Grant
		d := x.Issuer.Foresee(view, e.Client, e.Token, g, e.Now)
		a.Why, a.Repeats = d.Refusal, d.Repeated
		a.Revokes = d.Next.State == grant.Revoked && g.State != grant.Revoked
		p := x.Issuer.PolicyOf(e.Client)
		if p.RetryWindow > 0 {
			a.WindowEnds = g.RotatedAt.Add(p.RetryWindow + p.MaxSkew)
		}
		if d.Shared {
			a.SharedUntil = e.Token.IssuedAt.Add(p.ReuseGrace + p.MaxSkew)
		}
		a.CatchesUp = d.Refusal == grant.Allowed && d.Next.Generation > g.Generation+1
	}
	e.Answer = a
}

// answerCode decides on all but what only the request can show: whether it has
// the redirect URI and the verifier that the code is for.
func (x *Explainer) answerCode(view *directory.View, e *Explanation) {
	a := Answer{Known: true, Client: e.clientTrouble(store.GrantAuthorizationCode)}
	if e.Client == nil {
		a.Why = grant.ClientDisabled
		e.Answer = a
		return
	}
	r := grant.Redemption{
		Realm: x.Realm, ClientID: e.Client.ID, Allowed: x.Issuer.AllowedScope(view, e.Client),
		Cutoff: view.Cutoff(x.Realm, e.Code.Subject, e.Code.ClientID), Restore: view.Restore(),
		Target: x.Issuer.EveryAPI(view, e.Client, e.Code.APIs),
	}
	proven := *e.Code
	proven.RedirectHash, proven.Challenged = grant.HashRedirectURI(""), false
	a.Why = proven.Redeem(r, x.Issuer.PolicyOf(e.Client), e.Now).Refusal
	if e.Grant != nil {
		d := e.Grant.Replay(r)
		a.Why, a.Revokes = d.Refusal, d.Next.State == grant.Revoked && e.Grant.State != grant.Revoked
	}
	e.Answer = a
}

// clientTrouble says why the client cannot make a request of a grant type.
func (e *Explanation) clientTrouble(grantType string) string {
	switch {
	case e.Client == nil:
		return ""
	case e.Client.State != store.ClientEnabled:
		return string(e.Client.State)
	case grantType != "" && !e.Client.MayUse(grantType):
		return "grant_type"
	}
	return ""
}

// Standing is where a token is in its grant: present, spent (an earlier
// generation) or ahead (one that the row has not heard of); "" if there is no
// row, or nothing that has a place in it.
func (e *Explanation) Standing() string {
	if e.Grant == nil || !e.Named || e.As == AsCode || e.As == AsDevice {
		return ""
	}
	ahead := e.Grant.AccessAhead
	if e.As == AsRefresh {
		ahead = e.Grant.RefreshAhead
	}
	switch {
	case ahead(e.Token.Generation, e.Token.IssuedAt):
		return "ahead"
	case e.Token.Generation < e.Grant.Generation:
		return "spent"
	}
	return "present"
}

// A JWTFault is why a JWT is no access token of this issuer.
type JWTFault string

const (
	JWTNoFault      JWTFault = ""
	JWTUnreadable   JWTFault = "unreadable"    // no JSON in one of its parts
	JWTOtherIssuer  JWTFault = "other_issuer"  // says that somebody else made it
	JWTUnknownKey   JWTFault = "unknown_key"   // by a key that this store does not have
	JWTKeyGone      JWTFault = "key_gone"      // by a key of which nothing is left to check
	JWTKeyWithdrawn JWTFault = "key_withdrawn" // by a key that an operator has declared untrusted
	JWTWrongSeal    JWTFault = "wrong_seal"    // the signature does not fit
	JWTOtherType    JWTFault = "other_type"    // made here for another use
	JWTOtherMeaning JWTFault = "other_meaning" // its grant says otherwise
)

// JWTFacts are what a JWT says of itself. They are proven only if the
// explanation says that it is authentic.
type JWTFacts struct {
	Fault         JWTFault
	Locked        bool // the signature cannot be checked: keys are wrapped
	Algorithm     string
	Type          string
	Issuer        string
	ClientID      string
	Subject       string
	Audience      []string
	ExpectsIssuer string
}

// readJWT reads a text that may be a JWT. e says whether it is an access token.
func (x *Explainer) readJWT(view *directory.View, text string, e *Explanation) {
	parts := strings.Split(text, ".")
	if len(parts) != 3 || len(text) > keys.MaxJWT {
		return
	}
	decode := func(part string, v any) error {
		b, err := base64.RawURLEncoding.DecodeString(part)
		if err != nil {
			return err
		}
		return json.Unmarshal(b, v)
	}
	var header struct {
		Alg, Kid, Typ string
	}
	if decode(parts[0], &header) != nil || header.Alg == "" {
		return
	}
	e.As = AsJWT
	facts := &JWTFacts{Algorithm: header.Alg, Type: header.Typ, ExpectsIssuer: x.Issuer.ID}
	e.JWT = facts
	if id, err := hex.DecodeString(header.Kid); err == nil && len(id) == 4 {
		e.Diagnosis.KeyID = grant.KeyID(uint32(id[0])<<24 | uint32(id[1])<<16 | uint32(id[2])<<8 | uint32(id[3]))
		e.Diagnosis.NamesKey = true
	}
	var c issuer.AccessClaims
	if decode(parts[1], &c) != nil {
		facts.Fault = JWTUnreadable
		return
	}
	facts.Issuer, facts.ClientID, facts.Subject, facts.Audience = c.Issuer, c.ClientID, c.Subject, c.Audience
	e.Scope = string(c.Scope)
	if c.Issuer != x.Issuer.ID {
		c.ID = "" // it names no grant of this issuer
	}
	e.Token, e.Named = c.Token()
	life, known := view.Ring.Life(e.Diagnosis.KeyID, e.Now, x.Directory.Schedule)
	_, _, _, signed := view.Ring.Verify(text)
	switch {
	case e.Genuine:
	case c.Issuer != x.Issuer.ID:
		facts.Fault = JWTOtherIssuer
	case !e.Diagnosis.NamesKey || !known:
		facts.Fault = JWTUnknownKey
	case !view.Ring.Has(e.Diagnosis.KeyID):
		facts.Locked = true
	case signed != nil:
		facts.Fault = JWTWrongSeal
	case life.Phase == keys.Withdrawn:
		facts.Fault = JWTKeyWithdrawn
	case life.Phase == keys.Gone:
		facts.Fault = JWTKeyGone
	default:
		facts.Fault = JWTOtherType
	}
}
