package grant

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/mintage/mintage/internal/oauth"
)

// Facts are the fields of an authorization about the subject and the login. They are
// fixed when the code is issued, sealed into it, and stay in the grant's row. A new
// fact is a field here, a tag below, and a line in Append and in Read.
type Facts struct {
	// Claims is a JSON object about the subject, set at authentication, or "".
	Claims string
	// Session refers to the login session; zero if there was none. It is never
	// sent: see openid.SessionID.
	Session [16]byte
	// ACR and AMR are how the subject was authenticated; zero if that is unknown.
	// Package openid names their values.
	ACR, AMR uint8
	// SaysACR: the request named acr_values, so that access tokens contain the acr of
	// the login (RFC 9470 section 6).
	SaysACR bool
	// ReportedACR and ReportedAMR are the acr and amr that another system reported about the
	// login; spaces separate the values of amr.
	ReportedACR, ReportedAMR string
	// InUserInfo and InIDToken are the claims that the request asked for by name
	// (OpenID Connect Core section 5.5): a bit for each claim, as package claims
	// numbers them. InUserInfo has only those that the scope does not bring.
	InUserInfo, InIDToken uint32
	// JKT is the key that alone may redeem the code (RFC 9449 section 10) or, in a row,
	// refresh the grant of a public client (section 5). Zero: no key is needed.
	JKT oauth.JKT
	// APIs are the numbers of the APIs agreed to; zero if the request named none.
	// Access tokens name positions in this list.
	APIs APIs
	// Device is set if the subject agreed to the request of a device (RFC 8628).
	Device bool
	// Trust is the id of the trust by which an assertion made the grant, or "". Acting are
	// the actors that the assertion named: see ActorsText.
	Trust  string
	Acting string
}

// MaxAPIs limits the APIs of a grant.
const MaxAPIs = 5

// APIs are numbers of APIs (RFC 8707), from the first position on, or zero. There is
// room for one more: the audience of the client's registration.
type APIs [MaxAPIs + 1]uint16

// The longest ReportedACR and ReportedAMR, in bytes.
const (
	MaxReportedACR = 80
	MaxReportedAMR = 64
)

// The facts beside Claims are Session, ACR and AMR, and then a field for each other
// fact that is not empty: tag 1 | length 1 | value, in the order of the tags. A value
// has at most 255 bytes, and so have all facts of a code together.
const (
	factsSize = 16 + 1 + 1

	tagReportedACR = 1
	tagReportedAMR = 2
	tagRequested   = 3 // InUserInfo 4 | InIDToken 4
	tagAPIs        = 4 // number 2, for each
	tagJKT         = 5
	tagDevice      = 6 // 1
	tagSaysACR     = 7 // 1
	tagTrust       = 8
	tagActing      = 9
)

// ActorsText returns actors in the form of Facts.Acting: for each, length 1 | issuer |
// length 1 | subject. It reports false if the actors are too many, or too long.
func ActorsText(actors []Actor) (text string, ok bool) {
	var b []byte
	for _, a := range actors {
		b = append(append(b, byte(len(a.Issuer))), a.Issuer...)
		b = append(append(b, byte(len(a.Subject))), a.Subject...)
	}
	return string(b), len(b) <= 255 && len(actors) <= MaxActors
}

// Actors returns the actors of f, the present one first.
func (f Facts) Actors() (list []Actor) {
	b := f.Acting
	take := func() (text string) {
		if b != "" && len(b) > int(b[0]) {
			text, b = b[1:1+int(b[0])], b[1+int(b[0]):]
		} else {
			b = ""
		}
		return text
	}
	for b != "" {
		issuer := take()
		list = append(list, Actor{issuer, take()})
	}
	return list
}

// SessionName returns the name of a session for operators: 24 hexadecimal digits, the
// form of no other id, or "" if there is no session. The name is a digest, because the
// reference itself reveals which clients share the session.
func SessionName(reference [16]byte) string {
	if reference == [16]byte{} {
		return ""
	}
	sum := sha256.Sum256(append([]byte("session\x00"), reference[:]...))
	return hex.EncodeToString(sum[:12])
}

