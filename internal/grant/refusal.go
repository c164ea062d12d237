package grant

import (
	"net/netip"

	"github.com/mintage/mintage/internal/oauth"
)

// A Refusal is why a request fails. The list is closed. Most refusals are the same
// response to a client, invalid_grant; the log has the name.
type Refusal uint8

const (
	Allowed          Refusal = iota
	OtherClient              // issued to another client or realm; never changes anything
	RedirectMismatch         // not the redirect URI of the code
	ProofMismatch            // PKCE verifier missing, wrong, or without a challenge
	CodeExpired
	CodeReplayed // redeemed before; the grant is revoked
	GrantRevoked
	CutOff // the subject, the client or the pair was cut off
	GrantExpired
	RefreshReplayed // spent before; the grant is revoked
	StoreBehind     // authentic, but the store has lost its record; no fault of the client
	ScopeTooWide
	TokenUnknown  // not authentic, or without a row
	AccessRevoked // issued before the grant's access tokens were revoked
	ClientDisabled
	// After a restore (see Restore):
	RestoredLost      // the grant was made after the backup
	CodeBeforeRestore // the code may have been redeemed after the backup
	// About the key that made a code or token (see Maker):
	KeyRetired   // it was not in use at the token's instant of issue
	KeyWithdrawn // an operator has withdrawn it
	// About APIs (see Target):
	TargetUnknown // the resource is none of the grant's, or nothing of its scope is left
	TargetGone    // every API of the grant, or one that the access token names, was deleted
	// About keys of clients (see Facts.JKT):
	KeyMismatch // bound to another key than that of the request's proof
	// About exchanges (see Exchange):
	NotExchanged // the client may not exchange tokens of the grant's client
	NotServed    // the token is neither for an API of the client nor its own
	MayNotAct    // another client alone may act by it
	HidesActor   // impersonation would leave out an actor
	ManyActors   // more than MaxActors
	// About assertions (see Assertion):
	AssertionReplayed // another assertion of the issuer had the same jti
	TrustEnded        // the trust was disabled or deleted, or allows no scope of the token any more
	UserBarred        // the subject is a built-in user's, whom the issuer may not name, or who is disabled, or a client's id
	refusals          // their number
)

var refusalNames = [refusals]string{
	"allowed", "other_client", "redirect_mismatch", "proof_mismatch", "code_expired", "code_replayed",
	"grant_revoked", "cut_off", "grant_expired", "refresh_replayed", "store_behind", "scope_too_wide", "token_unknown",
	"access_revoked", "client_disabled", "restored_lost", "code_before_restore",
	"key_retired", "key_withdrawn", "target_unknown", "target_gone",
	"key_mismatch", "not_exchanged", "not_served", "may_not_act", "hides_actor", "many_actors",
	"assertion_replayed", "trust_ended", "user_barred",
}

// String is a stable label for logs and metrics.
func (r Refusal) String() string {
	if r < refusals {
		return refusalNames[r]
	}
	return "unknown"
}

// Foreign reports that a code was refused because it was issued for another
// client or request, or because the proof failed. Such a request must not end the
// grant.
func (r Refusal) Foreign() bool {
	return r == OtherClient || r == RedirectMismatch || r == ProofMismatch || r == KeyMismatch
}

// KeyRejected reports that the key cannot have made the token, or is not trusted. The
// token then proves nothing, not even a replay.
func (r Refusal) KeyRejected() bool { return r == KeyRetired || r == KeyWithdrawn }

// A Reason is why a grant was revoked.
type Reason uint8

const (
	NoReason Reason = iota
	ReasonCodeReplayed
	ReasonRefreshReplayed
	ReasonOperator // an administrator asked for it
	ReasonClient   // the client asked for it (RFC 7009)
	ReasonLogout   // the user signed out, and the client is registered for that
	reasons        // their number
)

var reasonNames = [reasons]string{"", "code_replayed", "refresh_replayed", "operator", "client", "logout"}

// String is a stable label for logs and listings.
func (r Reason) String() string {
	if r < reasons {
		return reasonNames[r]
	}
	return "unknown"
}

var reasonOf = map[Refusal]Reason{CodeReplayed: ReasonCodeReplayed, RefreshReplayed: ReasonRefreshReplayed}

// Refused is the error of a request that the rules do not allow. The response to the
// client contains less than the error.
type Refused struct {
	Why     Refusal
	GrantID ID // zero if unknown
}

func (r *Refused) Error() string { return "refused: " + r.Why.String() }

// An Origin is where a request came from, which events record, and the key that has
// signed its proof, or zero.
type Origin struct {
	Address   netip.Addr
	RequestID string
	JKT       oauth.JKT
}

func (o Origin) String() string { return o.Address.String() + ", request " + o.RequestID }
