package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mintage/mintage/internal/adminapi"
	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/show"
	"github.com/mintage/mintage/internal/store"
)

// words hold the reason of a refusal, and what to do about it.
type words struct{ why, next string }

// refusalWords has an entry for every refusal. Those that depend on the grant are
// completed by read.
var refusalWords = map[grant.Refusal]words{
	grant.Allowed:          {"nothing is wrong with it", "nothing; if the client was refused, explain the request id of its answer"},
	grant.OtherClient:      {"it was issued to another client", "find out how this client came by another's token"},
	grant.RedirectMismatch: {"the redirect_uri of the request is not the one of the code", "have the client send the redirect_uri that it began with, character by character"},
	grant.ProofMismatch:    {"the code_verifier is missing, wrong, or sent without a challenge", "have the client send the verifier of the challenge that it began with (RFC 7636), and none if it sent no challenge"},
	grant.CodeExpired:      {"the code has expired", "send the user through the authorization endpoint again; if it happens often, look for what delays the client, or set code_lifetime"},
	grant.CodeReplayed: {"the code was redeemed before: a code works once (RFC 6749 section 4.1.2)",
		"have the client redeem each code once, and never send the user's browser to the callback twice; the user logs in again"},
	grant.GrantRevoked:    {"the grant was revoked", "send the user through the authorization endpoint again, if the revocation was meant to leave that open"},
	grant.CutOff:          {"everything authorized until the cutoff was ended: the subject, the client, or the pair", "the user may authorize anew, which makes a new grant"},
	grant.GrantExpired:    {"it has expired", "send the user through the authorization endpoint again; a client that refreshes in time never gets here"},
	grant.RefreshReplayed: {"it is a spent refresh token: thief and client look alike, so the grant ends for both (RFC 9700 section 4.14.2)", "look below at who presented what from where; the user logs in again"},
	grant.KeyRetired: {"it names an instant at which its key was not in use: it was made with a copy of that key",
		"treat the key as stolen: mintage keys withdraw, and find out who had the store and the key-encryption key"},
	grant.KeyWithdrawn: {"an operator has withdrawn the key that made it",
		"log in again: what the key made is refused for good"},
	grant.StoreBehind: {"it is authentic, and the store has no record of what issued it: the store has lost commits",
		"was an older backup or a replica put in place? If so, declare it: mintage restore --declare. Until then clients get 503 and retry, and lose nothing"},
	grant.ScopeTooWide: {"the request asks for a scope beyond those of the grant for which the client is still registered, or beyond what the trust of an assertion or the --exchange-api of an exchange allows; or none of them is left",
		"have the client ask for less, or leave scope out; a scope that it has lost: mintage client update ID --add-scope; one that the user has not agreed to: have the user authorize anew; of an assertion: mintage trust show ID; of an exchange: mintage client update ID --add-exchange-api"},
	grant.TokenUnknown: {"it was not issued here, was altered on its way, or is of another kind than the parameter is for",
		"compare what the client sends with what it received: whole, unchanged, from this server and this realm, and no access token or code as the refresh_token"},
	grant.AccessRevoked:  {"the access tokens that the grant had given until then were revoked", "have the client refresh: the refresh token lives on"},
	grant.ClientDisabled: {"its client is disabled, deleted or not registered for this", "if that was not meant: mintage client enable"},
	grant.RestoredLost: {"the store was restored from a backup, and the grant was made after that backup",
		"the user logs in again: nothing of that grant is left"},
	grant.TargetUnknown: {"the resource of the request is none of the APIs that the user, the trust of an assertion or the --exchange-api of an exchange allows, or nothing of the scope belongs to it",
		"have the client name, as resource, one of the APIs that it named at the authorization endpoint (see: mintage client show, mintage api list); of an assertion, one of those that its trust, its client and itself allow: mintage trust show ID; of an exchange, which without resource is for the API of its subject_token: mintage client update ID --add-exchange-api"},
	grant.KeyMismatch: {"the proof was made by another key than the one that the code or token is bound to (RFC 9449), or there was none; or the token is bound to no key, and its client is registered with --dpop required",
		"send proofs by the key with which the login began; if the key is lost, the user logs in again"},
	grant.TargetGone: {"an API that it names is no longer registered, or allowed to the client",
		"register the API (mintage api create) or allow it (mintage client update ID --add-api), and have the user authorize anew"},
	grant.NotExchanged: {"the client that exchanges is not registered for tokens of the client that the user has signed in at",
		"if it is to exchange them: mintage client update ID --add-exchange-from CLIENT, where CLIENT is that of the grant, however often its tokens were exchanged"},
	grant.NotServed: {"the token to exchange is neither for an API that the client serves nor the client's own: it may have been found somewhere",
		"if the client serves the API: mintage client update ID --add-serves-api API; otherwise let it exchange the token that its own requests bring"},
	grant.MayNotAct: {"another client alone may act by tokens of the client that holds it (may_act)",
		"let that client exchange it, or change the registration of the holder: mintage client update ID --may-act CLIENT"},
	grant.HidesActor: {"the token names an actor, and a client that impersonates would leave it out",
		"send an actor_token, or register the client to delegate: mintage client update ID --exchange-mode delegate"},
	grant.ManyActors: {fmt.Sprintf("the chain of actors would be longer than %d", grant.MaxActors),
		"pass the token on as it is where nobody has to know of another hop, or exchange the user's first token"},
	grant.AssertionReplayed: {"another assertion of its issuer had the same jti: each has one of its own (RFC 7519 section 4.1.7)",
		"have the issuer make a new jti for each assertion; if it does, somebody has made one of the two with its key"},
	grant.TrustEnded: {"the trust by which it was issued was disabled or deleted, also if it is there again, or allows nothing of it any more",
		"if that was not meant: mintage trust show; then have the client present a new assertion"},
	grant.UserBarred: {"its subject is that of a built-in user, whom the issuer may not name, or who is disabled, or the id of a client",
		"if the issuer is to name the users of this server: mintage trust update ID --subject-from aud_sub; see also mintage user show"},
	grant.CodeBeforeRestore: {"the store was restored from a backup after the code was issued, and it is unknown whether it was redeemed", "the user logs in again, which makes a new code"},
}

