package account

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha1"
	"crypto/subtle"
	"encoding/base32"
	"encoding/binary"
	"fmt"
	"net/url"
	"strings"
	"time"
	"unicode"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
)

// The second factor is a time-based one-time password (RFC 6238) as all
// authenticator apps implement it: SHA-1, six digits, thirty seconds.
const (
	totpPeriod = 30 * time.Second
	totpSecret = 20 // bytes: the length of the hash (RFC 4226 section 4, R6)
	// totpDrift is how many steps a device's clock may be off, each way
	// (RFC 6238 section 6).
	totpDrift = 1
	totpCodes = 1_000_000 // of six digits
)

// oneTimeCode is the code of a time step (RFC 4226 section 5.3).
func oneTimeCode(secret []byte, step int64) string {
	h := hmac.New(sha1.New, secret)
	h.Write(binary.BigEndian.AppendUint64(nil, uint64(step)))
	sum := h.Sum(nil)
	at := sum[len(sum)-1] & 15
	return fmt.Sprintf("%06d", binary.BigEndian.Uint32(sum[at:])&0x7fffffff%totpCodes)
}

// stepOf returns the time step that a code belongs to, among those after the last one that
// was used. Each code is valid once (RFC 6238 section 5.2).
func stepOf(secret []byte, code string, now grant.Instant, last int64) (step int64, ok bool) {
	current := int64(now) / totpPeriod.Milliseconds()
	for s := current - totpDrift; s <= current+totpDrift; s++ {
		if subtle.ConstantTimeCompare([]byte(code), []byte(oneTimeCode(secret, s))) == 1 && s > last {
			return s, true
		}
	}
	return 0, false
}

// plainCode normalizes a code: apps show it in two groups, between which people type or
// copy a space or a dash, and a Japanese keyboard may produce full-width digits.
func plainCode(typed string) string {
	if len(typed) > 64 {
		return ""
	}
	return strings.Map(func(c rune) rune {
		switch {
		case unicode.IsSpace(c), unicode.Is(unicode.Pd, c):
			return -1
		case '０' <= c && c <= '９':
			return c - '０' + '0'
		}
		return c
	}, typed)
}

// SetTOTP sets or replaces the user's second factor, and ends the sessions, which
// began without it. The secret is shown to the user once.
func (u User) SetTOTP(ring *keys.Ring, now grant.Instant) (next User, secret []byte) {
	secret = make([]byte, totpSecret)
	rand.Read(secret)
	return u.withFactor(ring.SealBox(u.boxLabel(), secret, now), 0, now), secret
}

// withFactor sets a sealed second factor whose codes are valid only after a time step.
func (u User) withFactor(sealed []byte, step int64, now grant.Instant) User {
	u = u.changed(now)
	u.TOTP, u.TOTPStep = sealed, step
	u.Epoch++
	u.SessionsEnd = now
	return u
}

// RemoveTOTP lets the user log in by password alone.
func (u User) RemoveTOTP(now grant.Instant) User {
	u = u.changed(now)
	u.TOTP, u.TOTPStep = nil, 0
	return u
}

// boxLabel returns the label of the user's sealed secret, so that it cannot be opened as
// another user's.
func (u User) boxLabel() string { return "totp/" + u.Username }

// TOTPText returns a secret as people type it into an app.
func TOTPText(secret []byte) string { return base32.StdEncoding.EncodeToString(secret) }

// TOTPURI returns a secret as the URI that an app reads from a QR code. issuer is the name
// of the service, which the app shows.
func (u User) TOTPURI(issuer string, secret []byte) string {
	return fmt.Sprintf("otpauth://totp/%s:%s?secret=%s&issuer=%s&algorithm=SHA1&digits=6&period=30",
		url.PathEscape(issuer), url.PathEscape(u.Username), TOTPText(secret), strings.ReplaceAll(url.QueryEscape(issuer), "+", "%20"))
}
