package login

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/openid"
	"github.com/mintage/mintage/internal/store"
)

// An Identity is who sits at a browser, as somebody says who knows.
type Identity struct {
	Subject  string `json:"subject"`
	Username string `json:"username,omitempty"` // of a built-in user
	Epoch    int64  `json:"epoch,omitempty"`    // of that user's record
	Name     string `json:"name,omitempty"`     // to greet them by
	// Standard are the claims that clients read at userinfo, in the form of
	// issuer.SplitClaims. Neither interactions of signed-in users nor sessions
	// hold them: they are in a document of the subject.
	Standard string `json:"standard,omitempty"`
	// Claims travel into the tokens: a JSON object, or "".
	Claims   string        `json:"claims,omitempty"`
	AuthTime grant.Instant `json:"auth_time"`
	Login    openid.Login  `json:"login,omitzero"` // how they were authenticated, if that is known
	// Reference names the session to grants: 16 random bytes in hexadecimal digits.
	// It is sent to nobody. Sessions of earlier versions have none.
	Reference string `json:"reference,omitempty"`
	// Provider names the session at the provider where the user has logged in, "" if
	// it is unknown. Only SignIn reads it.
	Provider string `json:"-"`
}

// A Session is a browser whose user is known.
type Session struct {
	Identity
	Began     grant.Instant `json:"began"`
	ExpiresAt grant.Instant `json:"-"`

	id   sessionID
	used grant.Instant // as the cookie says
	end  End           // once it has ended
}

// A sessionID is 256 random bits. Nothing at rest tells it.
type sessionID [32]byte

func (id sessionID) key(realm string) store.DocumentKey {
	return store.KeyOf(store.DocumentSession, realm, string(id[:]))
}

// A session's cookie is its id, the instant of its last use, and a mark over
// both. The instant travels with the browser, so that the use of a session
// writes nothing: an old copy of the cookie is idle for longer, and never
// shorter.
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

// Session finds the living session of a cookie, or nil. It writes nothing.
func (a *Authorizer) Session(ctx context.Context, cookie string) (*Session, error) {
	if cookie == "" {
		return nil, nil
	}
	view, err := a.Issuer.Directory.View()
	if err != nil {
		return nil, unavailable(err)
	}
	id, used, ok := openSessionCookie(view.Ring, cookie)
	now := a.now()
	if !ok || now.Since(used) > a.SessionIdle {
		return nil, nil
	}
	d, err := a.Issuer.Store.Document(ctx, id.key(a.Issuer.Realm))
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, unavailable(err)
	}
	s := &Session{id: id, used: used, ExpiresAt: d.ExpiresAt}
	if err := json.Unmarshal(d.Body, s); err != nil {
		return nil, err
	}
	// What ends everything of a subject ends its sessions as well. So does a restore:
	// who has signed out since the backup was made is signed in there.
	if now >= d.ExpiresAt || view.Cutoff(a.Issuer.Realm, s.Subject, "") >= s.Began || s.Began < view.Restore().At {
		return nil, nil
	}
	// Who has signed in by a way that the deployment no longer offers is not
	// signed in.
	if (s.Username != "") != (a.Alive != nil) {
		return nil, nil
	}
	if a.Alive == nil {
		return s, nil
	}
	err = a.Alive(ctx, s.Username, s.Epoch)
	switch {
	case errors.Is(err, ErrSignedOut):
		return nil, nil
	case err != nil:
		return nil, unavailable(err)
	}
	return s, nil
}

// Refresh is a new cookie for a session whose stamp has aged, or "".
func (a *Authorizer) Refresh(s *Session) string {
	now := a.now()
	view, err := a.Issuer.Directory.View()
	if s == nil || err != nil || now.Since(s.used) < stampEvery {
		return ""
	}
	return sessionCookie(view.Ring, s.id, now)
}

// refer gives who the reference of the session that is about to begin: that of the
// browser's session of the same subject, or a new one. A session of another subject
// is returned: it ends.
func (a *Authorizer) refer(ctx context.Context, who *Identity, old string) (ends *Session, err error) {
	s, err := a.Session(ctx, old)
	if err != nil {
		return nil, err
	}
	if s != nil && s.Subject == who.Subject && s.Reference != "" {
		who.Reference = s.Reference
		return nil, nil
	}
	var reference [16]byte
	rand.Read(reference[:])
	who.Reference = hex.EncodeToString(reference[:])
	return s, nil
}

