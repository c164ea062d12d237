package issuer

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/mintage/mintage/internal/directory"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
)

// ErrUserCode means that no device authorization has a user code, or that it has expired.
var ErrUserCode = errors.New("user code unknown")

// A DeviceRequest is the device authorization request of a client (RFC 8628 section
// 3.1). Network is the sender's network if the client is public. Codes of the zero prefix
// count toward no network.
type DeviceRequest struct {
	Scope     string
	Resource  string
	Challenge string // S256 code challenge (RFC 7636), or ""
	From      netip.Addr
	Network   netip.Prefix
}

// A DeviceAnswer is the device authorization response (RFC 8628 section 3.2). The codes
// are secrets.
type DeviceAnswer struct {
	DeviceCode string
	UserCode   string
	GrantID    grant.ID
}

// DeviceCodes are the use cases of the device grant (RFC 8628).
type DeviceCodes struct{ *Issuer }

// DeviceAuthorization begins the authorization of a device: it stores one document. The
// scope of a client that registered itself is checked when the user enters the code.
func (iss DeviceCodes) DeviceAuthorization(ctx context.Context, c *store.Client, r DeviceRequest) (_ DeviceAnswer, err error) {
	view, err := iss.Directory.View()
	if err != nil {
		return DeviceAnswer{}, store.Unavailable(err)
	}
	now := iss.now()
	d := Device{ClientID: c.ID, Challenge: r.Challenge, From: r.From.String(), RequestedAt: now, ExpiresAt: now.Add(DeviceLifetime)}
	if r.Resource != "" {
		if !oauth.IsTarget(r.Resource) { // also rejects several values
			return DeviceAnswer{}, oauth.ErrTarget
		}
		d.Resources = []string{r.Resource}
	}
	if d.Scope, err = oauth.ParseScope(r.Scope); err != nil {
		return DeviceAnswer{}, oauth.Sent(oauth.ErrScope, iss.LoggedScope(view, r.Scope))
	}
	d.Scope = d.Scope.Without(oauth.OfflineAccess)
	if !c.SelfRegistered() {
		named, err := iss.Resources(view, c, d.Resources, d.Scope)
		if err != nil {
			return DeviceAnswer{}, err
		}
		if !named.Scope.Covers(d.Scope) {
			return DeviceAnswer{}, oauth.Sent(oauth.ErrScope, iss.LoggedScope(view, r.Scope))
		}
		if d.Scope == "" {
			if d.Scope, err = oauth.ParseScope(string(named.Default)); err != nil || d.Scope == "" {
				return DeviceAnswer{}, oauth.ErrScope
			}
		}
	}
	var random [16]byte
	rand.Read(random[:])
	id := grant.NewID(now, random)
	d.Grant = id.String()
	opened, err := iss.Devices.open(now, r.Network, store.InRealm(iss.Realm, c.ID))
	if err != nil {
		return DeviceAnswer{}, err
	}
	defer func() { opened.settle(d.key, err) }()
	// Draw another user code if one is taken.
	for range 4 {
		user := newUserCode(opened.letters)
		d.key = iss.userCodeKey(view, user)
		doc, err := iss.DeviceDocument(d)
		if err != nil {
			return DeviceAnswer{}, err
		}
		switch err = iss.Store.Commit(ctx, store.Change{Documents: []store.Document{doc}}); {
		case errors.Is(err, store.ErrConflict):
			continue
		case err != nil:
			return DeviceAnswer{}, store.Unavailable(err)
		}
		text, err := keys.SealDeviceCode(view.Ring, iss.Realm, keys.DeviceCode{GrantID: id, UserCode: d.key, ClientID: c.ID, IssuedAt: now, ExpiresAt: d.ExpiresAt})
		if err != nil {
			return DeviceAnswer{}, store.Unavailable(err)
		}
		return DeviceAnswer{DeviceCode: text, UserCode: user, GrantID: id}, nil
	}
	return DeviceAnswer{}, store.Unavailable(fmt.Errorf("four user codes of %d letters are taken", opened.letters))
}

// DeviceToken answers the poll of a device (RFC 8628 section 3.4). It writes nothing
// until the user has allowed access, and then redeems the code. A repeated request gets
// the same token pair as long as the retry window is open.
func (iss DeviceCodes) DeviceToken(ctx context.Context, c *store.Client, r CodeRequest) (Tokens, error) {
	view, err := iss.Directory.View()
	if err != nil {
		return Tokens{}, store.Unavailable(err)
	}
	code, view, err := reread(ctx, iss.Issuer, view, r.Code, func(view *directory.View) (keys.DeviceCode, error) {
		return keys.OpenDeviceCode(view.Ring, iss.Realm, r.Code)
	})
	if err != nil {
		return Tokens{}, err
	}
	now := iss.now()
	if code.ClientID != c.ID {
		return Tokens{}, &grant.Refused{Why: grant.OtherClient, GrantID: code.GrantID}
	}
	if iss.Devices.tooSoon(code.UserCode, now) {
		return Tokens{}, oauth.ErrSlowDown
	}
	d, err := iss.readDevice(ctx, view, code.UserCode)
	switch {
	case errors.Is(err, ErrUserCode):
		return Tokens{}, oauth.ErrExpiredDevice
	case err != nil:
		// Some clients stop polling on any other error. The next poll reads d again.
		return Tokens{}, fmt.Errorf("%w: %w", oauth.ErrPending, err)
	case !d.proves(r.Verifier): // at once: no decision of the user can mend it
		return Tokens{}, &grant.Refused{Why: grant.ProofMismatch, GrantID: code.GrantID}
	case d.Denied:
		return Tokens{}, oauth.ErrDenied
	case d.Code == "" && now >= d.ExpiresAt:
		return Tokens{}, oauth.ErrExpiredDevice
	case d.Code == "":
		return Tokens{}, oauth.ErrPending
	}
	agreed, view, err := reread(ctx, iss.Issuer, view, d.Code, func(view *directory.View) (grant.Code, error) { return view.Ring.OpenCode(iss.Realm, d.Code) })
	if err != nil {
		return Tokens{}, err
	}
	policy := iss.PolicyOf(c)
	policy.CodeLifetime = DeviceLifetime
	r.RedirectURI = deviceRedirect
	tokens, err := iss.redeem(ctx, view, c, agreed, r, policy)
	if refused, ok := errors.AsType[*grant.Refused](err); ok && refused.Why == grant.CodeExpired {
		return Tokens{}, oauth.ErrExpiredDevice
	}
	return tokens, err
}