// read describes the outcome of a request with the text now.
func (v *Explained) read() adminapi.Reading {
	e := v.Explanation
	a := e.Answer
	switch {
	case !a.Known && v.by.Locked != nil:
		return adminapi.Reading{Verdict: "unknown", Why: "it cannot be checked: " + firstLine(v.by.Locked), Next: "run this where the server's key-encryption key can be read, or name its file with --kek-file"}
	case e.As == AsGrant && e.Grant == nil && v.service:
		return adminapi.Reading{Verdict: "unknown", Why: "it is no grant: it is the id of a token that a client got for itself, of which nothing is stored", Next: "explain the token itself; see the history below"}
	case e.As == AsGrant && e.Grant == nil && e.MadeIn != "":
		return adminapi.Reading{Verdict: "unknown", Why: fmt.Sprintf("the realm %s has the grant, and this is %s", e.MadeIn, v.by.Realm), Next: "name its realm: mintage explain --realm " + e.MadeIn[1:]}
	case e.As == AsGrant && e.Grant == nil:
		return adminapi.Reading{Verdict: "unknown", Why: "there is no grant of this id in the store", Next: "it never began (its code was not redeemed), or its last token has expired and its row was removed; is this the right store? " + v.by.Config.StoreName()}
	case !a.Known:
		return adminapi.Reading{Verdict: "unknown", Why: "the outcome cannot be predicted", Next: "see below"}
	}
	w := refusalWords[a.Why]
	r := adminapi.Reading{Verdict: "answered", Why: w.why, Next: w.next}
	if a.Client != "" {
		return v.readClient()
	}
	if e.As == AsDevice && e.Authentic {
		return v.readDevice()
	}
	if a.Why == grant.Allowed {
		v.readAllowed(&r)
		return r
	}
	r.Verdict, r.Refusal, r.Response = "refused", a.Why.String(), v.response(a.Why)
	if a.Why == grant.StoreBehind {
		r.Verdict = "retry"
	}
	v.detail(&r)
	if e.Token.Exchanged() && a.Why == grant.AccessRevoked {
		r.Why, r.Next = "its client has revoked it, or the access tokens that its grant had given until then were revoked", "nothing: the client exchanges the user's present token again"
	}
	if e.isService() {
		if r.Next = "nothing: the client requests another one (client_credentials)"; e.Trust != "" {
			r.Next = "nothing: the client presents a new assertion; if the trust has ended: mintage trust show " + e.Trust
		}
		switch a.Why {
		case grant.AccessRevoked:
			r.Why = "its client has revoked it, or a scope or an API of it is gone"
		case grant.RestoredLost:
			r.Why = "the store was restored from a backup after the token was issued, and it is unknown whether it was revoked"
		}
	}
	if e.asserted() && (a.Why == grant.GrantExpired || a.Why == grant.AccessRevoked) {
		r.Next = "nothing: the client presents a new assertion"
	}
	if a.Revokes {
		r.Why += "; presenting it now would end the whole grant"
	}
	return r
}

