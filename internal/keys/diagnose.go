package keys

import (
	"encoding/base64"
	"encoding/binary"
	"strings"

	"github.com/mintage/mintage/internal/grant"
)

// A Fault is why a text is not authentic, as far as the ring can prove it. It is
// for operators: the response to the text does not contain it.
type Fault string

const (
	NoFault         Fault = ""
	Unlike          Fault = "unlike"           // it has none of the forms
	WrongCharacters Fault = "wrong_characters" // with characters that the form does not have
	WrongLength     Fault = "wrong_length"     // cut short, or with something added
	WrongVersion    Fault = "wrong_version"    // of a form that this version does not know
	UnknownKey      Fault = "unknown_key"      // by a key that this ring has never had
	WrongPurpose    Fault = "wrong_purpose"    // names a key that makes other things
	WrongSeal       Fault = "wrong_seal"       // names a key of this ring that has not sealed this
	Locked          Fault = "locked"           // perhaps authentic: the key cannot be used
)

// A Form is the kind of text that a prefix or a shape announces.
type Form string

const (
	NoForm      Form = ""
	RefreshForm Form = "refresh_token"
	AccessForm  Form = "access_token"
	CodeForm    Form = "authorization_code"
	ServiceForm Form = "service_token" // an access token of a client for itself
)

// A Diagnosis holds what is known of a text. Nothing in it is proven unless Fault
// is NoFault.
type Diagnosis struct {
	Form  Form
	Fault Fault
	// Length is the text's, in characters, and Least and Most those of its form.
	Length, Least, Most int
	// Place is the position of the first wrong character, from 1, and Character
	// that character, for WrongCharacters.
	Place     int
	Character rune
	// KeyID is the key that the text names, if NamesKey.
	KeyID    grant.KeyID
	NamesKey bool
	// Claim holds the fields of a refresh or opaque access token, if Legible.
	Claim   Token
	Legible bool
}

// LockedRing returns a ring whose keys stay wrapped: it has their timeline and
// opens nothing.
func LockedRing(records []Record) *Ring {
	return &Ring{Timeline: NewTimeline(records), byID: map[grant.KeyID]*key{}}
}

// Diagnose returns the form of a text, and why it is not authentic.
func (r *Ring) Diagnose(realm, text string) Diagnosis {
	d := Diagnosis{Length: len(text)}
	var body string
	for form, prefix := range map[Form]string{RefreshForm: RefreshPrefix, AccessForm: AccessPrefix, CodeForm: CodePrefix, ServiceForm: ServicePrefix} {
		if rest, ok := strings.CutPrefix(text, prefix); ok {
			d.Form, body = form, rest
			size := map[Form]int{RefreshForm: refreshSize + macSize, AccessForm: accessSize + macSize, CodeForm: codeHead + codeTag, ServiceForm: serviceHead + 2 + macSize}[form]
			d.Least = len(prefix) + base64.RawURLEncoding.EncodedLen(size)
			d.Most = d.Least
		}
	}
	if d.Form == NoForm {
		d.Fault = Unlike
		return d
	}
	switch d.Form {
	case CodeForm:
		d.Most = MaxOpenIDCode
	case ServiceForm:
		d.Most = len(ServicePrefix) + base64.RawURLEncoding.EncodedLen(maxService)
	}
	for i, c := range body {
		if !isBase64URL(c) {
			d.Fault, d.Place, d.Character = WrongCharacters, len(text)-len(body)+i+1, c
			return d
		}
	}
	// Decode the whole groups of characters of a truncated text.
	head, _ := base64.RawURLEncoding.DecodeString(body[:len(body)/4*4])
	purpose := MAC
	if d.Form == CodeForm {
		purpose = Seal
	}
	first := byte(version)
	if d.Form == AccessForm && len(head) > 0 && head[0] == targeted {
		first = targeted
		d.Least = len(AccessPrefix) + base64.RawURLEncoding.EncodedLen(targetedSize+macSize)
		d.Most = d.Least
	}
	if len(head) >= 5 && head[0] == first {
		d.KeyID, d.NamesKey = grant.KeyID(binary.BigEndian.Uint32(head[1:])), true
	}
	if d.Form != CodeForm && d.Form != ServiceForm && d.NamesKey && len(head) >= refreshSize {
		d.Claim, d.Legible = readToken(head), true
	}
	d.Fault = r.fault(d, realm, text, purpose, head, first)
	return d
}

func (r *Ring) fault(d Diagnosis, realm, text string, purpose Purpose, head []byte, first byte) Fault {
	record, known := r.record(d.KeyID)
	switch {
	case len(head) > 0 && head[0] != first:
		return WrongVersion
	case d.Length < d.Least || d.Length > d.Most:
		return WrongLength
	case !d.NamesKey || !known:
		return UnknownKey
	case record.Purpose != purpose:
		return WrongPurpose
	case r.byID[d.KeyID] == nil:
		return Locked
	}
	var err error
	switch d.Form {
	case RefreshForm:
		_, err = r.OpenRefresh(realm, text)
	case AccessForm:
		_, err = r.OpenAccess(realm, text)
	case ServiceForm:
		_, err = r.OpenService(realm, text)
	default:
		_, err = r.OpenCode(realm, text)
	}
	if err != nil {
		return WrongSeal
	}
	return NoFault
}

func isBase64URL(c rune) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_'
}

// record finds a key, wrapped or not.
func (t Timeline) record(id grant.KeyID) (Record, bool) {
	for _, line := range t.lines {
		for _, r := range line {
			if r.ID == id {
				return r, true
			}
		}
	}
	return Record{}, false
}

// Life returns the phase of a key, if there is such a key.
func (t Timeline) Life(id grant.KeyID, now grant.Instant, s Schedule) (Life, bool) {
	r, known := t.record(id)
	if !known {
		return Life{}, false
	}
	return t.life(r, now, s), true
}