// proves reports whether verifier matches the challenge of the device's request.
func (d Device) proves(verifier string) bool {
	var code grant.Code
	code.Challenge, code.Challenged = oauth.ParseChallenge(d.Challenge)
	return code.Proves(verifier)
}

// DeviceOf returns the fields of a device code, and its Device. The Device is nil once
// the store has deleted it.
func (iss DeviceCodes) DeviceOf(ctx context.Context, view *directory.View, text string) (keys.DeviceCode, *Device, error) {
	code, err := keys.OpenDeviceCode(view.Ring, iss.Realm, text)
	if err != nil {
		return code, nil, err
	}
	d, err := iss.readDevice(ctx, view, code.UserCode)
	if errors.Is(err, ErrUserCode) {
		return code, nil, nil
	}
	return code, &d, err
}

// FindDevice returns the Device of a user code, or ErrUserCode if there is none or if it
// expired undecided.
func (iss DeviceCodes) FindDevice(ctx context.Context, view *directory.View, userCode string) (Device, error) {
	d, err := iss.readDevice(ctx, view, iss.userCodeKey(view, userCode))
	if err == nil && !d.Decided() && iss.now() >= d.ExpiresAt {
		err = ErrUserCode
	}
	return d, err
}

func (iss DeviceCodes) readDevice(ctx context.Context, view *directory.View, key store.DocumentKey) (d Device, err error) {
	doc, found, err := store.FindDocument(ctx, iss.Store, key)
	if err != nil || !found {
		return d, cmp.Or(err, ErrUserCode)
	}
	body, err := view.Ring.OpenBox(deviceBox, doc.Body)
	if err != nil {
		return d, store.Unavailable(fmt.Errorf("device authorization: %w", err)) // perhaps sealed by a key that this node has not read yet
	}
	d.key, d.version = key, doc.Version
	err = json.Unmarshal(body, &d)
	return d, err
}

const deviceBox = "device"

// DeviceDocument returns the next version of d as a document. The document outlives the
// retry window, in which a lost token response can be repeated.
func (iss DeviceCodes) DeviceDocument(d Device) (store.Document, error) {
	view, err := iss.Directory.View()
	if err != nil {
		return store.Document{}, store.Unavailable(err)
	}
	body, err := json.Marshal(d)
	if err != nil {
		return store.Document{}, err
	}
	return store.Document{
		Kind: store.DocumentDevice, Key: d.key, Version: d.version + 1,
		ExpiresAt: d.ExpiresAt.Add(max(iss.Policy.RetryWindow, iss.RetryWindowPublic) + 2*iss.Policy.MaxSkew + time.Minute),
		Body:      view.Ring.SealBox(deviceBox, body, iss.now()),
	}, nil
}

// AllowDevice returns d with the code of an agreement, which the device redeems.
func (iss DeviceCodes) AllowDevice(c *store.Client, d Device, a Agreement) (Device, error) {
	a.Device, a.RedirectURI, a.GrantID, a.ExpiresAt = true, deviceRedirect, d.GrantID(), d.ExpiresAt
	rand.Read(a.Nonce[:])
	code, err := iss.Codes().IssueAgreed(c, a)
	d.Code = code.Code
	return d, err
}

// newUserCode draws a user code, as it is shown.
func newUserCode(length int) string {
	letters := make([]byte, 0, length)
	var b [1]byte
	for len(letters) < length {
		rand.Read(b[:])
		if b[0] < 240 { // 12 times 20: each letter is as likely as the others
			letters = append(letters, oauth.UserLetters[b[0]%20])
		}
	}
	return oauth.ShowUserCode(string(letters))
}

// userCodeKey returns the key of a user code's document: an HMAC, because the codes are
// short enough to try all.
func (iss DeviceCodes) userCodeKey(view *directory.View, code string) store.DocumentKey {
	return store.DocumentKey(view.Ring.Tag("user code", []byte(iss.Realm), []byte(code)))
}

// Decided removes a code from the counts of open codes, if this node issued it.
func (d *Devices) Decided(of Device) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.end(of.key)
}
