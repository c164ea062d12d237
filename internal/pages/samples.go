package pages

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"time"
)

// A Sample is a page in one of its states.
type Sample struct {
	Name string
	Page any
}

// Samples returns all pages in all their states. New renders them, and tests check them.
func Samples() []Sample {
	const id, client, host = "Jx3mEw0PZqk", "Photo Printer", "print.example"
	day := time.Date(2026, time.March, 5, 9, 30, 0, 0, time.UTC)
	read, order := Scope{Name: "photos:read"}, Scope{Name: "orders:write"}
	plain := Scope{Name: "status", Text: "see when you were last here"}
	fresh := order
	fresh.New = true
	list := []Sample{
		{"login", Login{Interaction: id, Client: client, Host: host, Cancel: true}},
		{"login-self", Login{Interaction: id}},
		{"login-hint", Login{Interaction: id, Client: client, Host: host, Username: "alice", Cancel: true}},
		{"login-wrong", Login{Interaction: id, Client: client, Host: host, Username: "alice", Cancel: true, Attempt: Attempt{Wrong: true}}},
		{"login-throttled", Login{Interaction: id, Client: client, Username: "alice", Cancel: true, Attempt: Attempt{Throttled: true, RetryMinutes: 5}}},
		{"second-factor", SecondFactor{Interaction: id, Client: client, Cancel: true}},
		{"second-factor-wrong", SecondFactor{Interaction: id, Client: client, Cancel: true, Attempt: Attempt{Wrong: true}}},
		{"second-factor-throttled", SecondFactor{Interaction: id, Attempt: Attempt{Throttled: true, RetryMinutes: 1}}},
		{"account", Account{Interaction: id, Client: client, Name: "Alice Example", Username: "alice", Cancel: true}},
		{"consent", Consent{Interaction: id, Client: client, Host: host, Name: "Alice Example", Username: "alice", Scopes: []Scope{read, order, plain}, Remember: true}},
		{"consent-more", Consent{Interaction: id, Client: client, Host: host, Name: "Alice Example", Username: "alice", Scopes: []Scope{fresh}, Known: []Scope{read, plain}, Remember: true}},
		{"consent-beyond", Consent{Interaction: id, Client: client, Host: host, Username: "alice", Scopes: []Scope{read}, Beyond: []Beyond{{"Shipping", []Scope{order, plain}}}, Remember: true}},
		{"consent-again", Consent{Interaction: id, Client: client, Host: host, Username: "alice", Known: []Scope{read}}},
		{"consent-agent-again", Consent{Interaction: id, Client: "Example Agent", Own: true, Address: "https://agent.example/oauth/client.json", AddressHost: "agent.example", Host: "127.0.0.1:3118", Local: LocalProgram, Username: "alice", Known: []Scope{read}}},
		{"consent-nothing", Consent{Interaction: id, Client: client, Host: host, Username: "alice"}},
		{"consent-local", Consent{Interaction: id, Client: client, Host: "127.0.0.1:8085", Local: LocalProgram, Username: "alice", Scopes: []Scope{read}}},
		{"consent-agent", Consent{Interaction: id, Client: "Example Agent", Own: true, Address: "https://agent.example/oauth/client.json", AddressHost: "agent.example", Host: "agent.example", Username: "alice", Scopes: []Scope{read}, Remember: true}},
		{"consent-agent-elsewhere", Consent{Interaction: id, Client: client, Own: true, Address: "https://agent.example/oauth/client.json", AddressHost: "agent.example", Host: host, Username: "alice", Scopes: []Scope{read}, Remember: true}},
		{"consent-agent-local", Consent{Interaction: id, Client: "Example Agent", Own: true, Address: "https://agent.example/oauth/client.json", AddressHost: "agent.example", Host: "localhost:3118", Local: LocalProgram, Username: "alice", Scopes: []Scope{read}}},
		{"consent-agent-app", Consent{Interaction: id, Client: "Example Agent", Own: true, Host: "cursor:", Local: LocalApp, Username: "alice", Scopes: []Scope{fresh}, Known: []Scope{plain}}},
		{"device-code", DeviceCode{}},
		{"device-code-wrong", DeviceCode{Wrong: true}},
		{"device", Device{Interaction: id, Code: "WDJB-MJHT", Client: "Example CLI", Name: "Alice Example", Username: "alice", From: "192.0.2.7", Minutes: 1, Scopes: []Scope{read, order, plain}}},
		{"device-agent", Device{Interaction: id, Code: "WDJB-MJHT-BCDF", Client: "Example Agent", Own: true, Address: "https://agent.example/oauth/client.json", AddressHost: "agent.example", Username: "alice", From: "2001:db8::7", Minutes: 3, Scopes: []Scope{read}}},
		{"device-unnamed", Device{Interaction: id, Code: "WDJB-MJHT", Client: "Example Agent", Own: true, Username: "alice", From: "192.0.2.7"}},
		{"device-done", DeviceDone{Client: "Example CLI"}},
		{"device-done-unnamed", DeviceDone{}},
		{"device-denied", DeviceDone{Client: "Example CLI", Denied: true}},
		{"device-denied-unnamed", DeviceDone{Denied: true}},
		{"connections", Connections{Name: "Alice Example", Username: "alice", Items: []Connection{
			{ClientID: "Zx81kQ", Client: client, Scopes: []Scope{read, order}, Since: day.AddDate(-1, 0, 0), LastUsed: day},
			{ClientID: "Ht40aV", Client: "Billing", Scopes: []Scope{plain}, Since: day},
		}}},
		{"connections-done", Connections{Name: "Alice Example", Done: client, Items: []Connection{{ClientID: "Ht40aV", Client: "Billing"}}}},
		{"connections-none", Connections{Username: "alice"}},
		{"logout", Logout{Name: "Alice Example", Username: "alice", Everywhere: true}},
		{"end-session", EndSession{Interaction: id, Client: client, Name: "Alice Example", Username: "alice"}},
		{"end-session-unnamed", EndSession{Interaction: id, Username: "alice"}},
		{"signed-out", SignedOut{}},
		{"signed-out-everywhere", SignedOut{Everywhere: true}},
		{"signed-out-before", SignedOut{Before: true}},
		{"bounce", Bounce{Client: client, Host: host, URL: "https://print.example/callback?error=invalid_scope&state=1", Code: "invalid_scope", Detail: "scope not allowed", RequestID: "4CKX2RN7"}},
		{"bounce-form", Bounce{Client: client, Host: host, URL: "https://print.example/callback", Fields: []Field{{"error", "invalid_scope"}, {"state", "1"}}, Code: "invalid_scope"}},
		{"form-post", FormPost{Client: client, Host: host, URL: "https://print.example/callback?a=b", Fields: []Field{{"code", "mtc_x"}, {"state", `<">&`}}}},
		{"form-post-unnamed", FormPost{URL: "https://print.example/callback", Fields: []Field{{"error", "access_denied"}}}},
		{"bounce-denied", Bounce{Client: "agent.example", URL: "cursor://anysphere.cursor-mcp/oauth/callback?error=access_denied", Code: "access_denied", Denied: true}},
		{"bounce-denied-unnamed", Bounce{URL: "cursor://anysphere.cursor-mcp/oauth/callback?error=access_denied", Code: "access_denied", Denied: true}},
		{"bounce-unnamed", Bounce{URL: "com.example.app:/callback?error=invalid_request", Code: "invalid_request"}},
	}
	for _, key := range MessageKeys() {
		list = append(list, Sample{"message-" + string(key), Message{Key: key, Client: client, Code: "invalid_request", Detail: "redirect_uri not registered", RequestID: "4CKX2RN7", RetryMinutes: 3}})
	}
	back := Message{Key: InteractionExpired, Client: client, RequestID: "4CKX2RN7", Back: "https://print.example/callback?error=access_denied"}
	return append(list, Sample{"message-back", back}, Sample{"message-again", Message{Key: InteractionExpired, RequestID: "4CKX2RN7", Again: "account/connections"}}, Sample{"message-bare", Message{Key: Internal}}, Sample{"message-wait", Message{Key: TooMany}})
}

// fields maps the name of a page to the fields that its form must have.
var fields = map[string][]string{
	"login": {"id", "step", "username", "password"}, "second_factor": {"id", "step", "code"},
	"account": {"id", "step", "action"}, "consent": {"id", "step", "decision"},
	"device_code": {"user_code"}, "device": {"id", "step", "decision", "same"},
	"end_session": {"id", "step", "action"},
}

// rehearse renders every sample in every locale, and checks that the forms of the
// operator's pages have all their fields.
func (s *Set) rehearse(b brand) error {
	if err := b.check(s.assets); err != nil {
		return err
	}
	for _, locale := range slices.Sorted(maps.Keys(s.locales)) {
		for _, sample := range Samples() {
			page, err := s.Render(locale, sample.Page)
			if err != nil {
				return fmt.Errorf("page %s (%s): %w", sample.Name, locale, err)
			}
			name := nameOf(sample.Page)
			for _, field := range fields[name] {
				if !regexp.MustCompile(`\sname=["']?` + field + `\b`).Match(page) {
					return fmt.Errorf("%s.html: its form has no field named %q", name, field)
				}
			}
		}
	}
	return nil
}
