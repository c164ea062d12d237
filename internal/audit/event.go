// Package audit writes the audit log: one line for each security event, in
// append-only files. Each line contains the hash of the line before, and a MAC
// under a key of the ring. A server and the commands on its data directory append
// to one chain.
//
// Records are written after the work that they describe, and never delay it: a
// full disk stops no login. Records that could not be written are counted, and a
// gap line in the log says how many are missing.
package audit

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/netip"
	"strconv"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/store"
)

// A Name is the type of an event. Operators rely on names: new ones are added, and
// none changes its meaning.
type Name string

// Events that do not change a store's state. The names of those that do are of type
// store.EventName.
const (
	CodeIssued       Name = "code_issued"        // for a user who has consented, or by an operator
	CodeRedeemed     Name = "code_redeemed"      // a client got the first pair of a grant
	TokensRefreshed  Name = "tokens_refreshed"   // a client got the next pair
	RefreshRepeated  Name = "refresh_repeated"   // a client got the same pair again
	RefreshShared    Name = "refresh_shared"     // a second holder of the token got a pair, under reuse_grace
	TokenRefused     Name = "token_refused"      // a code or token was invalid for the request
	ClientAuthFailed Name = "client_auth_failed" // unknown client, or a wrong secret
	AdminAuthFailed  Name = "admin_auth_failed"  // a request to the admin API without a valid token
	AdminForbidden   Name = "admin_forbidden"    // a request to the admin API by an actor without the role for it
	OldSecretUsed    Name = "old_secret_used"    // a secret that is not its client's newest
	LoginSucceeded   Name = "login_succeeded"
	LoginFailed      Name = "login_failed"
	ConsentGiven     Name = "consent_given"
	ConsentDenied    Name = "consent_denied"
	UserCodeRefused  Name = "user_code_refused" // a user has entered an unknown user code, or too many
	LoggedOut        Name = "logged_out"
	LogoutSent       Name = "logout_sent" // a client was notified of a logout, has refused it, or was unreachable
	Throttled        Name = "throttled"   // too many failures of one address
	ServerStarted    Name = "server_started"
	ServerStopped    Name = "server_stopped"
	ConfigReloaded   Name = "config_reloaded"
	BackupMade       Name = "backup_made"
)

// Events of access tokens that clients get for themselves; grant_id is the token's own id.
const (
	ServiceTokenIssued  Name = "service_token_issued"
	ServiceTokenRevoked Name = "service_token_revoked" // by its client; also for exchanged tokens
)

// Events of token exchange (RFC 8693) for the tokens of users; grant_id is the
// grant's.
const (
	TokenExchanged   Name = "token_exchanged"   // the new token names the client as the actor
	UserImpersonated Name = "user_impersonated" // it names no actor
)

// IDJAGIssued is the event of an identity assertion for another authorization server;
// grant_id is its jti.
const IDJAGIssued Name = "id_jag_issued"

// AssertionAccepted records that tokens were issued for an assertion of another issuer;
// grant_id is the grant's or, for a workload, the token's own id.
const AssertionAccepted Name = "assertion_accepted"

// Events of the audit log itself.
const (
	Gap     Name = "audit_gap"     // something is missing before this line
	Segment Name = "audit_segment" // the first line of each file
	Removed Name = "audit_removed" // files that were older than the retention
)

// Names lists every event that an audit log can contain.
func Names() []Name {
	list := []Name{
		CodeIssued, CodeRedeemed, TokensRefreshed, RefreshRepeated, RefreshShared, TokenRefused, ClientAuthFailed, AdminAuthFailed, AdminForbidden, OldSecretUsed,
		LoginSucceeded, LoginFailed, ConsentGiven, ConsentDenied, UserCodeRefused, LoggedOut, LogoutSent, Throttled,
		ServerStarted, ServerStopped, ConfigReloaded, BackupMade, Gap, Segment, Removed,
	}
	list = append(list, ServiceTokenIssued, ServiceTokenRevoked, TokenExchanged, UserImpersonated, IDJAGIssued, AssertionAccepted)
	for _, n := range storeNames {
		list = append(list, Name(n))
	}
	return list
}