// readClient explains a client that is not allowed to make the request.
func (v *Explained) readClient() adminapi.Reading {
	id, e := v.Explanation.Client.ID, v.Explanation
	r := adminapi.Reading{Verdict: "refused", Refusal: grant.ClientDisabled.String()}
	switch e.Answer.Client {
	case string(store.ClientDisabled):
		r.Why, r.Next = "client "+id+" is disabled since "+show.Instant(e.Client.UpdatedAt), "if that was not meant: mintage client enable "+id
		r.Response = "invalid_client (401 after an Authorization header, 400 otherwise)"
	case string(store.ClientDeleted):
		r.Why, r.Next = "client "+id+" was deleted on "+show.Instant(e.Client.UpdatedAt), "register a new one: ids never come back"
		r.Response = "invalid_client (401 after an Authorization header, 400 otherwise)"
	default:
		kind := store.GrantRefreshToken
		if e.As == AsCode {
			kind = store.GrantAuthorizationCode
		}
		if e.As == AsDevice {
			kind = store.GrantDeviceCode
		}
		r.Why, r.Next = "client "+id+" is not registered for the "+kind+" grant", "grant types never change: register another client, with --grant-types authorization_code,refresh_token"
		r.Response = "400 " + string(oauth.UnauthorizedClient)
	}
	if e.As == AsAccess || e.As == AsJWT {
		r.Response = accessResponse
	}
	if w := e.Answer.Why; w != grant.Allowed && w != grant.ClientDisabled {
		r.Why += "; besides, " + refusalWords[w].why + " (" + w.String() + ")"
	}
	return r
}

func (v *Explained) readAllowed(r *adminapi.Reading) {
	e := v.Explanation
	a := e.Answer
	switch {
	case a.SharedUntil != 0:
		r.Why = "it is spent, and the grant has 2 holders or more: under the client's reuse grace, it is treated as the present one until " + show.Instant(a.SharedUntil)
		if a.Repeats {
			r.Why += "; the same pair again, whose access token is not spent"
		}
	case a.Repeats:
		r.Why = "it is spent, its successor is unused, and the retry window is open until " + show.Instant(a.WindowEnds) + ": the same pair again, as for a client that lost the answer"
	case a.CatchesUp:
		r.Why = "it is ahead of its row, which the restore of " + show.Instant(e.Restore.At) + " explains: a refresh would bring the row up to date"
	case e.As == AsCode:
		r.Why = "it was not redeemed and is in force until " + show.Instant(e.Code.ExpiresAt)
		r.Next = "the request must come from client " + e.Code.ClientID + " with redirect_uri " + show.OrDash(e.RedirectURI)
		if e.Code.Challenged {
			r.Next += " and the code_verifier of its challenge"
		} else {
			r.Next += " and no code_verifier"
		}
	case e.As == AsGrant && e.asserted():
		r.Why, r.Next = "the grant is alive: an assertion made it, and its access tokens are valid until they expire", "the client presents an assertion for each further access token: there is no refresh token"
	case e.As == AsGrant:
		if r.Why = "the grant is alive: its present refresh token would be answered"; v.request != nil {
			r.Next = "nothing" // what to do about the request is said above
		}
	case e.As == AsAccess || e.As == AsJWT:
		r.Next += "; a resource server that gets active: false is not registered to ask about it: mintage client update ID --introspect --add-introspect-audience AUDIENCE"
	}
	if key := e.bound(); key.Bound() {
		r.Next += "; each request with it needs a proof (DPoP, RFC 9449) by the key " + key.String()
	} else if (e.As == AsCode || e.As == AsRefresh) && e.Client.DPoP == store.DPoPRequired {
		r.Next += "; the request needs a proof (DPoP, RFC 9449), which the client's registration demands"
	}
	if len(v.by.Realms) > 1 {
		r.Why += "; at the endpoints of the realm " + v.by.Realm + " alone"
	}
}

