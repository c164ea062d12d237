package grant

import (
	"encoding/base64"
	"fmt"
	"strings"
)

// Facts are what an authorization says about the subject and the login. They are
// fixed when the code is issued, travel in it, and stay in the grant's row. A new
// fact is a field here and a position in append and read.
type Facts struct {
	// Claims is a JSON object about the subject, set at authentication, or "".
	Claims string
	// Session refers to the login session; zero if there was none. It is never
	// sent: see openid.SessionID.
	Session [16]byte
	// ACR and AMR are how the subject was authenticated; zero if that is unknown.
	// Package openid names their values.
	ACR, AMR uint8
}

// factsSize is the length of the facts beside Claims.
const factsSize = 16 + 1 + 1

// more reports whether f holds anything beside Claims.
func (f Facts) more() bool { f.Claims = ""; return f != Facts{} }

// Append appends the facts beside Claims to b, or nothing if there are none.
func (f Facts) Append(b []byte) []byte {
	if !f.more() {
		return b
	}
	return append(append(b, f.Session[:]...), f.ACR, f.AMR)
}

// Read sets the facts that Append has written, all but Claims. What a later
// version has appended is left out.
func (f *Facts) Read(b []byte) error {
	if len(b) < factsSize {
		return fmt.Errorf("read facts: %d bytes, and at least %d are expected", len(b), factsSize)
	}
	f.Session, f.ACR, f.AMR = [16]byte(b), b[16], b[17]
	return nil
}

// Text returns the stored form of f: the facts beside Claims in base64url, if
// there are any, and Claims. Facts that are claims alone are stored as versions
// before stored them.
func (f Facts) Text() string {
	if !f.more() {
		return f.Claims
	}
	var b [factsSize]byte
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
