// Package explain explains a token, a code, a request, a grant or a session, for an
// operator who looks for the reason why a client was refused: whether a request with
// it would be answered now, and if not, why, what the client is answered, and what to
// do; and then the history of its grant. The issuer decides; this package adds the
// words, the store's events, the audit log and the server's log. It prints no part of
// the text of a token.
package explain

import (
	"context"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/login"
)

// Explain explains its input. The log is used for a request only, and may be nil.
func (x *Explainer) Explain(ctx context.Context, a Input, log *Log) (*Explained, error) {
	v := &Explained{by: x, input: a}
	var e Explanation
	var err error
	switch a.kind {
	case inputRequest:
		if err := x.findRequest(ctx, v, log); err != nil {
			return nil, err
		}
		return v, x.completeLife(ctx, v)
	case inputGrant:
		id, _ := grant.ParseID(a.Text)
		e, err = x.Grant(ctx, id)
	case inputSession:
		return v, x.findSession(ctx, v, a.Subject, func(r login.StoredSession) bool { return r.Name == a.Text })
	default:
		if hint, err := x.Issuer.Hint(a.Text); err == nil {
			return v, x.findHinted(ctx, v, hint)
		}
		if a.Subject != "" && len(a.Text) == 22 {
			return v, x.findSession(ctx, v, a.Subject, hasSID(a.Text))
		}
		e, err = x.Token(ctx, a.Text)
	}
	if err != nil {
		return nil, err
	}
	v.Explanation = &e
	if g := e.Grant; g != nil && g.Session != [16]byte{} {
		if err := x.findSession(ctx, v, g.Subject, func(r login.StoredSession) bool { return r.Reference == g.Session }); err != nil {
			return nil, err
		}
	}
	return v, x.completeLife(ctx, v)
}

var (
	bearerForm    = lazily(`(?i)^(authorization:\s*)?bearer\s+`)
	requestIDHead = lazily(`(?i)^x-request-id:\s*`)
	uuidForm      = lazily(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`)
)

// lazily returns a function that compiles an expression when it is first called: most
// commands explain nothing.
func lazily(text string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })
}

// namedForms match a token or a code in a JSON object, a form or a URL. The first
// form that matches is used.
var namedForms = []func() *regexp.Regexp{named("refresh_token"), named("device_code"), named("code"), named("id_token_hint"), named("access_token"), named("token")}

func named(name string) func() *regexp.Regexp {
	return lazily(`(?:^|[?&#"'{,\s])(` + name + `)("\s*:\s*"|=)([^"'&#\s]+)`)
}

// Parse extracts the token, code or id from a pasted text.
func Parse(text string) Input {
	var a Input
	note := func(changed bool, text string) {
		if changed && !slices.Contains(a.notes, text) {
			a.notes = append(a.notes, text)
		}
	}
	text = strings.TrimSpace(text)
	for _, form := range namedForms {
		m := form().FindStringSubmatch(text)
		if m == nil {
			continue
		}
		text = m[3]
		if m[2] == "=" {
			note(true, "it was taken from the parameter "+m[1])
			if plain, err := url.QueryUnescape(text); err == nil {
				text = plain
			}
		} else {
			note(true, "it was taken from the member "+m[1]+" of a JSON object")
		}
		break
	}
	for {
		unquoted := strings.TrimSpace(strings.Trim(text, "\"'`<>"))
		note(unquoted != text, "quotes around it were left out: sent with them, it is refused")
		rest := bearerForm().ReplaceAllString(unquoted, "")
		note(rest != unquoted, "the word Bearer before it was left out")
		rest = requestIDHead().ReplaceAllString(rest, "")
		if rest == text {
			break
		}
		text = rest
	}
	if strings.Contains(text, "%") {
		if plain, err := url.QueryUnescape(text); err == nil {
			note(plain != text, "percent-encoding was undone: sent encoded twice, it is refused")
			text = plain
		}
	}
	joined := strings.Join(strings.Fields(text), "")
	note(joined != text, "spaces and line breaks in it were left out: sent with them, it is refused")
	text = joined

	a.kind, a.Text = inputText, text
	hex := strings.Trim(text, "0123456789abcdefABCDEF") == ""
	switch {
	case hex && len(text) == 32, uuidForm().MatchString(text):
		a.kind, a.Text = inputGrant, strings.ToLower(strings.ReplaceAll(text, "-", ""))
	case hex && len(text) == 16:
		a.kind, a.Text = inputRequest, strings.ToLower(text)
	case hex && len(text) == 24:
		a.kind, a.Text = inputSession, strings.ToLower(text)
	}
	return a
}