// detail adds what is known about the cause of a refusal.
func (v *Explained) detail(r *adminapi.Reading) {
	e := v.Explanation
	switch e.Answer.Why {
	case grant.TokenUnknown:
		r.Why, r.Next = v.notAuthentic(r.Next)
	case grant.GrantRevoked, grant.CodeReplayed, grant.RefreshReplayed:
		if g := e.Grant; g != nil && g.State == grant.Revoked {
			r.Why = "the grant was revoked: " + cmp.Or(reasonWords[g.Reason], g.Reason.String())
			if end := v.ending(); end != nil {
				r.Why += fmt.Sprintf(", on %s by %s (%s)", show.Instant(end.At), show.OrDash(end.Actor), show.OrDash(end.Detail))
			}
			if g.Reason == grant.ReasonRefreshReplayed {
				r.Next = replayAdvice
			}
		} else if e.Answer.Why == grant.RefreshReplayed {
			r.Why = v.staleness() + "; " + r.Why
		}
	case grant.CutOff:
		for _, c := range e.Cutoffs {
			r.Why = "a cutoff of " + show.Whom(c.Subject, c.ClientID, " and ") + " until " + show.Instant(c.At) + " covers it"
		}
	case grant.GrantExpired:
		at := e.Token.ExpiresAt
		if g := e.Grant; g != nil && e.As == AsRefresh {
			at = g.ExpiresAt
		}
		if g, life := e.Grant, v.by.Config.GrantLifetime.Std(); g != nil && (e.As == AsRefresh || e.As == AsGrant) && life != 0 && at > e.Now {
			r.Why, at = "grant_lifetime has ended its grant", g.AuthorizedAt.Add(life) // the setting was lowered since
		}
		r.Why += " on " + show.Instant(at) + ", " + show.Ago(e.Now, at)
		if e.As == AsAccess || e.As == AsJWT {
			life := e.Token.ExpiresAt.Since(e.Token.IssuedAt).Truncate(time.Second)
			r.Next = "nothing is wrong: it was to live for " + config.Duration(life).String() + "; the client refreshes"
		}
	case grant.KeyMismatch: // a bound text is judged as if its key were proven
		r.Why, r.Next = "it is bound to no key, and the client's registration demands one (--dpop required)", "the user logs in again, with proofs; or register the client with --dpop allowed: mintage client update ID"
	case grant.ScopeTooWide: // no request has asked for a scope
		r.Why, r.Next = "the client is no longer registered for any scope of the grant", "register the scope again (mintage client update ID --add-scope), or have the user authorize anew"
	case grant.AccessRevoked:
		if e.Grant == nil {
			break // a service token
		}
		if e.Grant.AccessFloor != 0 {
			r.Why += fmt.Sprintf(" (all that were issued until %s)", show.Instant(e.Grant.AccessFloor))
		}
	case grant.ClientDisabled:
		if e.Client == nil {
			r.Why = "its client is not in this store"
		}
	}
}

// ending returns the event that ended the grant, or nil if it is not recorded.
func (v *Explained) ending() *store.Event {
	for i, e := range slices.Backward(v.Events) {
		switch e.Name {
		case store.EventGrantRevoked, store.EventRefreshReplayed, store.EventCodeReplayed:
			return &v.Events[i]
		}
	}
	return nil
}

// replayAdvice is the advice after a replay has ended the grant.
const replayAdvice = "see the events below for the address and the request: is it one client that keeps an old token (several workers, a restored disk, a cache), or somebody else? The user logs in again"

// staleness returns why a spent refresh token is no safe retry.
func (v *Explained) staleness() string {
	e := v.Explanation
	g := e.Grant
	switch behind := g.Generation - e.Token.Generation; {
	case e.Token.Generation >= g.Generation:
		return "the restored grant has another refresh token"
	case behind > 1:
		return fmt.Sprintf("it is generation %d and the grant is at %d: its successor has been used", e.Token.Generation, g.Generation)
	case e.Answer.WindowEnds == 0:
		return "its successor exists, and this client has no retry window"
	}
	return "its successor exists, and the retry window ended " + show.Ago(e.Now, e.Answer.WindowEnds)
}

const accessResponse = `{"active": false} at introspection, 401 invalid_token at tokeninfo and verify`

// unavailable is the status 503 Service Unavailable: the client may try again.
const unavailable = 503

// response returns the answer that a client receives for a refusal.
func (v *Explained) response(why grant.Refusal) string {
	e := v.Explanation
	grantType := store.GrantRefreshToken
	switch e.As {
	case AsAccess, AsJWT, AsUnknown:
		if why != grant.StoreBehind {
			if e.As == AsUnknown {
				return "400 invalid_grant as a code or refresh token, " + accessResponse
			}
			return accessResponse
		}
	case AsCode:
		grantType = store.GrantAuthorizationCode
	}
	status, code := v.by.ResponseTo(grantType, why)
	text := fmt.Sprintf("%d %s", status, code)
	if status == unavailable {
		text += " with Retry-After: keep the token and try again"
	}
	return text
}

