package explain

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mintage/mintage/internal/adminapi"
	"github.com/mintage/mintage/internal/directory"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/show"
	"github.com/mintage/mintage/internal/store"
)

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
	e.Authentic = err == nil
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
	case e.Authentic:
		e.Token, e.Named, e.Scope = token, !token.IsService(), string(token.Scope)
	case e.As == AsCode && e.Diagnosis.Fault == keys.NoFault:
		code, err := view.Ring.OpenCode(x.Realm, text)
		if err != nil {
			return e, err
		}
		e.Code, e.Named, e.Authentic = &code, true, true
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
	if err = x.lookUp(ctx, view, &e); err == nil {
		err = x.answer(ctx, view, text, &e)
	}
	return e, err
}

// Grant explains a grant by its id. It needs no key.
func (x *Explainer) Grant(ctx context.Context, id grant.ID) (Explanation, error) {
	view, err := x.Directory.View()
	if err != nil {
		return Explanation{}, err
	}
	e := Explanation{As: AsGrant, Now: x.now(), Named: true, Authentic: true, Token: issuer.Token{GrantID: id}, Directory: directoryOf(view, x.Realm)}
	if err := x.lookUp(ctx, view, &e); err != nil {
		return e, err
	}
	if e.Grant == nil {
		e.MadeIn, err = x.heldIn(ctx, id)
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

// heldIn returns the other realm that has a grant, or "". It looks only for somebody who may
// read the records of all realms.
func (x *Explainer) heldIn(ctx context.Context, id grant.ID) (string, error) {
	own, one := x.Store.(*store.RealmStore)
	if !one || x.Audited != nil {
		return "", nil
	}
	g, err := own.Store.Grant(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		return "", nil
	}
	return g.Realm, err
}

// lookUp reads the grant, the events, the client and the cutoffs of e from the store.
func (x *Explainer) lookUp(ctx context.Context, view *directory.View, e *Explanation) error {
	e.Restore = view.Restore()
	var err error
	clientID, subject, authorized := "", "", grant.Instant(0)
	if e.As == AsDevice {
		clientID = e.Token.ClientID
	}
	if e.isService() {
		clientID, subject, authorized = e.Token.ClientID, e.Token.Subject, e.Token.AuthorizedAt
		e.APIs = show.APIs(e.Token.APIs, x.Realm, e.Directory.APIs)
		if t := view.TrustOfToken(x.Realm, e.Token.GrantID); t != nil {
			e.Trust = t.ID
		}
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
			if e.As == AsAccess && e.Authentic {
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
	if e.Authentic && e.Token.Exchanged() {
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

// clientOf returns a client in any state, or nil, as the endpoints find it: with the
// scopes of its APIs, and also if it registered itself.
func (x *Explainer) clientOf(ctx context.Context, view *directory.View, id string) (*store.Client, error) {
	if c, ok := view.Registered(x.Realm, id); ok {
		known := *c
		known.Secrets = nil // not even their digests are of use here
		return &known, nil
	}
	c, err := x.Directory.Record(ctx, x.Realm, id)
	if c != nil && err == nil {
		view.Offer(c)
		c.Secrets = nil
	}
	return c, err
}

// directoryOf returns the APIs and the cutoffs of a realm, and the latest restore.
func directoryOf(v *directory.View, realm string) store.Changes {
	ch := store.Changes{Cutoffs: slices.Collect(v.Cutoffs(realm)), Restores: []grant.Restore{v.Restore()}}
	for _, a := range v.APIs(realm) {
		ch.APIs = append(ch.APIs, *a)
	}
	return ch
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

// answer sets the outcome of a request with the text now, by the rules of the endpoints.
func (x *Explainer) answer(ctx context.Context, view *directory.View, text string, e *Explanation) error {
	if !e.Authentic {
		// The endpoints reject the text as unknown. The outcome is open if a key that is
		// locked here may have made it.
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
	grantType := store.GrantRefreshToken
	if e.asserted() {
		grantType = oauth.GrantJWTBearer
	}
	a := Answer{Known: true, Client: e.clientTrouble(grantType)}
	switch {
	case e.Grant == nil:
		a.Why = e.Restore.Unrecorded(e.Token.IssuedAt, e.Token.ExpiresAt, e.Now)
	case e.Client == nil:
		a.Why = grant.ClientDisabled
	default:
		g := *e.Grant
		d := x.Issuer.Foresee(view, e.Client, e.Token, g, e.Now)
		a.Why, a.Repeats = d.Refusal, d.Repeated
		if a.Why == grant.Allowed && e.asserted() && !view.TrustRow(x.Realm, g.Trust).Permits(g.RotatedAt) {
			a.Why = grant.TrustEnded
		}
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

// asserted reports whether the grant was made by an assertion of another issuer. Such a
// grant has neither code nor refresh token.
func (e *Explanation) asserted() bool { return e.Grant != nil && e.Grant.Trust != "" }

// answerCode sets the outcome of a request with a code, as if the request had the
// redirect URI, the verifier and the key of the code.
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
		Target: x.Issuer.EveryAPI(view, e.Client, e.Code.APIs), JKT: e.Code.JKT,
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

// clientTrouble returns why the client cannot make a request of a grant type, or "".
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

// Standing returns the position of a token in its grant: present, spent (an earlier
// generation) or ahead (a later generation than the row has); "" if there is no row, or
// the text is a code.
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

// refusedBy returns the APIs that refuse a valid access token because they are not in its
// audience.
func (e *Explanation) refusedBy() (list []string) {
	for _, a := range e.Directory.APIs {
		if len(e.Audience) > 0 && !a.Deleted && !slices.Contains(e.Audience, a.ID) {
			list = append(list, a.ID)
		}
	}
	slices.Sort(list)
	return list
}

// readJWT reads a text that may be a JWT into e, whose Authentic is set already.
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
	case e.Authentic:
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

// readDevice reads an authentic device code, and its stored request.
func readDevice(ctx context.Context, iss *issuer.Issuer, view *directory.View, text string, e *Explanation) error {
	code, d, err := issuer.DeviceCodes{Issuer: iss}.DeviceOf(ctx, view, text)
	if err != nil {
		return err
	}
	e.Authentic, e.Named, e.Device = true, true, d
	e.Token = issuer.Token{GrantID: code.GrantID, ClientID: code.ClientID, IssuedAt: code.IssuedAt, ExpiresAt: code.ExpiresAt}
	return nil
}

// readDevice explains the response that a poll with the device code would receive now.
func (v *Explained) readDevice() adminapi.Reading {
	e, d := v.Explanation, v.Explanation.Device
	refused := func(answer *oauth.Error, why, next string) adminapi.Reading {
		return adminapi.Reading{Verdict: "refused", Refusal: string(answer.Code), Response: "400 " + string(answer.Code), Why: why, Next: next}
	}
	again := "the user starts again at the device"
	switch {
	case e.Grant != nil && e.Grant.State == grant.Revoked:
		return refused(oauth.ErrGrant, "it was redeemed, and the grant was revoked: "+e.Grant.Reason.String(), again)
	case e.Grant != nil:
		return adminapi.Reading{Verdict: "answered", Why: "it was redeemed on " + show.Instant(e.Grant.AuthorizedAt) + ": the same request gets the same pair as long as the retry window is open and the pair unused, and ends the grant later",
			Next: "the device refreshes"}
	case d == nil:
		return refused(oauth.ErrExpiredDevice, "the store no longer has its request; the expiry of the code is "+show.Instant(e.Token.ExpiresAt), again)
	case d.Denied:
		return refused(oauth.ErrDenied, "the user has denied it", "nothing, if the user meant that; otherwise "+again)
	case d.Code == "" && e.Now >= d.ExpiresAt:
		return refused(oauth.ErrExpiredDevice, "no user had answered by "+show.Instant(d.ExpiresAt), again+", and enters the code within ten minutes")
	case d.Code == "":
		return adminapi.Reading{Verdict: "answered", Response: "400 " + string(oauth.AuthorizationPending), Why: fmt.Sprintf("no user has answered yet; it was requested on %s from %s, and expires on %s", show.Instant(d.RequestedAt), d.From, show.Instant(d.ExpiresAt)),
			Next: "the user enters the user code at " + v.by.Config.PublicURL + v.by.Config.BasePath + "/device"}
	}
	return adminapi.Reading{Verdict: "answered", Why: "a user has allowed it, and the device has not polled since", Next: "the device polls: is it running, and does it send the code_verifier if it sent a code_challenge?"}
}