// storeNames are the names of the events that stores keep as well.
var storeNames = []store.EventName{
	store.EventCodeReplayed, store.EventRefreshReplayed, store.EventGrantRevoked, store.EventAccessRevoked,
	store.EventKeyAdded, store.EventKeyWithdrawn, store.EventKEKRotated, store.EventRestored, store.EventCutoff, store.EventDisconnected, store.EventClientRecorded, store.EventSessionEnded,
	store.EventClientCreated, store.EventClientChanged, store.EventClientDeleted,
	store.EventAPICreated, store.EventAPIChanged, store.EventAPIDeleted,
	store.EventTrustCreated, store.EventTrustChanged, store.EventTrustDeleted,
	store.EventSecretAdded, store.EventSecretRevoked, store.EventSecretUpgraded,
	store.EventUserCreated, store.EventUserChanged, store.EventUserDisabled, store.EventUserEnabled,
	store.EventPasswordChanged, store.EventTOTPSet, store.EventTOTPRemoved,
	store.EventAdminTokenCreated, store.EventAdminTokenRevoked,
	store.EventOperatorAdded, store.EventOperatorRemoved, store.EventConsoleInvited, store.EventConsoleInvitationUsed, store.EventConsoleSignIn, store.EventConsoleSessionEnded,
}

// An Outcome is the result of a recorded action.
type Outcome string

const (
	Success Outcome = "success"
	Refused Outcome = "refused"
	Failed  Outcome = "failed" // by a fault of the server; nothing happened
	// Unknown means that the store did not acknowledge a write: it may or may not
	// have happened.
	Unknown Outcome = "unknown"
)

// An Event is a security event to record. It contains no secret, no code and no token.
// Empty members are left out. Texts may come from unauthenticated callers: they are
// escaped and cut to a limited length.
type Event struct {
	Name       Name
	Outcome    Outcome   // empty: Success
	Time       time.Time // zero: the time of the call of Record
	Realm      string
	ClientID   string
	Subject    string
	GrantID    string // in hexadecimal digits
	Generation uint32
	RequestID  string
	RemoteIP   netip.Addr
	Actor      string // who caused it, unless it was a client: "operator:root", "subject:alice", "server"
	Detail     string // one line of evidence, for people
}

// An Entry is one line of an audit log.
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
	// Prev is the SHA-256 of the line before, without its line feed, in hexadecimal
	// digits. It is empty in the first line of a chain.
	Prev string `json:"prev,omitempty"`
	// MAC authenticates the line up to this member, under a key of the ring. Lines of
	// commands that ran without the key-encryption key have none.
	MAC string `json:"mac,omitempty"`
}

// An Origin is the request that causes an event.
type Origin struct {
	RequestID string
	RemoteIP  netip.Addr
	Actor     string // who sends it, if that is known from the start
}

type originKey struct{}

// withOrigin is like context.WithValue, but allocates once for a request instead of
// three times.
type withOrigin struct {
	context.Context
	origin Origin
}

func (c *withOrigin) Value(key any) any {
	if key == (originKey{}) {
		return &c.origin
	}
	return c.Context.Value(key)
}

// With returns a context with the origin of the events under it.
func With(ctx context.Context, o Origin) context.Context { return &withOrigin{ctx, o} }

// From returns the origin of ctx, or zero.
func From(ctx context.Context) Origin {
	if o, ok := ctx.Value(originKey{}).(*Origin); ok {
		return *o
	}
	return Origin{}
}

// Event returns e with the origin in the members that e leaves empty.
func (o Origin) Event(e Event) Event {
	e.RequestID, e.RemoteIP, e.Actor = cmp.Or(e.RequestID, o.RequestID), cmp.Or(e.RemoteIP, o.RemoteIP), cmp.Or(e.Actor, o.Actor)
	return e
}

// Lengths in bytes. No line is longer than maxLine: each byte of a text takes at
// most six.
const (
	maxText   = 320
	maxDetail = 1024
	maxLine   = 32 << 10
)

// timeFormat is RFC 3339 with milliseconds, in UTC.
const timeFormat = "2006-01-02T15:04:05.000Z07:00"

// A Hash is the SHA-256 of a line.
type Hash [sha256.Size]byte

func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// ParseHash parses the output of Hash.String.
func ParseHash(s string) (h Hash, ok bool) {
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != len(h) {
		return h, false
	}
	return Hash(b), true
}

// hashLine returns the hash of a line without its line feed.
func hashLine(line []byte) Hash { return sha256.Sum256(line) }

