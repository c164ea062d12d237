package login

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"time"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/openid"
	"github.com/mintage/mintage/internal/plain"
	"github.com/mintage/mintage/internal/store"
)

// An Identity is the authenticated user, as the system that has the users reports.
type Identity struct {
	Subject  string `json:"subject"`
	Username string `json:"username,omitempty"` // of a built-in user
	Epoch    int64  `json:"epoch,omitempty"`    // of that user's record
	Name     string `json:"name,omitempty"`     // to greet them by
	// Standard are the claims that clients read at userinfo, in the form of
	// issuer.SplitClaims. Neither interactions of signed-in users nor sessions
	// hold them: they are in a document of the subject.
	Standard string `json:"standard,omitempty"`
	// Claims are copied into the tokens: a JSON object, or "".
	Claims   string        `json:"claims,omitempty"`
	AuthTime grant.Instant `json:"auth_time"`
	Login    openid.Login  `json:"login,omitzero"` // how they were authenticated, if that is known
	// Reference names the session to grants: 16 random bytes in hexadecimal digits.
	// It is sent to nobody.
	Reference string `json:"reference,omitempty"`
	// Provider names the session at the provider where the user has logged in, "" if
	// it is unknown. Only SignIn reads it.
	Provider string `json:"-"`
	// Said are the claims that were requested from the provider by name: a JSON object, or "".
	Said string `json:"-"`
	// SaidAt is when the provider issued its id_token, by its clock; zero without a provider.
	SaidAt grant.Instant `json:"-"`
}

// A Session is a browser in which a user has signed in.
type Session struct {
	Identity
	Began     grant.Instant `json:"began"`
	ExpiresAt grant.Instant `json:"-"`
	// Over is "" while the session uses this document. Afterwards it is overMoved or
	// overEnded, and the document is kept until a sweep: a login that continues the session
	// and a concurrent logout both write it, so that one of them gets a version conflict.
	Over string `json:"over,omitempty"`

	id       sessionID
	document store.Document
	used     grant.Instant // as the cookie says
	end      End           // once it has ended
}

// sessionMembers are the members of a session in the order of its fields.
var sessionMembers = []plain.Member[Session]{
	plain.At("subject", func(p *plain.Reader, s *Session) { s.Subject = p.Text() }),
	plain.At("username", func(p *plain.Reader, s *Session) { s.Username = p.Text() }),
	plain.At("epoch", func(p *plain.Reader, s *Session) { s.Epoch = p.Number() }),
	plain.At("name", func(p *plain.Reader, s *Session) { s.Name = p.Text() }),
	plain.At("standard", func(p *plain.Reader, s *Session) { s.Standard = p.Text() }),
	plain.At("claims", func(p *plain.Reader, s *Session) { s.Claims = p.Text() }),
	plain.At("auth_time", func(p *plain.Reader, s *Session) { s.AuthTime = grant.Instant(p.Number()) }),
	plain.At("login", func(p *plain.Reader, s *Session) { plain.Object(p, openid.LoginMembers, &s.Login) }),
	plain.At("reference", func(p *plain.Reader, s *Session) { s.Reference = p.Text() }),
	plain.At("began", func(p *plain.Reader, s *Session) { s.Began = grant.Instant(p.Number()) }),
	plain.At("over", func(p *plain.Reader, s *Session) { s.Over = p.Text() }),
}

// Sessions finds, begins and ends the sessions of users.
type Sessions struct {
	Documents
	Issuer *issuer.Issuer
	// Lifetime and Idle end a session after its login, and after its last use.
	Lifetime, Idle time.Duration
	// MaxSkew is how far the clocks of nodes may be apart.
	MaxSkew time.Duration
	// Alive reports whether the session of a built-in user, which began in an epoch of
	// the user's record, is still valid. Nil: another system has the users.
	Alive Alive
	// Ended adds to the change that ends a session the documents from which clients are
	// notified; nil: none. It is called before the commit, and again after a conflict.
	Ended func(ctx context.Context, e End, c *store.Change) error
	// Notified waits until each client of a session that has ended was called once, or
	// until ctx ends; nil: no client is called.
	Notified func(ctx context.Context, e End)
}

