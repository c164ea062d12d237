package issuer

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"strings"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
)

// A JWTFault is why a JWT is no access token of this issuer.
type JWTFault string

const (
	JWTNoFault      JWTFault = ""
	JWTUnreadable   JWTFault = "unreadable"    // no JSON in one of its parts
	JWTOtherIssuer  JWTFault = "other_issuer"  // says that somebody else made it
	JWTUnknownKey   JWTFault = "unknown_key"   // by a key that this store does not have
	JWTKeyGone      JWTFault = "key_gone"      // by a key of which nothing is left to check
	JWTKeyWithdrawn JWTFault = "key_withdrawn" // by a key that an operator has declared untrusted
	JWTWrongSeal    JWTFault = "wrong_seal"    // the signature does not fit
	JWTOtherType    JWTFault = "other_type"    // made here for another use
	JWTOtherMeaning JWTFault = "other_meaning" // its grant says otherwise
)

// JWTFacts are what a JWT says of itself. They are proven only if the
// explanation says that it is genuine.
type JWTFacts struct {
	Fault         JWTFault
	Locked        bool // the signature cannot be checked: keys are wrapped
	Algorithm     string
	Type          string
	Issuer        string
	ClientID      string
	Subject       string
	Audience      []string
	ExpectsIssuer string
}

// readJWT reads a text that may be a JWT.
func readJWT(iss *Issuer, view *View, text string, e *Explanation) {
	parts := strings.Split(text, ".")
	if len(parts) != 3 || len(text) > keys.MaxJWT {
		return
	}
	decode := func(part string, v any) error {
		b, err := base64.RawURLEncoding.DecodeString(part)
		if err != nil {
			return err
		}
		return json.Unmarshal(b, v)
	}
	var header struct {
		Alg, Kid, Typ string
	}
	if decode(parts[0], &header) != nil || header.Alg == "" {
		return
	}
	e.As = AsJWT
	facts := &JWTFacts{Algorithm: header.Alg, Type: header.Typ, ExpectsIssuer: iss.ID}
	e.JWT = facts
	if id, err := hex.DecodeString(header.Kid); err == nil && len(id) == 4 {
		e.Diagnosis.KeyID = grant.KeyID(uint32(id[0])<<24 | uint32(id[1])<<16 | uint32(id[2])<<8 | uint32(id[3]))
		e.Diagnosis.NamesKey = true
	}
	var c AccessClaims
	if decode(parts[1], &c) != nil {
		facts.Fault = JWTUnreadable
		return
	}
	facts.Issuer, facts.ClientID, facts.Subject, facts.Audience = c.Issuer, c.ClientID, c.Subject, c.Audience
	e.Scope = string(c.Scope)
	e.Token.ExpiresAt, e.Token.IssuedAt = grant.Instant(c.ExpiresAt)*1000, grant.Instant(c.IssuedAt)*1000
	if id, ok := ParseTokenID(c.ID); ok && c.Issuer == iss.ID {
		e.Named = true
		e.Token.GrantID, e.Token.Generation, e.Token.IssuedAt = id.GrantID, id.Generation, id.IssuedAt
	}
	life, known := view.Ring.Life(e.Diagnosis.KeyID, e.Now, iss.Directory.Schedule)
	_, _, signed := view.Ring.Verify(text)
	switch {
	case iss.IsAccessToken(view, text):
		e.Genuine = true
	case c.Issuer != iss.ID:
		facts.Fault = JWTOtherIssuer
	case !e.Diagnosis.NamesKey || !known:
		facts.Fault = JWTUnknownKey
	case !view.Ring.Has(e.Diagnosis.KeyID):
		facts.Locked = true
	case signed != nil:
		facts.Fault = JWTWrongSeal
	case life.Phase == keys.Withdrawn:
		facts.Fault = JWTKeyWithdrawn
	case life.Phase == keys.Gone:
		facts.Fault = JWTKeyGone
	default:
		facts.Fault = JWTOtherType
	}
}
