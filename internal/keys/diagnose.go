package keys

import (
	"encoding/base64"
	"encoding/binary"
	"strings"

	"github.com/mintage/mintage/internal/grant"
)

// A Fault is the reason why a token or code is not authentic, as far as the ring can
// prove it. It is for operators: the response to the request does not contain it.
type Fault string

const (
	NoFault         Fault = ""
	Unlike          Fault = "unlike"           // no known prefix
	WrongCharacters Fault = "wrong_characters" // characters that are not base64url
	WrongLength     Fault = "wrong_length"     // cut short, or with something added
	WrongVersion    Fault = "wrong_version"    // a version that this program cannot read
	UnknownKey      Fault = "unknown_key"      // names a key that this ring has never had
	WrongPurpose    Fault = "wrong_purpose"    // names a key of another purpose
	WrongSeal       Fault = "wrong_seal"       // names a key of this ring, which did not make it
	Locked          Fault = "locked"           // perhaps authentic: its key is still wrapped
)

// A Form is the kind of text that a prefix or a shape announces.
type Form string

const (
	NoForm      Form = ""
	RefreshForm Form = "refresh_token"
	AccessForm  Form = "access_token"
	CodeForm    Form = "authorization_code"
	ServiceForm Form = "service_token" // an access token of a client for itself, or one that it got in exchange
	DeviceForm  Form = "device_code"
)

// A Diagnosis describes a token or code. Nothing in it is proven unless Fault is
// NoFault.
type Diagnosis struct {
	Form  Form
	Fault Fault
	// Length is that of the text in characters; Least and Most are the limits of its form.
	Length, Least, Most int
	// Place is the position of the first wrong character, from 1, and Character is
	// that character, if Fault is WrongCharacters.
	Place     int
	Character rune
	// KeyID is the key that the text names, if NamesKey.
	KeyID    grant.KeyID
	NamesKey bool
	// Claim holds the fields of a refresh or opaque access token, if Legible.
	Claim   Token
	Legible bool
}

// LockedRing returns a ring whose keys stay wrapped: it has a timeline, but opens and
// verifies nothing.
func LockedRing(records []Stored) *Ring {
	return &Ring{Timeline: NewTimeline(records), byID: map[grant.KeyID]*key{}}
}

// A form holds the properties of a Form by which Diagnose judges a text.
type form struct {
	prefix  string
	least   int // bytes
	most    int // characters; 0 if the length is fixed
	purpose Purpose
	open    func(r *Ring, realm, text string) error
}

var forms = map[Form]form{
	RefreshForm: {RefreshPrefix, refreshSize + macSize, 0, MAC, opener((*Ring).OpenRefresh)},
	AccessForm:  {AccessPrefix, accessSize + macSize, 0, MAC, opener((*Ring).OpenAccess)},
	CodeForm:    {CodePrefix, codeHead + codeTag, MaxOpenIDCode, Seal, opener((*Ring).OpenCode)},
	ServiceForm: {ServicePrefix, serviceHead + 2 + macSize, len(ServicePrefix) + base64.RawURLEncoding.EncodedLen(maxService), MAC, opener((*Ring).OpenService)},
	DeviceForm:  {DevicePrefix, codeHead + deviceRecord + codeTag, maxDeviceCode, Seal, opener(OpenDeviceCode)},
}

func opener[T any](open func(r *Ring, realm, text string) (T, error)) func(r *Ring, realm, text string) error {
	return func(r *Ring, realm, text string) error {
		_, err := open(r, realm, text)
		return err
	}
}

// Diagnose returns the form of a text, and why it is not authentic.
func (r *Ring) Diagnose(realm, text string) Diagnosis {
	d := Diagnosis{Length: len(text)}
	var body string
	var of form
	for name, f := range forms {
		if rest, ok := strings.CutPrefix(text, f.prefix); ok {
			d.Form, body, of = name, rest, f
			d.Least = len(f.prefix) + base64.RawURLEncoding.EncodedLen(f.least)
			d.Most = max(d.Least, f.most)
		}
	}
	if d.Form == NoForm {
		d.Fault = Unlike
		return d
	}
	for i, c := range body {
		if !strings.ContainsRune(alphanumeric+"-_", c) {
			d.Fault, d.Place, d.Character = WrongCharacters, len(text)-len(body)+i+1, c
			return d
		}
	}
	// A truncated text may end within a group of base64: decode the whole groups only.
	head, _ := base64.RawURLEncoding.DecodeString(body[:len(body)/4*4])
	first := byte(version)
	switch {
	case len(head) == 0:
	case d.Form == AccessForm && (head[0] == targeted || head[0] == bound):
		size := targetedSize
		if first = head[0]; first == bound {
			size = boundSize
		}
		d.Least = len(AccessPrefix) + base64.RawURLEncoding.EncodedLen(size+macSize)
		d.Most = d.Least
	case d.Form == ServiceForm && (head[0] == boundService || head[0] == exchangedService):
		first = head[0]
	}
	if len(head) >= 5 && head[0] == first {
		d.KeyID, d.NamesKey = grant.KeyID(binary.BigEndian.Uint32(head[1:])), true
	}
	if (d.Form == RefreshForm || d.Form == AccessForm) && d.NamesKey && len(head) >= refreshSize {
		d.Claim, d.Legible = readToken(head), true
	}
	d.Fault = r.fault(d, realm, text, of, head, first)
	return d
}

func (r *Ring) fault(d Diagnosis, realm, text string, of form, head []byte, first byte) Fault {
	record, known := r.record(d.KeyID)
	switch {
	case len(head) > 0 && head[0] != first:
		return WrongVersion
	case d.Length < d.Least || d.Length > d.Most:
		return WrongLength
	case !d.NamesKey || !known:
		return UnknownKey
	case record.Purpose != of.purpose:
		return WrongPurpose
	case r.byID[d.KeyID] == nil:
		return Locked
	}
	if of.open(r, realm, text) != nil {
		return WrongSeal
	}
	return NoFault
}

// UnknownKey returns the key that a text in one of our forms names, and whether
// the ring lacks it. The text may be forged.
func (r *Ring) UnknownKey(text string) (id grant.KeyID, unknown bool) {
	for _, prefix := range []string{RefreshPrefix, AccessPrefix, CodePrefix, ServicePrefix, DevicePrefix} {
		if body, ok := strings.CutPrefix(text, prefix); ok {
			if len(body) < 8 {
				return 0, false
			}
			head, err := base64.RawURLEncoding.DecodeString(body[:8])
			if err != nil || head[0] < version || head[0] > exchangedService { // each form has some of these versions
				return 0, false
			}
			id = grant.KeyID(binary.BigEndian.Uint32(head[1:]))
			return id, !r.Has(id)
		}
	}
	header64, _, _ := strings.Cut(text, ".")
	header, err := decodeSegment(header64)
	if err != nil {
		return 0, false
	}
	alg, id, _, ok := parseHeader(string(header))
	return id, ok && alg.Signs() && !r.Has(id)
}
