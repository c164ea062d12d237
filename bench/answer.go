package bench

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/mintage/mintage/internal/keys"
)

// An answer is a token response. Its texts point into the response and are valid until
// the next one is read.
type answer struct {
	scope, tokenType, refresh, access []byte
	expiresIn                         int64
	errorCode                         []byte
}

// A fault is the reason why a request does not count as a success. There are few kinds,
// so that faults can be counted by kind.
type fault struct{ kind string }

func (f *fault) Error() string { return f.kind }

var (
	errNotJSON     = &fault{"answer: not the JSON object expected"}
	errContentType = &fault{"answer: Content-Type is not application/json"}
	errTokenType   = &fault{"answer: token_type is neither Bearer nor DPoP"}
	errExpiresIn   = &fault{"answer: expires_in out of bounds"}
	errNoAccess    = &fault{"answer: access_token missing"}
	errNoRefresh   = &fault{"answer: refresh_token missing"}
	errNoScope     = &fault{"answer: scope missing"}
	errUnchanged   = &fault{"answer: refresh_token is the one that was sent"}
	errOtherGrant  = &fault{"answer: the pair belongs to another grant"}
	errInactive    = &fault{"answer: the token is not active"}
	errSize        = &fault{"answer: not of the expected size"}
	errNoCode      = &fault{"answer: no redirect with a code"}
)

// parse reads a body. Nearly every answer is a flat object of plain strings and integers,
// for which scan suffices. encoding/json reads the others, at ten times the cost.
func (a *answer) parse(body []byte) error {
	*a = answer{}
	if a.scan(body) {
		return nil
	}
	var m struct {
		Scope        string `json:"scope"`
		ExpiresIn    int64  `json:"expires_in"`
		TokenType    string `json:"token_type"`
		RefreshToken string `json:"refresh_token"`
		AccessToken  string `json:"access_token"`
		Error        string `json:"error"`
	}
	if err := json.Unmarshal(body, &m); err != nil {
		return errNotJSON
	}
	*a = answer{
		scope: []byte(m.Scope), expiresIn: m.ExpiresIn, tokenType: []byte(m.TokenType),
		refresh: []byte(m.RefreshToken), access: []byte(m.AccessToken), errorCode: []byte(m.Error),
	}
	return nil
}

// scan reads an object whose members are strings without escapes, and
// expires_in, an integer without a sign. It reports whether body is one.
func (a *answer) scan(body []byte) bool {
	s := scanner{rest: body}
	if !s.take('{') {
		return false
	}
	for {
		name, ok := s.text()
		if !ok || !s.take(':') {
			return false
		}
		var value []byte
		var number int64
		if s.next() == '"' {
			value, ok = s.text()
		} else {
			number, ok = s.number()
		}
		if isText := value != nil; !ok || isText == (string(name) == "expires_in") {
			return false // perhaps of a wrong type: encoding/json decides
		}
		switch string(name) {
		case "scope":
			a.scope = value
		case "expires_in":
			a.expiresIn = number
		case "token_type":
			a.tokenType = value
		case "refresh_token":
			a.refresh = value
		case "access_token":
			a.access = value
		case "error":
			a.errorCode = value
		}
		if s.take('}') {
			return s.next() == 0 && len(s.rest) == 0
		}
		if !s.take(',') {
			return false
		}
	}
}

type scanner struct{ rest []byte }

// next skips white space and returns the byte after it, or zero at the end.
func (s *scanner) next() byte {
	for len(s.rest) > 0 {
		switch c := s.rest[0]; c {
		case ' ', '\t', '\r', '\n':
			s.rest = s.rest[1:]
		default:
			return c
		}
	}
	return 0
}

func (s *scanner) take(c byte) bool {
	if s.next() != c {
		return false
	}
	s.rest = s.rest[1:]
	return true
}

func (s *scanner) text() ([]byte, bool) {
	if !s.take('"') {
		return nil, false
	}
	end := bytes.IndexByte(s.rest, '"')
	if end < 0 || bytes.IndexByte(s.rest[:end], '\\') >= 0 {
		return nil, false
	}
	text := s.rest[:end]
	s.rest = s.rest[end+1:]
	return text, true
}

