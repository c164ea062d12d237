package pages_test

import (
	"bytes"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/mintage/mintage/internal/pages"
)

const base = "/auth"

func newSet(t *testing.T, opt pages.Options) *pages.Set {
	t.Helper()
	s, err := pages.New(opt)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func render(t *testing.T, s *pages.Set, locale string, page any) *html.Node {
	t.Helper()
	text, err := s.Render(locale, page)
	if err != nil {
		t.Fatal(err)
	}
	root, err := html.Parse(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return root
}

// elements returns all elements with a name, or all elements if it is "", in document
// order.
func elements(root *html.Node, name string) (list []*html.Node) {
	for n := range root.Descendants() {
		if n.Type == html.ElementNode && (name == "" || n.Data == name) {
			list = append(list, n)
		}
	}
	return list
}

func attr(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

func has(n *html.Node, name string) bool {
	return slices.ContainsFunc(n.Attr, func(a html.Attribute) bool { return a.Key == name })
}

func textOf(n *html.Node) string {
	var b strings.Builder
	for d := range n.Descendants() {
		if d.Type == html.TextNode {
			b.WriteString(d.Data + " ")
		}
	}
	return strings.Join(strings.Fields(b.String()), " ")
}

func byID(root *html.Node, id string) *html.Node {
	for _, n := range elements(root, "") {
		if attr(n, "id") == id {
			return n
		}
	}
	return nil
}

// everyPage calls f for each sample in each locale.
func everyPage(t *testing.T, f func(t *testing.T, locale string, sample pages.Sample, root *html.Node)) {
	s := newSet(t, pages.Options{BasePath: base})
	for _, locale := range pages.Locales {
		for _, sample := range pages.Samples() {
			t.Run(locale+"/"+sample.Name, func(t *testing.T) { f(t, locale, sample, render(t, s, locale, sample.Page)) })
		}
	}
}

func TestEveryPageIsADocumentThatAScreenReaderUnderstands(t *testing.T) {
	everyPage(t, func(t *testing.T, locale string, _ pages.Sample, root *html.Node) {
		if lang := attr(elements(root, "html")[0], "lang"); lang != locale {
			t.Errorf("lang is %q", lang)
		}
		for _, name := range []string{"title", "main", "h1"} {
			if list := elements(root, name); len(list) != 1 || textOf(list[0]) == "" {
				t.Errorf("there are %d elements %s, or one is empty", len(list), name)
			}
		}
		seen := map[string]bool{}
		for _, n := range elements(root, "") {
			if id := attr(n, "id"); id != "" && seen[id] {
				t.Errorf("two elements have the id %s", id)
			} else {
				seen[id] = true
			}
			for _, reference := range []string{"aria-describedby", "aria-labelledby"} {
				for id := range strings.FieldsSeq(attr(n, reference)) {
					if target := byID(root, id); target == nil || textOf(target) == "" {
						t.Errorf("%s of %s points to %s, which says nothing", reference, n.Data, id)
					}
				}
			}
			switch {
			case n.Data == "input" && attr(n, "type") != "hidden":
				if !slices.ContainsFunc(elements(root, "label"), func(l *html.Node) bool { return attr(l, "for") == attr(n, "id") && textOf(l) != "" }) {
					t.Errorf("the field %s has no label", attr(n, "name"))
				}
			case n.Data == "button" || n.Data == "a" || n.Data == "summary":
				if textOf(n) == "" && !doesNothing(n) {
					t.Errorf("a %s says nothing", n.Data)
				}
				if n.Data == "button" && attr(n, "type") != "submit" {
					t.Error("a button does nothing")
				}
			}
		}
	})
}

func TestNoPageHoldsScriptInlineStyleOrWhatIsElsewhere(t *testing.T) {
	everyPage(t, func(t *testing.T, _ string, sample pages.Sample, root *html.Node) {
		scripts := 0
		for _, n := range elements(root, "") {
			post, posts := sample.Page.(pages.FormPost)
			if n.Data == "script" && posts && len(n.Attr) == 0 && n.FirstChild.Data == pages.Script {
				scripts++
				continue
			}
			if slices.Contains([]string{"script", "style", "iframe", "object", "embed", "base"}, n.Data) {
				t.Errorf("there is an element %s", n.Data)
			}
			for _, a := range n.Attr {
				if a.Key == "style" || strings.HasPrefix(a.Key, "on") {
					t.Errorf("%s has the attribute %s", n.Data, a.Key)
				}
				if slices.Contains([]string{"src", "href", "action", "formaction", "srcset"}, a.Key) && !strings.HasPrefix(a.Val, base+"/") {
					message, _ := sample.Page.(pages.Message)
					if bounce, ok := sample.Page.(pages.Bounce); (!ok || a.Val != bounce.URL) && (a.Val != message.Back || attr(n, "id") != "back") && (!posts || a.Val != post.URL || a.Key != "action") {
						t.Errorf("%s %s is %q", n.Data, a.Key, a.Val)
					}
				}
			}
			if n.Data == "form" && !strings.EqualFold(attr(n, "method"), "post") {
				t.Error("a form is not posted")
			}
		}
		if _, posts := sample.Page.(pages.FormPost); posts != (scripts == 1) || scripts > 1 {
			t.Errorf("there are %d scripts", scripts)
		}
	})
}

// The fields that the authorization endpoint reads from each form.
func TestFormsSendTheirFields(t *testing.T) {
	s := newSet(t, pages.Options{BasePath: base})
	for _, c := range []struct {
		page   any
		action string
		sent   []string // name=value of hidden fields and buttons, name of others
	}{
		{pages.Login{Interaction: "I"}, "/oauth2/interaction", []string{"id=I", "step=login", "username", "password"}},
		{pages.Login{Interaction: "I", Cancel: true}, "/oauth2/interaction", []string{"id=I", "step=login", "username", "password", "action=cancel"}},
		{pages.SecondFactor{Interaction: "I", Cancel: true}, "/oauth2/interaction", []string{"id=I", "step=second_factor", "code", "action=cancel", "action=switch"}},
		{pages.Account{Interaction: "I", Session: "S", Cancel: true}, "/oauth2/interaction", []string{"id=I", "step=account", "session=S", "action=continue", "action=switch", "action=cancel"}},
		{pages.Consent{Interaction: "I"}, "/oauth2/interaction", []string{"id=I", "step=consent", "decision=deny", "decision=allow", "action=switch"}},
		{pages.Consent{Interaction: "I", Remember: true}, "/oauth2/interaction", []string{"id=I", "step=consent", "remember=yes", "decision=deny", "decision=allow", "action=switch"}},
		{pages.Connections{Items: []pages.Connection{{ClientID: "C", Client: "x"}}}, "/account/connections", []string{"client_id=C"}},
		{pages.Logout{Session: "S"}, "/account/logout", []string{"session=S"}},
		{pages.Logout{Session: "S", Everywhere: true}, "/account/logout", []string{"session=S", "everywhere=yes"}},
		{pages.EndSession{Interaction: "I", Session: "S"}, "/oauth2/interaction", []string{"id=I", "step=logout", "session=S", "action=logout", "action=cancel"}},
	} {
		root := render(t, s, "en", c.page)
		forms := elements(root, "form")
		if len(forms) != 1 || attr(forms[0], "action") != base+c.action {
			t.Fatalf("%T: %d forms, or not sent to %s", c.page, len(forms), c.action)
		}
		var sent []string
		for _, n := range elements(forms[0], "") {
			if name := attr(n, "name"); name != "" {
				if attr(n, "value") != "" {
					name += "=" + attr(n, "value")
				}
				sent = append(sent, name)
			}
		}
		if !slices.Equal(sent, c.sent) {
			t.Errorf("%T sends %q, want %q", c.page, sent, c.sent)
		}
	}
}

func TestFieldsTellBrowsersAndPasswordManagersWhatTheyAre(t *testing.T) {
	s := newSet(t, pages.Options{})
	login := render(t, s, "en", pages.Login{Interaction: "I", Username: "alice"})
	for id, want := range map[string]string{"username": "username", "password": "current-password"} {
		if got := attr(byID(login, id), "autocomplete"); got != want {
			t.Errorf("autocomplete of %s is %q", id, got)
		}
	}
	if attr(byID(login, "password"), "type") != "password" || has(byID(login, "password"), "value") || attr(byID(login, "username"), "value") != "alice" {
		t.Error("the username is not filled in, or the password is shown")
	}
	code := byID(render(t, s, "en", pages.SecondFactor{Interaction: "I"}), "code")
	if attr(code, "autocomplete") != "one-time-code" || attr(code, "inputmode") != "numeric" {
		t.Error("the field for the code does not say what it is")
	}
}

func TestAFailedAttemptIsAnnounced(t *testing.T) {
	s := newSet(t, pages.Options{})
	for _, c := range []struct {
		page   any
		fields []string // the fields with the error
		focus  string
		says   string
	}{
		{pages.Login{Username: "alice", Attempt: pages.Attempt{Wrong: true}}, []string{"username", "password"}, "password", "not correct"},
		{pages.Login{Attempt: pages.Attempt{Wrong: true}}, []string{"username", "password"}, "username", "not correct"},
		{pages.Login{Username: "alice", Attempt: pages.Attempt{Wrong: true, Throttled: true, RetryMinutes: 5}}, []string{"username", "password"}, "password", "wait 5 minutes"},
		{pages.Login{Attempt: pages.Attempt{Throttled: true, RetryMinutes: 1}}, []string{"username", "password"}, "username", "wait one minute"},
		{pages.SecondFactor{Attempt: pages.Attempt{Wrong: true}}, []string{"code"}, "code", "not correct"},
		{pages.SecondFactor{Attempt: pages.Attempt{Throttled: true}}, []string{"code"}, "code", "wait a while"},
	} {
		root := render(t, s, "en", c.page)
		alert := byID(root, "error")
		if alert == nil || attr(alert, "role") != "alert" || !strings.Contains(textOf(alert), c.says) {
			t.Fatalf("%+v: no alert that says %q", c.page, c.says)
		}
		for _, id := range c.fields {
			if !slices.Contains(strings.Fields(attr(byID(root, id), "aria-describedby")), "error") {
				t.Errorf("%+v: the field %s does not lead to the error", c.page, id)
			}
		}
		if title := textOf(elements(root, "title")[0]); !strings.HasPrefix(title, "Error: ") {
			t.Errorf("%+v: the title is %q", c.page, title)
		}
		focus := slices.DeleteFunc(elements(root, "input"), func(n *html.Node) bool { return !has(n, "autofocus") })
		if len(focus) != 1 || attr(focus[0], "id") != c.focus {
			t.Errorf("%+v: the focus is not on %s", c.page, c.focus)
		}
	}
	for _, page := range []any{pages.Login{}, pages.SecondFactor{}} {
		root := render(t, s, "en", page)
		if byID(root, "error") != nil || strings.HasPrefix(textOf(elements(root, "title")[0]), "Error") {
			t.Errorf("%T announces an error where there is none", page)
		}
	}
}

func TestConsentSaysWhoAsksWhoAnswersAndForWhat(t *testing.T) {
	s := newSet(t, pages.Options{Scopes: map[string]map[string]string{"read": {"en": "see your photos"}}})
	root := render(t, s, "en", pages.Consent{
		Client: "Printer", Host: "print.example", Name: "Alice", Username: "alice",
		Scopes: []pages.Scope{{Name: "read"}, {Name: "odd:scope", New: true}, {Name: "read", Text: "own words"}}, Known: []pages.Scope{{Name: "status"}},
	})
	text := textOf(elements(root, "main")[0])
	for _, want := range []string{"Allow Printer to access", "Signed in as Alice (alice)", "see your photos", "odd:scope New", "own words", "already allowed", "status", "Your answer goes to print.example"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page does not say %q: %s", want, text)
		}
	}
	if at := strings.Index(text, "Your answer goes to"); at > strings.Index(text, "Signed in as") {
		t.Errorf("where the answer goes stands far from the title: %s", text)
	}
	if buttons := elements(root, "button"); len(buttons) != 3 || textOf(buttons[0]) != "Deny" || textOf(buttons[1]) != "Allow" {
		t.Error("the first button is not the one that denies")
	}
}

// doesNothing reports whether n is the hidden button that closes a dialog which does not
// exist.
func doesNothing(n *html.Node) bool {
	return attr(n, "formmethod") == "dialog" && slices.ContainsFunc(n.Attr, func(a html.Attribute) bool { return a.Key == "hidden" })
}

// The Enter key in a check box presses the form's first button.
func TestTheEnterKeyInACheckBoxDoesNothing(t *testing.T) {
	everyPage(t, func(t *testing.T, _ string, _ pages.Sample, root *html.Node) {
		for _, form := range elements(root, "form") {
			box := slices.ContainsFunc(elements(form, "input"), func(n *html.Node) bool { return attr(n, "type") == "checkbox" })
			for i, button := range elements(form, "button") {
				if doesNothing(button) != (box && i == 0) {
					t.Errorf("with a check box: %t, and button %d does nothing: %t", box, i, doesNothing(button))
				}
			}
		}
	})
}

// Users see whose pages these are, including in the browser's tabs.
func TestTheNameOfTheServiceIsOnEveryPage(t *testing.T) {
	s := newSet(t, pages.Options{Name: "Example & Bank"})
	for _, sample := range pages.Samples() {
		root := render(t, s, "en", sample.Page)
		if header := elements(root, "header"); len(header) != 1 || textOf(header[0]) != "Example & Bank" {
			t.Errorf("%s: the name is not above the page", sample.Name)
		}
		if title := textOf(elements(root, "title")[0]); !strings.HasSuffix(title, " – Example & Bank") {
			t.Errorf("%s: the title is %q", sample.Name, title)
		}
	}
	root := render(t, newSet(t, pages.Options{}), "en", pages.SignedOut{})
	if title := textOf(elements(root, "title")[0]); title != "You are signed out" || textOf(elements(root, "header")[0]) != "" {
		t.Errorf("without a name: %q", title)
	}
}

// The account is a button with an accessible name.
func TestTheAccountIsAButton(t *testing.T) {
	s := newSet(t, pages.Options{})
	for initials, a := range map[string]pages.Account{
		"AC": {Name: "alice de la Cooper", Username: "alice"}, "B": {Username: "bob@example.com"}, "山": {Name: "山田 太郎", Username: "taro"},
		"É": {Name: "  (émile) 7", Username: "x"}, "": {Username: "1234"},
	} {
		root := render(t, s, "en", a)
		card := byID(root, "continue")
		avatar := elements(card, "span")[0]
		if textOf(avatar) != initials || attr(avatar, "aria-hidden") != "true" {
			t.Errorf("%+v: %q instead of %q", a, textOf(avatar), initials)
		}
		for _, want := range []string{"Continue with this account", strings.TrimSpace(a.Name), a.Username} {
			if !strings.Contains(textOf(card), want) {
				t.Errorf("%+v: the button says %q", a, textOf(card))
			}
		}
		if card.Data != "button" || len(elements(root, "p")) != 0 {
			t.Errorf("%+v: the account stands elsewhere too", a)
		}
	}
}

// The request id is easy to read and to copy: it is not small print, and one click
// selects it completely.
func TestTheRequestIDOfAnErrorIsEasyToRead(t *testing.T) {
	s := newSet(t, pages.Options{})
	for _, page := range []any{pages.Message{Key: pages.Internal, Code: "server_error", RequestID: "4CKX2RN7"}, pages.Bounce{URL: "https://a.example/", Code: "x", RequestID: "4CKX2RN7"}} {
		root := render(t, s, "en", page)
		var found *html.Node
		for _, n := range elements(root, "p") {
			if attr(n, "class") == "request" {
				found = n
			}
		}
		if found == nil || textOf(found) != "Request ID: 4CKX2RN7" || textOf(elements(found, "bdi")[0]) != "4CKX2RN7" {
			t.Errorf("%T does not show the request id in a paragraph of its own", page)
		}
		for _, small := range elements(root, "ul") {
			if strings.Contains(textOf(small), "4CKX2RN7") {
				t.Errorf("%T shows the request id in the small print", page)
			}
		}
	}
	if !regexp.MustCompile(`\.request bdi \{[^}]*user-select: all`).MatchString(styleSheet(t)) {
		t.Error("a click does not select the request id")
	}
}

func TestWhoHasSignedOutCanSignInAgain(t *testing.T) {
	root := render(t, newSet(t, pages.Options{BasePath: base}), "en", pages.SignedOut{})
	if links := elements(elements(root, "main")[0], "a"); len(links) != 1 || attr(links[0], "href") != base+"/account/connections" || textOf(links[0]) != "Sign in again" {
		t.Errorf("%d links", len(links))
	}
}

// If the server knows a safe way back, the page offers it as a button.
func TestAnErrorLeadsBackToTheClientWhereThatIsSafe(t *testing.T) {
	s := newSet(t, pages.Options{})
	for address, linked := range map[string]bool{"": false, "https://print.example/cb?error=access_denied": true, "javascript:alert(1)": false} {
		root := render(t, s, "en", pages.Message{Key: pages.InteractionExpired, Client: "Printer", Back: address})
		back := byID(root, "back")
		if linked != (back != nil) || linked && (attr(back, "href") != address || textOf(back) != "Back to Printer") {
			t.Errorf("%q: linked %t", address, back != nil)
		}
	}
}

// If a user has already consented to everything, the page is no new question.
func TestConsentThatWasGivenBeforeIsAContinuation(t *testing.T) {
	s := newSet(t, pages.Options{})
	known := []pages.Scope{{Name: "read"}}
	for heading, c := range map[string]pages.Consent{
		"Continue to Printer ?":                               {Client: "Printer", Host: "print.example", Known: known},
		"Continue to agent.example ?":                         {Client: "x", Own: true, AddressHost: "agent.example", Known: known},
		"Continue to an application that nobody has checked?": {Client: "x", Own: true, Known: known},
	} {
		root := render(t, s, "en", c)
		buttons := elements(root, "button")
		if h1, title := textOf(elements(root, "h1")[0]), textOf(elements(root, "title")[0]); h1 != heading || title != "Continue?" || textOf(buttons[0]) != "Cancel" || textOf(buttons[1]) != "Continue" {
			t.Errorf("%q, title %q, buttons %q and %q", h1, title, textOf(buttons[0]), textOf(buttons[1]))
		}
		c.Scopes = []pages.Scope{{Name: "write"}}
		if h1 := textOf(elements(render(t, s, "en", c), "h1")[0]); !strings.HasPrefix(h1, "Allow ") {
			t.Errorf("%q of a request for more", h1)
		}
	}
}

// Only the button that continues is filled, so that users find the way on and nobody is
// led to consent. Unfolding shows another one.
func TestAScreenHasOneFilledButton(t *testing.T) {
	filled := func(n *html.Node) bool {
		return slices.ContainsFunc(strings.Fields(attr(n, "class")), func(c string) bool { return c == "primary" || c == "danger" || c == "strong" })
	}
	everyPage(t, func(t *testing.T, _ string, _ pages.Sample, root *html.Node) {
		folded := len(elements(root, "details"))
		count := 0
		for _, n := range slices.Concat(elements(root, "button"), elements(root, "a")) {
			if !filled(n) {
				continue
			}
			if id := attr(n, "id"); id == "deny" || id == "cancel" || id == "everywhere" {
				t.Errorf("%s is filled", id)
			}
			count++
		}
		if count > max(1, folded) {
			t.Errorf("%d buttons are filled", count)
		}
	})
}

func TestDatesAreInTheFormOfTheLocale(t *testing.T) {
	s := newSet(t, pages.Options{})
	for day, forms := range map[time.Time]map[string]string{
		time.Date(2025, time.March, 5, 23, 30, 0, 0, time.UTC): {"en": "5 March 2025", "de": "5. März 2025", "es": "5 de marzo de 2025", "fr": "5 mars 2025", "ja": "2025年3月5日"},
		time.Date(2026, time.August, 1, 1, 0, 0, 0, time.FixedZone("", 3600)): {
			"en": "1 August 2026", "de": "1. August 2026", "es": "1 de agosto de 2026", "fr": "1er août 2026", "ja": "2026年8月1日"},
		time.Date(2026, time.December, 31, 0, 0, 0, 0, time.UTC): {"en": "31 December 2026", "de": "31. Dezember 2026", "es": "31 de diciembre de 2026", "fr": "31 décembre 2026", "ja": "2026年12月31日"},
	} {
		for _, locale := range pages.Locales {
			shown := elements(render(t, s, locale, pages.Connections{Items: []pages.Connection{{Client: "x", Since: day}}}), "time")[0]
			if textOf(shown) != forms[locale] || attr(shown, "datetime") != day.UTC().Format(time.DateOnly) {
				t.Errorf("%s: %q, datetime %s, want %q", locale, textOf(shown), attr(shown, "datetime"), forms[locale])
			}
		}
	}
}

func TestBounceLinksToTheClientOnly(t *testing.T) {
	s := newSet(t, pages.Options{})
	for address, linked := range map[string]bool{
		"https://print.example/cb?error=x&state=%22": true,
		"http://127.0.0.1:8000/cb?error=x":           true,
		"com.example.app:/cb?error=x":                true,
		"javascript:alert(1)":                        false,
		"data:text/html,x":                           false,
		"//evil.example/":                            false,
		"":                                           false,
		"vbscript:x":                                 false,
		"https://print.example/%zz\" onclick=\"":     false,
	} {
		links := elements(render(t, s, "en", pages.Bounce{Client: "x", Host: "h", URL: address}), "a")
		if linked != (len(links) == 1 && attr(links[0], "href") == address) || !linked && len(links) != 0 {
			t.Errorf("%s: %d links", address, len(links))
		}
	}
}

func TestWhatIsNoPageIsAnError(t *testing.T) {
	s := newSet(t, pages.Options{})
	for _, page := range []any{nil, "login", &pages.Login{}, pages.Message{}, pages.Message{Key: "login"}} {
		if text, err := s.Render("en", page); err == nil {
			t.Errorf("%s is a page of %d bytes", reflect.TypeOf(page), len(text))
		}
	}
}
