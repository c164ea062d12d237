package explain

import (
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// Kinds of input, recognised by form.
const (
	askedText    = "text" // a token or a code, or any other text
	askedGrant   = "grant"
	askedRequest = "request"
	askedSession = "session"
)

// An Asked is the input of Explain. Its text may be a secret.
type Asked struct {
	Text string
	kind string
	// Subject is whose session the text names. A session is found by its subject.
	Subject string
	// notes say how the token was extracted from the pasted text. A client that
	// sends the rest with it is refused.
	notes []string
}

// IsRequest reports whether the text is the id of a request.
func (a Asked) IsRequest() bool { return a.kind == askedRequest }

// Secret reports whether the text may be a secret: it is no id.
func (a Asked) Secret() bool { return a.kind == askedText }

var (
	grantIDForm   = regexp.MustCompile(`^[0-9a-fA-F]{32}$`)
	sessionForm   = regexp.MustCompile(`^[0-9a-fA-F]{24}$`)
	requestIDForm = regexp.MustCompile(`^[0-9a-fA-F]{16}$`)
	bearerForm    = regexp.MustCompile(`(?i)^(authorization:\s*)?bearer\s+`)
	requestIDHead = regexp.MustCompile(`(?i)^x-request-id:\s*`)
	uuidForm      = regexp.MustCompile(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`)
)

// namedForms match a token or a code in a JSON object, a form or a URL. The first
// form that matches is used.
var namedForms = []*regexp.Regexp{named("refresh_token"), named("code"), named("id_token_hint"), named("access_token"), named("token")}

func named(name string) *regexp.Regexp {
	return regexp.MustCompile(`(?:^|[?&#"'{,\s])(` + name + `)("\s*:\s*"|=)([^"'&#\s]+)`)
}

// Parse extracts the token, code or id from a pasted text.
func Parse(text string) Asked {
	var a Asked
	note := func(changed bool, text string) {
		if changed && !slices.Contains(a.notes, text) {
			a.notes = append(a.notes, text)
		}
	}
	text = strings.TrimSpace(text)
	for _, form := range namedForms {
		m := form.FindStringSubmatch(text)
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
		rest := bearerForm.ReplaceAllString(unquoted, "")
		note(rest != unquoted, "the word Bearer before it was left out")
		rest = requestIDHead.ReplaceAllString(rest, "")
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

	a.kind, a.Text = askedText, text
	switch {
	case uuidForm.MatchString(text), grantIDForm.MatchString(text):
		a.kind, a.Text = askedGrant, strings.ToLower(strings.ReplaceAll(text, "-", ""))
	case requestIDForm.MatchString(text):
		a.kind, a.Text = askedRequest, strings.ToLower(text)
	case sessionForm.MatchString(text):
		a.kind, a.Text = askedSession, strings.ToLower(text)
	}
	return a
}