// reference returns the bytes of who's Reference, or zero.
func (who Identity) reference() (b [16]byte) {
	hex.Decode(b[:], []byte(who.Reference))
	return b
}

// newSession returns the cookie of a new session of who, and the change that
// stores it and ends the session of the old cookie (CWE-384).
func (a *Authorizer) newSession(who Identity, old string) (cookie string, c store.Change, err error) {
	view, err := a.Issuer.Directory.View()
	if err != nil {
		return "", c, unavailable(err)
	}
	now := a.now()
	s := Session{Identity: who, Began: a.Issuer.AgreedAt(view, who.Subject, "", now)}
	rand.Read(s.id[:])
	body, err := json.Marshal(s)
	if err != nil {
		return "", c, err
	}
	c.Documents = []store.Document{{
		Kind: store.DocumentSession, Key: s.id.key(a.Issuer.Realm), Version: 1, ExpiresAt: now.Add(a.SessionLifetime),
		Owner: store.OwnerOf(a.Issuer.Realm, who.Subject), Body: body,
	}}
	if id, _, ok := openSessionCookie(view.Ring, old); ok {
		c.Delete = []store.DocumentKey{id.key(a.Issuer.Realm)}
	}
	return sessionCookie(view.Ring, s.id, now), c, nil
}

// An End is a session that ends before its time, by its user.
type End struct {
	Subject   string
	Reference [16]byte // zero for a session of an earlier version, which no client knows
	At        grant.Instant
}

// EndSession ends the session of a cookie, if there is one, and returns it. If it
// had expired, it is nil: that is no logout.
func (a *Authorizer) EndSession(ctx context.Context, cookie string) (*Session, error) {
	s, err := a.Session(ctx, cookie)
	if err != nil {
		return nil, err
	}
	view, err := a.Issuer.Directory.View()
	if err != nil {
		return nil, unavailable(err)
	}
	var c store.Change
	if s != nil {
		err = a.end(ctx, s, &c)
	} else if id, _, ok := openSessionCookie(view.Ring, cookie); ok {
		c.Delete = []store.DocumentKey{id.key(a.Issuer.Realm)}
	}
	if err != nil || len(c.Delete) == 0 {
		return nil, err
	}
	if err := a.Issuer.Store.Commit(ctx, c); err != nil {
		return nil, unavailable(err)
	}
	if s != nil {
		a.ended(ctx, s)
	}
	return s, nil
}

// ended revokes the grants that end with s. What fails here is no fault of the logout,
// which is durable: the later look at the end of the session does it again.
func (a *Authorizer) ended(ctx context.Context, s *Session) {
	if _, err := a.Issuer.EndGrants(ctx, s.Subject, s.reference(), false); err != nil {
		a.Issuer.Log.Warn("cannot end the grants of a session yet", "error", err)
	}
}

// end adds the end of s to a change: the session in every document that has its
// reference, and what Ended adds.
func (a *Authorizer) end(ctx context.Context, s *Session, c *store.Change) error {
	if own := s.id.key(a.Issuer.Realm); !slices.Contains(c.Delete, own) {
		c.Delete = append(c.Delete, own)
	}
	if s.Reference == "" {
		return nil
	}
	for d, err := range store.DocumentsOfOwner(ctx, a.Issuer.Store, store.DocumentSession, store.OwnerOf(a.Issuer.Realm, s.Subject)) {
		if err != nil {
			return unavailable(err)
		}
		var other Session
		if json.Unmarshal(d.Body, &other) == nil && other.Reference == s.Reference && !slices.Contains(c.Delete, d.Key) {
			c.Delete = append(c.Delete, d.Key)
		}
	}
	if a.Ended == nil {
		return nil
	}
	s.end = End{Subject: s.Subject, Reference: s.reference(), At: a.now()}
	return a.Ended(ctx, s.end, c)
}