// appendLine appends e as the line that follows the line with the hash prev, with a
// line feed, and with a MAC if the author's ring holds a key for it. It escapes more
// than encoding/json does: nothing in a line moves a terminal's cursor or turns the
// direction of text (CWE-117).
func appendLine(b []byte, e *Event, seq uint64, prev Hash, by *author) []byte {
	begin := len(b)
	b = strconv.AppendUint(append(b, `{"seq":`...), seq, 10)
	b = appendTime(append(b, `,"time":"`...), e.Time)
	b = appendText(append(b, `","event":`...), string(e.Name), maxText)
	b = appendText(append(b, `,"outcome":`...), string(cmp.Or(e.Outcome, Success)), maxText)
	b = appendMember(b, `,"realm":`, e.Realm, maxText)
	b = appendMember(b, `,"client_id":`, e.ClientID, maxText)
	b = appendMember(b, `,"subject":`, e.Subject, maxText)
	b = appendMember(b, `,"grant_id":`, e.GrantID, maxText)
	if e.Generation != 0 {
		b = strconv.AppendUint(append(b, `,"generation":`...), uint64(e.Generation), 10)
	}
	b = appendMember(b, `,"request_id":`, e.RequestID, maxText)
	if e.RemoteIP.IsValid() {
		b = append(e.RemoteIP.WithZone("").AppendTo(append(b, `,"remote_ip":"`...)), '"')
	}
	b = appendMember(b, `,"actor":`, e.Actor, maxText)
	b = appendMember(b, `,"detail":`, e.Detail, maxDetail)
	b = appendMember(b, `,"node":`, by.node, maxText)
	if prev != (Hash{}) {
		b = append(hex.AppendEncode(append(b, `,"prev":"`...), prev[:]), '"')
	}
	if by.ring != nil && by.ring.HasAudit() {
		body := b[begin:]
		b = append(by.ring.AppendLineMAC(append(b, macMember...), body, grant.At(by.now)), '"')
	}
	return append(b, '}', '\n')
}

// An author is the process that writes lines. Its ring is nil if it has no
// key-encryption key.
type author struct {
	node string
	ring *keys.Ring
	now  time.Time
}

const macMember = `,"mac":"`

// cutMAC splits a line before its MAC, which is its last member. No text in a
// line holds macMember: quotes are escaped there.
func cutMAC(line []byte) (body, mac []byte, ok bool) {
	at := len(line) - len(`"}`) - keys.LineMACSize
	if at < len(macMember) || string(line[at-len(macMember):at]) != macMember || string(line[len(line)-len(`"}`):]) != `"}` {
		return line, nil, false
	}
	return line[:at-len(macMember)], line[at : len(line)-len(`"}`)], true
}

// appendTime appends t in timeFormat, faster than package time does.
func appendTime(b []byte, t time.Time) []byte {
	b = t.UTC().AppendFormat(b, time.RFC3339)
	ms := t.Nanosecond() / int(time.Millisecond)
	return append(b[:len(b)-1], '.', '0'+byte(ms/100), '0'+byte(ms/10%10), '0'+byte(ms%10), 'Z')
}

func appendMember(b []byte, name, value string, most int) []byte {
	if value == "" {
		return b
	}
	return appendText(append(b, name...), value, most)
}

// appendText appends s in quotes, cut after most bytes.
func appendText(b []byte, s string, most int) []byte {
	b = append(b, '"')
	cut := len(s) > most
	if cut {
		s = s[:most]
	}
	for i := 0; i < len(s); {
		plain := i
		for plain < len(s) && s[plain] >= ' ' && s[plain] < 0x7f && s[plain] != '"' && s[plain] != '\\' {
			plain++
		}
		if b = append(b, s[i:plain]...); plain == len(s) {
			break
		}
		i = plain
		c := s[i]
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && size == 1 && cut && len(s)-i < utf8.UTFMax {
				break // the rest of a character that was cut
			}
			b = appendRune(b, r)
			i += size
			continue
		}
		if c == '"' || c == '\\' {
			b = append(b, '\\', c)
		} else {
			b = appendEscape(b, rune(c))
		}
		i++
	}
	if cut {
		b = append(b, "..."...)
	}
	return append(b, '"')
}

func appendRune(b []byte, r rune) []byte {
	switch {
	case unicode.IsPrint(r):
		return utf8.AppendRune(b, r)
	case r > 0xffff:
		r -= 0x10000
		return appendEscape(appendEscape(b, 0xd800+r>>10), 0xdc00+r&0x3ff)
	}
	return appendEscape(b, r)
}

func appendEscape(b []byte, r rune) []byte {
	const digits = "0123456789abcdef"
	return append(b, '\\', 'u', digits[r>>12&15], digits[r>>8&15], digits[r>>4&15], digits[r&15])
}

// plain are characters that no encoder of JSON escapes.
const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._:@"

// stamp returns t in UTC and whole milliseconds, as lines contain it.
func stamp(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }
