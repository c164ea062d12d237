package explain

import (
	"encoding/json"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// What is asked about, as its form tells.
const (
	askedText    = "text" // a token or a code, or what is taken for one
	askedGrant   = "grant"
	askedRequest = "request"
)

// An Asked is what somebody wants to know of. The text may be a secret.
type Asked struct {
	Text string
	kind string
	// notes tell what was done to find the token in what was pasted. A client
	// that sends it with that around it is refused.
	notes []string
}

// IsRequest reports whether the text is the id of a request.
func (a Asked) IsRequest() bool { return a.kind == askedRequest }

// Secret reports whether the text may be a secret: it is no id.
func (a Asked) Secret() bool { return a.kind == askedText }

var (
	grantIDForm   = regexp.MustCompile(`^[0-9a-fA-F]{32}$`)
	requestIDForm = regexp.MustCompile(`^[0-9a-fA-F]{16}$`)
	bearerForm    = regexp.MustCompile(`(?i)^(authorization:\s*)?bearer\s+`)
	requestIDHead = regexp.MustCompile(`(?i)^x-request-id:\s*`)
	uuidForm      = regexp.MustCompile(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`)
)

// pasted are the names under which tokens and codes come in answers, forms and
// URLs. Of several, the first is meant.
var pasted = []string{"refresh_token", "code", "access_token", "token"}

// Parse finds the one thing that a person has pasted.
func Parse(text string) Asked {
	var a Asked
	note := func(changed bool, text string) {
		if changed && !slices.Contains(a.notes, text) {
			a.notes = append(a.notes, text)
		}
	}
	text = strings.TrimSpace(text)
	if strings.HasPrefix(text, "{") {
		var answer map[string]json.RawMessage
		if json.Unmarshal([]byte(text), &answer) == nil {
			for _, name := range pasted {
				var value string
				if json.Unmarshal(answer[name], &value) == nil && value != "" {
					text = value
					note(true, "it was taken from the member "+name+" of a JSON object")
					break
				}
			}
		}
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
	if value, name := parameter(text); value != "" {
		text = value
		note(true, "it was taken from the parameter "+name)
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
	}
	return a
}

// parameter finds a token in a URL or a form.
func parameter(text string) (value, name string) {
	query := text
	if u, err := url.Parse(text); err == nil && u.Scheme != "" {
		query = u.RawQuery
		if query == "" {
			query = u.Fragment
		}
	}
	if !strings.Contains(query, "=") || strings.HasPrefix(query, "mintage_") {
		return "", ""
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		return "", ""
	}
	for _, name := range pasted {
		if v := values.Get(name); v != "" {
			return v, name
		}
	}
	return "", ""
}