func (s *scanner) number() (n int64, ok bool) {
	s.next()
	digits := 0
	for len(s.rest) > 0 && s.rest[0] >= '0' && s.rest[0] <= '9' && digits < 18 {
		n = n*10 + int64(s.rest[0]-'0')
		s.rest = s.rest[1:]
		digits++
	}
	return n, digits > 0
}

// check reports what is wrong with the response to a request. sent is the refresh token
// of the request, or nil if the request contained a code.
func (a *answer) check(r *response, sent []byte, maxExpiresIn int64) error {
	if r.status != 200 {
		if len(a.errorCode) > 0 && len(a.errorCode) < 64 {
			return &fault{fmt.Sprintf("status %d %s", r.status, a.errorCode)}
		}
		return &fault{fmt.Sprintf("status %d", r.status)}
	}
	switch {
	case !r.json:
		return errContentType
	case !is(a.tokenType, "Bearer") && !is(a.tokenType, "DPoP"):
		return errTokenType
	case a.expiresIn < 1 || a.expiresIn > maxExpiresIn:
		return errExpiresIn
	case len(a.access) == 0:
		return errNoAccess
	case len(a.refresh) == 0:
		return errNoRefresh
	case sent != nil && bytes.Equal(a.refresh, sent):
		return errUnchanged
	}
	grant, ours := grantOf(a.refresh, keys.RefreshPrefix)
	if !ours {
		return nil // tokens of another server have an unknown form
	}
	// The case does not matter (RFC 6749 section 5.1), but Mintage's never changes.
	if string(a.tokenType) != "Bearer" && string(a.tokenType) != "DPoP" {
		return errTokenType
	}
	if len(a.scope) == 0 {
		return errNoScope
	}
	if of, ok := grantOf(a.access, keys.AccessPrefix); !isJWT(a.access) && (!ok || !bytes.Equal(of, grant)) {
		return errOtherGrant
	}
	if of, ok := grantOf(sent, keys.RefreshPrefix); sent != nil && (!ok || !bytes.Equal(of, grant)) {
		return errOtherGrant
	}
	return nil
}

// service checks the response with a token for the client itself.
func (a *answer) service(r *response, maxExpiresIn int64) error {
	if err := a.parse(r.body); err != nil {
		return err
	}
	switch {
	case !r.json:
		return errContentType
	case string(a.tokenType) != "Bearer" && string(a.tokenType) != "DPoP":
		return errTokenType
	case a.expiresIn < 1 || a.expiresIn > maxExpiresIn:
		return errExpiresIn
	case !bytes.HasPrefix(a.access, []byte(keys.ServicePrefix)):
		return errNoAccess
	}
	return nil
}

// isJWT recognizes a JWT by its three parts.
func isJWT(token []byte) bool { return bytes.Count(token, []byte(".")) == 2 }

// aliveJSON checks that an introspection response reports an active token.
func aliveJSON(r *response) error {
	if !r.json {
		return errContentType
	}
	if !bytes.HasPrefix(r.body, []byte(`{"active":true,`)) {
		return errInactive
	}
	return nil
}

// aliveEmpty checks the response to a proxy, which only has a status.
func aliveEmpty(r *response) error {
	if len(r.body) != 0 {
		return errSize
	}
	return nil
}

// codeAt checks for a redirect to the client with a code.
func codeAt(r *response, redirectURI string) error {
	if r.status != 303 {
		return &fault{fmt.Sprintf("status %d", r.status)}
	}
	if !bytes.HasPrefix(r.location, []byte(redirectURI+"?code="+keys.CodePrefix)) {
		return errNoCode
	}
	return nil
}

// grantOf returns the part of a Mintage token that depends only on its grant: the base64
// text after the version and the key id, which are 1 and 4 bytes.
func grantOf(token []byte, prefix string) ([]byte, bool) {
	const from, to = 7, 28
	if len(token) < len(prefix)+to || string(token[:len(prefix)]) != prefix {
		return nil, false
	}
	return token[len(prefix)+from : len(prefix)+to], true
}