// notAuthentic returns why a text is no authentic token of this server.
func (v *Explained) notAuthentic(next string) (why, advice string) {
	e := v.Explanation
	if e.JWT != nil {
		return jwtWords(e.JWT, e.Diagnosis, next)
	}
	d := e.Diagnosis
	switch d.Fault {
	case keys.Unlike:
		return fmt.Sprintf("it has no form of a token of this server: those begin with %s, %s, %s, %s or %s, or are JWTs", keys.RefreshPrefix, keys.AccessPrefix, keys.ServicePrefix, keys.CodePrefix, keys.DevicePrefix),
			"is it another server's, an id token, or a client secret? An id of a grant has 32 hexadecimal digits, that of a request 16; a client's id, such as mintage_ci_...: mintage client show ID; the sid of an id_token: mintage explain --subject SUBJECT SID"
	case keys.WrongCharacters:
		return fmt.Sprintf("its character %d is %q, which no token has", d.Place, d.Character), "look for what has encoded or quoted it on its way: each token is one word of A-Z a-z 0-9 - _"
	case keys.WrongLength:
		if d.Length < d.Least {
			return fmt.Sprintf("it was cut short: %d characters, and there should be %s", d.Length, lengths(d)), "look for a column, a log or a form field that is too short for it"
		}
		return fmt.Sprintf("something was added to it: %d characters, and there should be %s", d.Length, lengths(d)), next
	case keys.WrongVersion:
		return "it is of a form that this version does not support, or altered at its beginning", "was it made by a later version? Run that one"
	case keys.UnknownKey:
		return fmt.Sprintf("it names key %s, which this store has never had: another deployment's, or of after the backup that this store was restored from, or altered", d.KeyID),
			"is this the store that issued it? See: mintage keys list"
	case keys.WrongPurpose:
		return fmt.Sprintf("it names key %s, which has another purpose: it was altered, or made up", d.KeyID), next
	case keys.WrongSeal:
		if e.MadeIn != "" {
			return fmt.Sprintf("the realm %s has made it, and this is %s", e.MadeIn, v.by.Realm), "find the client that takes it to the endpoints of this realm; for the rest: mintage explain --realm " + e.MadeIn[1:]
		}
		return fmt.Sprintf("it names key %s of this store, and that key has not made it: at least one character was altered, or it was made up", d.KeyID), next
	}
	return refusalWords[grant.TokenUnknown].why, next
}

func lengths(d keys.Diagnosis) string {
	if d.Least == d.Most {
		return fmt.Sprint(d.Least)
	}
	return fmt.Sprintf("%d to %d", d.Least, d.Most)
}

func jwtWords(j *JWTFacts, d keys.Diagnosis, otherwise string) (why, next string) {
	again := "the client gets another token: by its refresh token, or as it got this one"
	w, known := map[JWTFault]words{
		JWTUnreadable: {"its middle part is no JSON: it was cut or altered", otherwise},
		JWTOtherIssuer: {fmt.Sprintf("it says that %q made it, and this is %q", show.Bounded(j.Issuer), j.ExpectsIssuer),
			"find out why it came here; an assertion of an issuer that is trusted: mintage trust test"},
		JWTUnknownKey:   {"it names no key that this store has: another deployment's of the same issuer, of after the backup that this store was restored from, or made up", "is this the store that issued it? See: mintage keys list"},
		JWTKeyGone:      {fmt.Sprintf("key %s, which signed it, was retired so long ago that all it signed has expired", d.KeyID), again},
		JWTKeyWithdrawn: {fmt.Sprintf("an operator has withdrawn key %s, which signed it", d.KeyID), again},
		JWTWrongSeal:    {fmt.Sprintf("the signature is not by key %s: it was altered, or made up", d.KeyID), otherwise},
		JWTOtherType:    {fmt.Sprintf("it was made here for another use: its type is %q", show.Bounded(j.Type)), "have the client send an access token: an id_token tells the client itself who has signed in"},
		JWTOtherMeaning: {"the signature verifies, but the claims contradict the grant: this server has not made it with these claims", refusalWords[grant.KeyRetired].next},
	}[j.Fault]
	if !known {
		return refusalWords[grant.TokenUnknown].why, otherwise
	}
	return w.why, w.next
}

// reasonWords describe why a grant was revoked.
var reasonWords = map[grant.Reason]string{
	grant.ReasonCodeReplayed:    "its code was presented a second time",
	grant.ReasonRefreshReplayed: "a spent refresh token was presented",
	grant.ReasonOperator:        "an administrator asked for it",
	grant.ReasonClient:          "the client asked for it (RFC 7009)",
	grant.ReasonLogout:          "the user signed out, which ends the grants of this client (--logout-ends-grants)",
}

func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}