const (
	overMoved = "moved" // the session continues in another document
	overEnded = "ended"
)

// Mark identifies the session on its own pages. A login that continues the session
// does not change it.
func (s *Session) Mark() string { return grant.SessionName(s.reference()) }

// A sessionID is 256 random bits. The store has only a hash of it.
type sessionID [32]byte

func (id sessionID) key(realm string) store.DocumentKey {
	return store.KeyOf(store.DocumentSession, realm, string(id[:]))
}

// A session's cookie is its id, the instant of its last use, and an HMAC tag over both.
// The browser keeps the instant, so that the use of a session writes nothing: an old copy
// of the cookie expires earlier, never later.
const (
	stampSize  = 6
	sealSize   = 16
	cookieSize = 32 + stampSize + sealSize
	// stampEvery is how old a stamp may be before the browser gets a new one.
	stampEvery = time.Minute
)

func sessionCookie(ring *keys.Ring, id sessionID, used grant.Instant) string {
	b := used.Append(append(make([]byte, 0, cookieSize), id[:]...))
	b = append(b, ring.Tag("session", b)[:sealSize]...)
	return base64.RawURLEncoding.EncodeToString(b)
}

func openSessionCookie(ring *keys.Ring, text string) (id sessionID, used grant.Instant, ok bool) {
	if len(text) != base64.RawURLEncoding.EncodedLen(cookieSize) {
		return id, 0, false
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(b) != cookieSize { // the decoder skips line breaks
		return id, 0, false
	}
	content, seal := b[:cookieSize-sealSize], b[cookieSize-sealSize:]
	if subtle.ConstantTimeCompare(ring.Tag("session", content)[:sealSize], seal) != 1 {
		return id, 0, false
	}
	return sessionID(content), grant.ReadInstant(content[32:]), true
}

// Session finds the active session of a cookie, or nil. It writes nothing.
func (ss *Sessions) Session(ctx context.Context, cookie string) (*Session, error) {
	s, err := ss.find(ctx, cookie)
	if s != nil && s.Over != "" {
		return nil, err
	}
	return s, err
}

// find finds the session of a cookie, also if it has moved to another document at this
// moment, or nil.
func (ss *Sessions) find(ctx context.Context, cookie string) (*Session, error) {
	if cookie == "" {
		return nil, nil
	}
	view, err := ss.view()
	if err != nil {
		return nil, err
	}
	id, used, ok := openSessionCookie(view.Ring, cookie)
	now := ss.now()
	if !ok || now.Since(used) > ss.Idle {
		return nil, nil
	}
	d, found, err := store.FindDocument(ctx, ss.Store, id.key(ss.Realm))
	if err != nil || !found {
		return nil, err
	}
	s := &Session{id: id, document: d, used: used, ExpiresAt: d.ExpiresAt}
	if err := plain.Unmarshal(sessionMembers, d.Body, s); err != nil {
		return nil, err
	}
	// A session is not valid if the deployment no longer has its kind of users.
	if (s.Username != "") != ss.builtIn() {
		return nil, nil
	}
	state, err := s.state(ctx, now, view.Cutoff(ss.Realm, s.Subject, ""), view.Restore().At, ss.Alive)
	switch {
	case err != nil:
		return nil, store.Unavailable(err)
	case state != SessionActive:
		return nil, nil
	}
	return s, nil
}

// Lives reports whether a subject has a session for whose reference the function is
// returns true, and that has neither ended nor expired. It ignores Idle, because only the
// browser's cookie has the last use.
func (ss *Sessions) Lives(ctx context.Context, subject string, is func(reference [16]byte) bool) (bool, error) {
	view, err := ss.view()
	if err != nil {
		return false, err
	}
	list, err := ss.Store.Documents(ctx, store.DocumentFilter{Kind: store.DocumentSession, Owner: store.OwnerOf(ss.Realm, subject), Limit: everyDocument})
	if err != nil {
		return false, store.Unavailable(err)
	}
	for _, d := range list {
		s := Session{ExpiresAt: d.ExpiresAt}
		if plain.Unmarshal(sessionMembers, d.Body, &s) != nil || s.Subject != subject || !is(s.reference()) || (s.Username != "") != ss.builtIn() {
			continue
		}
		state, err := s.state(ctx, ss.now(), view.Cutoff(ss.Realm, subject, ""), view.Restore().At, ss.Alive)
		if err != nil {
			return false, store.Unavailable(err)
		}
		if state == SessionActive && s.Over == "" {
			return true, nil
		}
	}
	return false, nil
}

// States of a session.
const (
	SessionActive  = "active" // unless the browser has been idle: only its cookie tells
	SessionExpired = "expired"
	SessionEnded   = "ended"
)

// Alive is account.Users.Alive.
type Alive func(ctx context.Context, username string, epoch int64) (bool, error)

// state returns the state of a session at now. A cutoff of its subject ends the session,
// although its document still exists. So does a change of its built-in user, and so does a
// restore, because the backup contains sessions that have ended since.
func (s *Session) state(ctx context.Context, now, cutoff, restored grant.Instant, alive Alive) (string, error) {
	switch {
	case s.Over == overEnded, cutoff >= s.Began, s.Began < restored:
		return SessionEnded, nil
	case s.Over == "" && now >= s.ExpiresAt:
		return SessionExpired, nil
	case s.Username == "":
		return SessionActive, nil
	}
	if goesOn, err := alive(ctx, s.Username, s.Epoch); err != nil || !goesOn {
		return SessionEnded, err
	}
	return SessionActive, nil
}

// builtIn reports whether users are built in.
func (ss *Sessions) builtIn() bool { return ss.Alive != nil }

// Refresh returns a new cookie for a session whose cookie is older than stampEvery, or "".
func (ss *Sessions) Refresh(s *Session) string {
	now := ss.now()
	view, err := ss.view()
	if s == nil || err != nil || now.Since(s.used) < stampEvery {
		return ""
	}
	return sessionCookie(view.Ring, s.id, now)
}

// replaceSession sets who.Reference, the reference of the new session: that of the browser's
// session of the same subject, or a new one. The commit of c makes the old cookie invalid,
// so that nobody who knows it gets the new session (CWE-384). A session of another subject
// ends, and is returned.
func (ss *Sessions) replaceSession(ctx context.Context, who *Identity, old string, c *store.Change) (ends *Session, err error) {
	s, err := ss.find(ctx, old)
	if err != nil {
		return nil, err
	}
	if s != nil && s.Subject == who.Subject {
		who.Reference, s.Over = s.Reference, overMoved
		d, err := over(s.document, s, ss.now())
		c.Documents = append(c.Documents, d)
		return nil, err
	}
	var reference [16]byte
	rand.Read(reference[:])
	who.Reference = hex.EncodeToString(reference[:])
	if s == nil {
		return nil, ss.forget(old, c)
	}
	if ended, err := ss.end(ctx, s, c, store.AboutSubject(who.Subject), "another user has signed in"); err != nil || !ended {
		return nil, err
	}
	return s, nil
}

// over returns the next version of a session's document: s, which is over, expired at now.
func over(d store.Document, s *Session, now grant.Instant) (store.Document, error) {
	body, err := json.Marshal(s)
	d.Version++
	d.ExpiresAt, d.Body = min(d.ExpiresAt, now), body
	return d, err
}

// forget adds to c the deletion of a cookie's document, whose session is not active.
func (ss *Sessions) forget(cookie string, c *store.Change) error {
	view, err := ss.view()
	if err != nil {
		return err
	}
	if id, _, ok := openSessionCookie(view.Ring, cookie); ok {
		c.Delete = append(c.Delete, id.key(ss.Realm))
	}
	return nil
}

// reference returns the bytes of who.Reference, or zero.
func (who Identity) reference() (b [16]byte) {
	hex.Decode(b[:], []byte(who.Reference))
	return b
}

// newSession returns the cookie and the document of a new session of who.
func (ss *Sessions) newSession(who Identity) (cookie string, d store.Document, err error) {
	view, err := ss.view()
	if err != nil {
		return "", d, err
	}
	now := ss.now()
	s := Session{Identity: who, Began: ss.Issuer.AgreedAt(view, who.Subject, "", now)}
	rand.Read(s.id[:])
	body, err := json.Marshal(s)
	if err != nil {
		return "", d, err
	}
	d = store.Document{
		Kind: store.DocumentSession, Key: s.id.key(ss.Realm), Version: 1, ExpiresAt: now.Add(ss.Lifetime),
		Owner: store.OwnerOf(ss.Realm, who.Subject), Body: body,
	}
	return sessionCookie(view.Ring, s.id, now), d, nil
}

// An End is the end of a session before it expires.
type End struct {
	issuer.SessionEnd
	At grant.Instant
}

// EndSession ends the session of a cookie, if there is one, and returns it. It returns nil
// if the session has expired or ended before: that is no logout. A concurrent login that
// continues the session does not prevent its end.
func (ss *Sessions) EndSession(ctx context.Context, cookie string) (*Session, error) {
	s, err := ss.find(ctx, cookie)
	if err != nil {
		return nil, err
	}
	ended := false
	err = CommitEnd(ctx, ss.Store, func(c *store.Change) (err error) {
		if s == nil {
			return ss.forget(cookie, c)
		}
		ended, err = ss.end(ctx, s, c, store.AboutSubject(s.Subject), "the user has signed out")
		return err
	})
	if err != nil || !ended {
		return nil, err
	}
	ss.ended(ctx, s)
	return s, nil
}

// attempts is how often CommitEnd tries.
const attempts = 8

// CommitEnd commits a change that ends sessions or a client's consent. It calls add to
// fill in the change, and commits nothing if the change stays empty. It starts over after
// a conflict, for example with a login that continues the session.
func CommitEnd(ctx context.Context, st store.Store, add func(c *store.Change) error) error {
	err := store.ErrConflict
	for n := 0; n < attempts && errors.Is(err, store.ErrConflict); n++ {
		var c store.Change
		if err := add(&c); err != nil || len(c.Documents)+len(c.Delete)+len(c.Events) == 0 {
			return err
		}
		err = st.Commit(ctx, c)
	}
	return store.Unavailable(err)
}

// ended revokes the grants that end with s. A failure here does not affect the logout,
// which is durable: issuer.Ends revokes the grants later.
func (ss *Sessions) ended(ctx context.Context, s *Session) {
	if _, err := ss.Issuer.EndGrants(ctx, s.end.SessionEnd); err != nil {
		ss.Issuer.Log.Warn("cannot revoke the grants of an ended session yet; trying again", "error", err)
	}
}

// end adds the end of s to a change: the end of every document that has its reference, and
// what Ended adds. The revoked grants record actor and why. end reports false if the
// session has ended before.
func (ss *Sessions) end(ctx context.Context, s *Session, c *store.Change, actor, why string) (ended bool, err error) {
	now := ss.now()
	ended, err = EndReference(ctx, ss.Store, ss.Realm, s.Subject, s.reference(), now, c)
	if err != nil {
		return false, store.Unavailable(err)
	}
	s.end = End{issuer.SessionEnd{Subject: s.Subject, Reference: s.reference(), Actor: actor, Detail: why + ": session " + s.Mark()}, now}
	if !ended || ss.Ended == nil {
		return ended, nil
	}
	return true, ss.Ended(ctx, s.end, c)
}

// everyDocument is a limit that no subject reaches. One call of Documents reads one state
// of the store, so that no login is committed between two pages.
const everyDocument = 1 << 20

// EndReference adds to c the end of a session: each document that has its reference.
// If a login continues the session meanwhile, the commit of c is a conflict. EndReference
// reports false if the session has ended before.
func EndReference(ctx context.Context, st store.Store, realm, subject string, reference [16]byte, now grant.Instant, c *store.Change) (ended bool, err error) {
	list, err := st.Documents(ctx, store.DocumentFilter{Kind: store.DocumentSession, Owner: store.OwnerOf(realm, subject), Limit: everyDocument})
	if err != nil {
		return false, err
	}
	for _, d := range list {
		var s Session
		if plain.Unmarshal(sessionMembers, d.Body, &s) != nil || s.reference() != reference {
			continue
		}
		d, err := over(d, &Session{Over: overEnded}, now)
		if err != nil {
			return false, err
		}
		c.Documents, ended = append(c.Documents, d), true
	}
	return ended, nil
}