// more reports whether f holds anything beside Claims.
func (f Facts) more() bool { f.Claims = ""; return f != Facts{} }

// Append appends the facts beside Claims to b, or nothing if there are none.
func (f Facts) Append(b []byte) []byte {
	if !f.more() {
		return b
	}
	b = append(append(b, f.Session[:]...), f.ACR, f.AMR)
	b = appendField(b, tagReportedACR, f.ReportedACR)
	b = appendField(b, tagReportedAMR, f.ReportedAMR)
	if f.InUserInfo|f.InIDToken != 0 {
		b = binary.BigEndian.AppendUint32(append(b, tagRequested, 8), f.InUserInfo)
		b = binary.BigEndian.AppendUint32(b, f.InIDToken)
	}
	for i, number := range f.APIs {
		if number != 0 && i == 0 {
			b = append(b, tagAPIs, 0)
		}
		if number != 0 {
			b = binary.BigEndian.AppendUint16(b, number)
			b[len(b)-2*i-3] += 2
		}
	}
	if f.JKT.Bound() {
		b = appendField(b, tagJKT, string(f.JKT[:]))
	}
	if f.Device {
		b = append(b, tagDevice, 1, 1)
	}
	if f.SaysACR {
		b = append(b, tagSaysACR, 1, 1)
	}
	return appendField(appendField(b, tagTrust, f.Trust), tagActing, f.Acting)
}

func appendField(b []byte, tag byte, value string) []byte {
	if value == "" {
		return b
	}
	return append(append(b, tag, byte(len(value))), value...)
}

// Read sets the facts that Append has written, all but Claims. It ignores fields of a
// later version.
func (f *Facts) Read(b []byte) error {
	if len(b) < factsSize {
		return fmt.Errorf("read facts: %d bytes, and at least %d are expected", len(b), factsSize)
	}
	f.Session, f.ACR, f.AMR = [16]byte(b), b[16], b[17]
	for b = b[factsSize:]; len(b) > 0; {
		if len(b) < 2 || len(b) < 2+int(b[1]) {
			return errors.New("read facts: a field is cut off")
		}
		tag, value := b[0], b[2:2+int(b[1])]
		b = b[2+len(value):]
		switch {
		case tag == tagReportedACR:
			f.ReportedACR = string(value)
		case tag == tagReportedAMR:
			f.ReportedAMR = string(value)
		case tag == tagRequested && len(value) == 8:
			f.InUserInfo, f.InIDToken = binary.BigEndian.Uint32(value), binary.BigEndian.Uint32(value[4:])
		case tag == tagJKT && len(value) == len(f.JKT):
			f.JKT = oauth.JKT(value)
		case tag == tagDevice:
			f.Device = true
		case tag == tagSaysACR:
			f.SaysACR = true
		case tag == tagTrust:
			f.Trust = string(value)
		case tag == tagActing:
			f.Acting = string(value)
		case tag == tagAPIs && len(value) <= 2*len(f.APIs):
			for i := 0; i+1 < len(value); i += 2 {
				f.APIs[i/2] = binary.BigEndian.Uint16(value[i:])
			}
		}
	}
	return nil
}

// Text returns the stored form of f: the facts beside Claims in base64url, if
// there are any, and Claims. If f holds only Claims, the form is the one of earlier
// versions.
func (f Facts) Text() string {
	if !f.more() {
		return f.Claims
	}
	var b [64]byte
	return base64.RawURLEncoding.EncodeToString(f.Append(b[:0])) + f.Claims
}

// ParseFacts is the inverse of Text.
func ParseFacts(text string) (f Facts, err error) {
	i := strings.IndexByte(text, '{') // no character of base64url
	switch {
	case text == "" || i == 0:
		return Facts{Claims: text}, nil
	case i < 0:
		i = len(text)
	}
	b, err := base64.RawURLEncoding.DecodeString(text[:i])
	if err == nil {
		err = f.Read(b)
	}
	f.Claims = text[i:]
	return f, err
}
