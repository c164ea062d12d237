// Package audit keeps the audit trail: one line for each event that matters to
// security, in files that only grow, each line chained to the one before by its
// hash, and with a MAC under a key of the ring. A server and the commands on the
// same data directory append to one chain.
//
// Records are written behind the work that they tell of, and never hold it up:
// a disk that is full stops no login. What could not be written is counted, and
// the trail says itself where something is missing.
package audit

import (
	"net/netip"
	"time"

	"github.com/mintage/mintage/internal/store"
)

// A Name says what happened. Names are part of what operators rely on: they are
// added, and never change their meaning.
type Name string

// Events that are no change of a store's state. Those that are have the names
// of store.EventName.
const (
	CodeIssued       Name = "code_issued"        // for a user who has agreed, or by an operator
	CodeRedeemed     Name = "code_redeemed"      // a client got the first pair of a grant
	TokensRefreshed  Name = "tokens_refreshed"   // a client got the next pair
	RefreshRepeated  Name = "refresh_repeated"   // a client got the same pair again
	TokenRefused     Name = "token_refused"      // a code or token was not good for what was asked
	ClientAuthFailed Name = "client_auth_failed" // no client, or not its secret
	AdminAuthFailed  Name = "admin_auth_failed"  // a request to the admin API without its token
	OldSecretUsed    Name = "old_secret_used"    // a secret that is not its client's newest
	LoginSucceeded   Name = "login_succeeded"
	LoginFailed      Name = "login_failed"
	ConsentGiven     Name = "consent_given"
	ConsentDenied    Name = "consent_denied"
	LoggedOut        Name = "logged_out"
	Throttled        Name = "throttled" // too many failures of one address
	ServerStarted    Name = "server_started"
	ServerStopped    Name = "server_stopped"
	ConfigReloaded   Name = "config_reloaded"
	BackupMade       Name = "backup_made"
)

// Events of the trail itself.
const (
	Gap     Name = "audit_gap"     // something is missing before this line
	Segment Name = "audit_segment" // the first line of each file
	Removed Name = "audit_removed" // files that were older than the retention
)

// Names lists every event that a trail can hold.
func Names() []Name {
	list := []Name{
		CodeIssued, CodeRedeemed, TokensRefreshed, RefreshRepeated, TokenRefused, ClientAuthFailed, AdminAuthFailed, OldSecretUsed,
		LoginSucceeded, LoginFailed, ConsentGiven, ConsentDenied, LoggedOut, Throttled,
		ServerStarted, ServerStopped, ConfigReloaded, BackupMade, Gap, Segment, Removed,
	}
	for _, n := range storeNames {
		list = append(list, Name(n))
	}
	return list
}

// storeNames are those of the events that stores keep as well.
var storeNames = []store.EventName{
	store.EventCodeReplayed, store.EventRefreshReplayed, store.EventGrantRevoked, store.EventAccessRevoked,
	store.EventKeyAdded, store.EventKeyWithdrawn, store.EventKEKRotated, store.EventRestored, store.EventCutoff, store.EventDisconnected,
	store.EventClientCreated, store.EventClientChanged, store.EventClientDeleted,
	store.EventSecretAdded, store.EventSecretRevoked, store.EventSecretUpgraded,
	store.EventUserCreated, store.EventUserDisabled, store.EventUserEnabled,
	store.EventPasswordChanged, store.EventTOTPSet, store.EventTOTPRemoved,
}

// An Outcome says what came of it.
type Outcome string

const (
	Success Outcome = "success"
	Refused Outcome = "refused"
	Failed  Outcome = "failed" // by a fault of ours; nothing happened
	// Unknown means that a write was sent to the store and not answered: it may
	// or may not have happened.
	Unknown Outcome = "unknown"
)

// An Event is what is recorded. It holds no secret, no code and no token. Empty
// members are left out. Texts may come from strangers: they are cut to a
// bounded length, and escaped.
type Event struct {
	Name       Name
	Outcome    Outcome   // empty: Success
	Time       time.Time // zero: when it is handed to Record
	Realm      string
	ClientID   string
	Subject    string
	GrantID    string // in hexadecimal digits
	Generation uint32
	RequestID  string
	RemoteIP   netip.Addr
	Actor      string // who caused it, if it was no client: "operator:root", "subject:alice", "server"
	Detail     string // one line of evidence, for people
}

// An Entry is one line of a trail.
type Entry struct {
	Seq        uint64    `json:"seq"` // counts from 1, without a gap
	Time       time.Time `json:"time"`
	Event      Name      `json:"event"`
	Outcome    Outcome   `json:"outcome"`
	Realm      string    `json:"realm,omitempty"`
	ClientID   string    `json:"client_id,omitempty"`
	Subject    string    `json:"subject,omitempty"`
	GrantID    string    `json:"grant_id,omitempty"`
	Generation uint32    `json:"generation,omitempty"`
	RequestID  string    `json:"request_id,omitempty"`
	RemoteIP   string    `json:"remote_ip,omitempty"`
	Actor      string    `json:"actor,omitempty"`
	Detail     string    `json:"detail,omitempty"`
	Node       string    `json:"node,omitempty"` // machine that wrote it
	// Prev is the SHA-256 of the line before, without its line feed, in
	// hexadecimal digits; empty in the first line of a trail.
	Prev string `json:"prev,omitempty"`
	// MAC is that of the line up to this member, under a key of the ring. Lines
	// of earlier versions have none, nor have those of commands that were run
	// without the key-encryption key.
	MAC string `json:"mac,omitempty"`
}
