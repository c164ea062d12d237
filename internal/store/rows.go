package store

import (
	"errors"
	"fmt"
	"slices"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/oauth"
)

// This file defines what the methods of a Store receive and return.

var (
	// ErrNotFound means that there is no such row.
	ErrNotFound = errors.New("not found")
	// ErrConflict means that the row is not in the state which the write
	// requires, and that nothing was written.
	ErrConflict = errors.New("conflict")
	// ErrBusy means that certainly nothing was written: the queue is full, the
	// context ended before the operation began, or the database is unreachable.
	ErrBusy = errors.New("store is busy")
	// ErrUnavailable wraps every transient error: the same request may succeed
	// later, and the client must keep its tokens.
	ErrUnavailable = errors.New("temporarily unavailable")
)

// Unavailable wraps an error in ErrUnavailable, once. Nil stays nil.
func Unavailable(err error) error {
	if err == nil || errors.Is(err, ErrUnavailable) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}

// An ExternalFault is an ErrUnavailable whose cause is not the store, such as a client's keys
// that cannot be fetched, or a full pool. An Outage does not count it.
type ExternalFault struct{ Cause error }

func (e *ExternalFault) Error() string   { return ErrUnavailable.Error() + ": " + e.Cause.Error() }
func (e *ExternalFault) Unwrap() []error { return []error{ErrUnavailable, e.Cause} }

// Decide returns the next state of a grant, and the events to record.
type Decide = func(g grant.Grant) (next grant.Grant, events []Event)

// A SweptTable is a table from which Sweep deletes.
type SweptTable string

const (
	SweptGrants    SweptTable = "grants"
	SweptDocuments SweptTable = "documents"
)

// A GrantFilter selects grants. Empty members select all; Limit is at least 1.
type GrantFilter struct {
	Realm, Subject, ClientID string
	After                    grant.ID
	Limit                    int
}

// A Cutoff revokes everything that was authorized at or before an instant, for a
// subject, a client, or one client of one subject. An empty member means any; at
// least one is set.
type Cutoff struct {
	Realm    string
	Subject  string
	ClientID string
	At       grant.Instant
}

// A Revocation revokes the access tokens of a grant that were issued at or before
// Floor.
type Revocation struct {
	Realm   string
	GrantID grant.ID
	Floor   grant.Instant // grant.Never for a revoked grant
	At      grant.Instant // of the latest event
}

// An Event records a change other than a redemption or a rotation. It holds no
// secret, no code and no token.
type Event struct {
	At    grant.Instant
	Name  EventName
	About string // grant id, client id, API id, trust id, or AboutSubject
	// Actor is a client id, or the operator's account.
	Actor  string
	Detail string // one line of evidence for people
}

// AboutSubject returns About for an event of a subject without a client.
func AboutSubject(subject string) string { return "subject:" + subject }

// An EventName is the type of an event.
type EventName string

const (
	EventCodeReplayed    EventName = "code_replayed"
	EventRefreshReplayed EventName = "refresh_replayed"
	EventGrantRevoked    EventName = "grant_revoked"
	EventAccessRevoked   EventName = "access_revoked" // those issued so far
	EventKeyAdded        EventName = "key_added"
	EventKeyWithdrawn    EventName = "key_withdrawn"
	EventKEKRotated      EventName = "kek_rotated"
	EventRestored        EventName = "restored"
	EventCutoff          EventName = "cutoff"
	EventDisconnected    EventName = "disconnected" // the subject has disconnected a client
	// A user has first agreed to a client that registered itself.
	EventClientRecorded  EventName = "client_recorded"
	EventSessionEnded    EventName = "session_ended" // with its grants, by an operator
	EventClientCreated   EventName = "client_created"
	EventClientChanged   EventName = "client_changed"
	EventClientDeleted   EventName = "client_deleted"
	EventAPICreated      EventName = "api_created"
	EventAPIChanged      EventName = "api_changed"
	EventAPIDeleted      EventName = "api_deleted"
	EventTrustCreated    EventName = "trust_created"
	EventTrustChanged    EventName = "trust_changed"
	EventTrustDeleted    EventName = "trust_deleted"
	EventSecretAdded     EventName = "secret_added"
	EventSecretRevoked   EventName = "secret_revoked"
	EventSecretUpgraded  EventName = "secret_upgraded"
	EventUserCreated     EventName = "user_created"
	EventUserChanged     EventName = "user_changed" // the name or the claims
	EventUserDisabled    EventName = "user_disabled"
	EventUserEnabled     EventName = "user_enabled"
	EventPasswordChanged EventName = "password_changed"
	EventTOTPSet         EventName = "totp_set"
	EventTOTPRemoved     EventName = "totp_removed"

	EventAdminTokenCreated EventName = "admin_token_created" // of the admin API
	EventAdminTokenRevoked EventName = "admin_token_revoked"

	EventOperatorAdded         EventName = "operator_added" // of the console
	EventOperatorRemoved       EventName = "operator_removed"
	EventConsoleInvited        EventName = "console_invited"
	EventConsoleInvitationUsed EventName = "console_invitation_used"
	EventConsoleSignIn         EventName = "console_signed_in"
	EventConsoleSessionEnded   EventName = "console_session_ended" // by an operator
)

// ofDeployment lists the events that belong to no realm.
var ofDeployment = []EventName{
	EventKeyAdded, EventKeyWithdrawn, EventKEKRotated, EventRestored,
	EventAdminTokenCreated, EventAdminTokenRevoked,
	EventOperatorAdded, EventOperatorRemoved, EventConsoleInvited, EventConsoleInvitationUsed, EventConsoleSignIn, EventConsoleSessionEnded,
}

// Realm returns the realm that an event is about, or "" if it belongs to none.
func (e Event) Realm() string {
	realm, _ := SplitRealm(e.About)
	if realm == "" && !e.Name.OfDeployment() {
		return oauth.DefaultRealm
	}
	return realm
}

// OfDeployment reports whether events with the name belong to no realm.
func (n EventName) OfDeployment() bool { return slices.Contains(ofDeployment, n) }
