package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/mintage/mintage/internal/adminapi"
	"github.com/mintage/mintage/internal/oauth"
)

// readBody reads the body of a request of a route. Call it before the request takes a slot,
// so that a slow sender holds no slot.
func (x *call) readBody(rt Route) *Problem {
	limit := maxAdminBody
	switch {
	case rt.about("imports"):
		limit = maxImportBody
	case rt.about("clients", "apis", "trusts", "explain"):
		limit = maxLongBody
	}
	var err error
	if x.text, err = io.ReadAll(http.MaxBytesReader(x.w, x.Body, int64(limit))); errors.As(err, new(*http.MaxBytesError)) {
		return malformed(fmt.Sprintf("the body has more than %d bytes", limit))
	} else if err != nil {
		return malformed(err.Error())
	}
	return nil
}

// read decodes the body into v: one JSON value, without unknown or duplicate members.
func (x *call) read(v any) *Problem {
	if !utf8.Valid(x.text) {
		return malformed("the body is not UTF-8 text (RFC 8259 section 8.1)") // the decoder would replace what is not
	}
	if name, twice := duplicate(x.text); twice {
		return problem(&oauth.Invalid{Field: name, Message: "occurs twice (names are compared without case)", Unknown: true})
	}
	dec := json.NewDecoder(bytes.NewReader(x.text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); errors.As(err, new(*oauth.Invalid)) {
		return problem(err)
	} else if errors.Is(err, io.EOF) {
		return malformed("the body is missing: send a JSON object")
	} else if name := wrongTime(x.text); err != nil && name != "" {
		return malformed(name + " " + adminapi.NoTime)
	} else if err != nil {
		return malformed(adminapi.Misread("the body", err))
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return malformed("more than one JSON value")
	}
	if name := x.emptyMember(); name != "" {
		return problem(&oauth.Invalid{Field: name, Message: "is empty: name one, or leave it out for all"})
	}
	return nil
}

// wrongTime returns the name of a member that should be a time and is none, or "". The
// error of the decoder does not name the member.
func wrongTime(text []byte) string {
	var members map[string]json.RawMessage
	_ = json.Unmarshal(text, &members)
	for name, raw := range members {
		if (strings.HasSuffix(name, "_time") || strings.HasSuffix(name, "_at")) && json.Unmarshal(raw, new(time.Time)) != nil {
			return name
		}
	}
	return ""
}

// emptyMember returns the name of an empty member that should limit what ends, or a role,
// to one subject, client, session or realm; "" if there is none. A script sends it if a
// variable is not set: without the limit, everything would end, or the role would be for
// the deployment.
func (x *call) emptyMember() string {
	var members map[string]any
	if !slices.Contains([]string{sessionsPath + "/end", cutoffsPath, tokensPath, operatorsPath}, x.path) || json.Unmarshal(x.text, &members) != nil {
		return ""
	}
	for name, value := range members {
		if (value == "" || value == nil) && slices.Contains([]string{"subject", "client_id", "session", "realm"}, strings.ToLower(name)) {
			return name
		}
	}
	return ""
}

func malformed(detail string) *Problem {
	return &Problem{Problem: adminapi.Problem{Title: "malformed request", Status: http.StatusBadRequest, Detail: detail}}
}

// duplicate returns a name that an object within a JSON text has twice. It ignores case,
// as encoding/json does for the names of fields, and stops at the first syntax error.
func duplicate(text []byte) (name string, twice bool) {
	type value struct {
		seen  map[string]bool // nil: no object
		named bool            // the next token is the member's value
	}
	open := []value{{}}
	for dec := json.NewDecoder(bytes.NewReader(text)); ; {
		t, err := dec.Token()
		if err != nil {
			return "", false
		}
		in := &open[len(open)-1]
		if name, ok := t.(string); ok && in.seen != nil && !in.named {
			key := strings.Map(foldRune, name)
			if in.seen[key] {
				return name, true
			}
			in.seen[key], in.named = true, true
			continue
		}
		in.named = false
		switch t {
		case json.Delim('{'):
			open = append(open, value{seen: map[string]bool{}})
		case json.Delim('['):
			open = append(open, value{})
		case json.Delim('}'), json.Delim(']'):
			open = open[:len(open)-1]
		}
	}
}

// foldRune returns the least of the runes that differ from r in case alone.
func foldRune(r rune) rune {
	for {
		next := unicode.SimpleFold(r)
		if next <= r {
			return next
		}
		r = next
	}
}

// An Ask is a request of the admin API.
type Ask struct {
	Realm   string // whose API receives the request; "": the default realm
	Method  string
	Path    []string // below /admin/v1
	Query   url.Values
	IfMatch string // the entity tag that the resource must still have; "": any
	In      any    // the body; nil: none
}

// Request returns the HTTP request to the admin API at an address.
func (a Ask) Request(ctx context.Context, address string) (*http.Request, error) {
	address += "/admin/v1"
	if a.Realm != "" {
		address += "/realms/" + url.PathEscape(a.Realm)
	}
	for _, part := range a.Path {
		address += "/" + url.PathEscape(part)
	}
	if len(a.Query) > 0 {
		address += "?" + a.Query.Encode()
	}
	var body io.Reader
	if a.In != nil {
		text, err := json.Marshal(a.In)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(text)
	}
	r, err := http.NewRequestWithContext(ctx, a.Method, address, body)
	if err != nil {
		return nil, err
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if a.IfMatch != "" {
		r.Header.Set("If-Match", a.IfMatch)
	}
	return r, nil
}
