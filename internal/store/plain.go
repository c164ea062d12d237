package store

import (
	"encoding/base64"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// A plain reads JSON of the form in which this program writes most of it: no blanks, no
// escapes, members in a fixed order. A node decodes every client and API when it starts,
// and this takes an eighth of the time of encoding/json. It accepts nothing that
// encoding/json reads otherwise; decode gives everything else to encoding/json.
type plain struct {
	rest  string
	other bool // the text has another form
}

// A plainMember reads the value of a member.
type plainMember[T any] struct {
	name string
	read func(*plain, *T)
}

// decode reads a value into one that is zero: a client is large. The texts of the value
// share the memory of text. more holds the members that are not in known.
func decode[T any](list []plainMember[T], text string, into *T, more *Later, known func() map[string]bool) error {
	if decodePlain(list, text, into) {
		return nil
	}
	return decodeJSON(text, into, more, known)
}

// decodePlain decodes a value, or reports that encoding/json has to.
func decodePlain[T any](list []plainMember[T], text string, into *T) (ok bool) {
	p := &plain{rest: text}
	readMembers(p, list, into)
	return !p.other && p.rest == ""
}

// readMembers reads an object, whose members are some of list, in its order.
func readMembers[T any](p *plain, list []plainMember[T], into *T) {
	p.expect("{")
	for first := true; !p.other && !p.skip("}"); first = false {
		if !first {
			p.expect(",")
		}
		name := p.text()
		p.expect(":")
		for len(list) > 0 && list[0].name != name {
			list = list[1:]
		}
		if len(list) == 0 {
			p.other = true
			return
		}
		list[0].read(p, into)
		list = list[1:]
	}
}

// readPlain reads an array, or null, which is nil.
func readPlain[T any](p *plain, item func(*plain) T) []T {
	if p.skip("null") {
		return nil
	}
	p.expect("[")
	list := []T{}
	for first := true; !p.other && !p.skip("]"); first = false {
		if !first {
			p.expect(",")
		}
		list = append(list, item(p))
	}
	return list
}

func (p *plain) skip(text string) (found bool) {
	p.rest, found = strings.CutPrefix(p.rest, text)
	return found
}

func (p *plain) expect(text string) {
	if !p.skip(text) {
		p.other = true
	}
}

// text reads a string without escapes.
func (p *plain) text() string {
	p.expect(`"`)
	ascii := true
	for i := range len(p.rest) {
		switch c := p.rest[i]; {
		case c == '"':
			text := p.rest[:i]
			p.rest = p.rest[i+1:]
			if !ascii && !utf8.ValidString(text) {
				p.other = true
			}
			return text
		case c < ' ' || c == '\\':
			p.other = true
			return ""
		case c >= utf8.RuneSelf:
			ascii = false
		}
	}
	p.other = true
	return ""
}

func (p *plain) texts() []string { return readPlain(p, (*plain).text) }

// named reads texts by their names.
func (p *plain) named() map[string]string {
	p.expect("{")
	texts := map[string]string{}
	for first := true; !p.other && !p.skip("}"); first = false {
		if !first {
			p.expect(",")
		}
		name := p.text()
		p.expect(":")
		texts[name] = p.text()
	}
	return texts
}

// bytes reads a string in base64, without line breaks.
func (p *plain) bytes() []byte {
	b, err := base64.StdEncoding.DecodeString(p.text())
	if err != nil {
		p.other = true
	}
	return b
}

func (p *plain) boolean() bool {
	if p.skip("true") {
		return true
	}
	p.expect("false")
	return false
}

// number reads a whole number without an exponent.
func (p *plain) number() int64 {
	end := strings.IndexAny(p.rest, ",}]")
	if end < 0 {
		p.other = true
		return 0
	}
	digits := p.rest[:end]
	p.rest = p.rest[end:]
	n, err := strconv.ParseInt(digits, 10, 64)
	// JSON has neither "+1" nor "01", and "-0" is not worth a thought.
	if err != nil || digits[0] == '+' || digits != "0" && strings.HasPrefix(strings.TrimPrefix(digits, "-"), "0") {
		p.other = true
	}
	return n
}

// small reads a number of 16 bits.
func (p *plain) small() uint16 {
	n := p.number()
	if n < 0 || n > math.MaxUint16 {
		p.other = true
	}
	return uint16(n)
}
