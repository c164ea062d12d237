package pages

import "time"

// The views below are the arguments of Render. Their strings may contain anything: Render
// escapes and isolates them. An empty string means unknown.

// An Attempt says why a form of the login is shown again.
type Attempt struct {
	Wrong bool // the last attempt failed
	// Throttled means that too many attempts failed. RetryMinutes is the time until the next
	// attempt is possible (0: unknown).
	Throttled    bool
	RetryMinutes int
}

func (a Attempt) failed() bool { return a.Wrong || a.Throttled }

// Login is the form for username and password.
type Login struct {
	Interaction string // its id
	Client      string // the client's name; empty without a client
	Host        string // of the redirect URI
	Username    string // value of the field: login_hint, or what was typed
	Cancel      bool   // offer to go back to the client
	Attempt
}

// SecondFactor is the form for the code of the authenticator app.
type SecondFactor struct {
	Interaction string
	Client      string
	Cancel      bool
	Attempt
}

// Account is the choice of the account to continue with (prompt=select_account).
type Account struct {
	Interaction string
	Session     string // identifies the session to continue
	Client      string
	Name        string // of the signed-in user; if empty, Username is shown
	Username    string
	Cancel      bool
}

// A Scope is a scope of a request. Text is its meaning; if empty, Options.Scopes or else
// the name is shown.
type Scope struct {
	Name string
	Text string
	// Texts maps languages to the meanings that the API of the scope has registered.
	Texts map[string]string
	New   bool // not agreed to before, though other scopes were
}

// Consent is the question whether a client may act for the user.
type Consent struct {
	Interaction string
	Client      string
	Host        string // host of the redirect URI, which receives the answer, or its scheme and a colon
	Name        string // of the signed-in user
	Username    string
	Scopes      []Scope // requested scopes
	Known       []Scope // agreed before, and part of the request again
	Beyond      []Beyond
	Remember    bool // offer to remember the choice
	// Local is set if a program on the user's device receives the answer.
	Local Local
	// Own is set if the client registered itself, and Client is a name of its own choice.
	// Address is its id if that is a URL, and AddressHost the host of Address.
	Own                  bool
	Address, AddressHost string
}

// Beyond holds the scopes that another client may obtain by exchanging tokens of the
// view's client (RFC 8693), beyond those that the view's client requests.
type Beyond struct {
	Client string
	Scopes []Scope
}

// DeviceCode is the form for the code that a device shows.
type DeviceCode struct {
	Wrong bool // no device waits for the code that was entered
}

func (d DeviceCode) failed() bool { return d.Wrong }

// Device is the question whether a device that shows a code may act for the user.
type Device struct {
	Interaction string
	Code        string
	Client      string
	Name        string // of the signed-in user
	Username    string
	From        string // address of the device
	Minutes     int    // since the device's request
	Scopes      []Scope
	Beyond      []Beyond
	// Own, Address and AddressHost are those of Consent.
	Own                  bool
	Address, AddressHost string
}

// DeviceDone shows that the user has answered. The device receives the answer by polling.
type DeviceDone struct {
	Client string // its name; empty: unknown
	Denied bool
}

// Again reports whether the user has agreed to all scopes before, and only continues.
func (c Consent) Again() bool { return len(c.Scopes) == 0 && len(c.Known) > 0 }

// A Local is a kind of program on the user's device.
type Local string

const (
	LocalProgram Local = "program" // listens on the loopback interface
	LocalApp     Local = "app"     // receives links of a private-use scheme; the view's Host is the scheme and a colon
)

// A Connection is a client that may act for the user.
type Connection struct {
	ClientID string
	Client   string
	Scopes   []Scope
	Since    time.Time
	LastUsed time.Time // zero: unknown
}

// Connections lists the clients that may act for the user.
type Connections struct {
	Name     string
	Username string
	Items    []Connection
	Done     string // the client that has just been disconnected
}

// Logout is the question whether to sign out.
type Logout struct {
	Session    string // identifies the session to end
	Name       string
	Username   string
	Everywhere bool // offer to end all sessions and grants
}

// EndSession asks whether to sign out, at the request of a client.
type EndSession struct {
	Interaction string
	Session     string // identifies the session to end
	Client      string // the requesting client; empty: unknown
	Name        string
	Username    string
}

// SignedOut says that the session has ended.
type SignedOut struct {
	// Before is set if the user wanted to sign out everywhere, and the session had ended
	// before: whose other sessions are meant is not known.
	Before bool
	// Everywhere is set if all sessions and grants of the user have ended.
	Everywhere bool
}

// Bounce shows an error in a client's request to a user who is not signed in. The user
// decides whether to return to the client with the error (RFC 9700 section 4.11.2).
type Bounce struct {
	Client string
	Host   string
	URL    string // the redirect URI with the error; registered, so verified
	// Fields holds the error if the client receives it by form_post. URL is then the redirect
	// URI alone.
	Fields    []Field
	Code      string // the OAuth error code
	Detail    string // its description, for developers; never text of a request
	RequestID string
	// Denied is set if the user has denied the request. The client does not receive that
	// unless the user follows the link.
	Denied bool
}

// A Field is a hidden field of a form.
type Field struct{ Name, Value string }

// FormPost sends the response to a client by POST (OAuth 2.0 Form Post Response Mode). Its
// script submits the form; without JavaScript, the user clicks its button.
type FormPost struct {
	Client string
	Host   string
	URL    string // the redirect URI; registered, so verified
	Fields []Field
}

// Script is the only script on any page: that of FormPost.
const Script = `document.getElementById("response").submit()`

// Message says what went wrong and what to do about it.
type Message struct {
	Key          MessageKey
	Client       string // its name, if known
	Code         string // an error code for the small print
	Detail       string // its description, for developers; never text of a request
	RequestID    string // for the small print
	RetryMinutes int    // of TooMany; 0: unknown
	// Back is the address with which the user can return to Client: its verified redirect URI
	// with an error, the address of the console, or "".
	Back string
	// Again is the path of the page of ours to which the user came, and not from a client,
	// without a slash before it; or "".
	Again string
}

// A MessageKey identifies a message about a problem.
type MessageKey string

// All messages.
const (
	UnknownClient       MessageKey = "unknown_client"       // client_id is missing or not registered
	BadRedirectURI      MessageKey = "bad_redirect_uri"     // redirect_uri is missing or not registered
	BadRequest          MessageKey = "bad_request"          // the request cannot be understood
	InteractionExpired  MessageKey = "interaction_expired"  // took too long
	InteractionUnknown  MessageKey = "interaction_unknown"  // the id is forged, or of another browser
	InteractionAnswered MessageKey = "interaction_answered" // answered before
	UserSwitched        MessageKey = "user_switched"        // another user signed in meanwhile
	CrossSite           MessageKey = "cross_site"           // the form was sent by another site
	ClientChanged       MessageKey = "client_changed"       // the client was changed or removed meanwhile
	ClientDisabled      MessageKey = "client_disabled"      // an operator has disabled a client that registered itself
	ClientUnread        MessageKey = "client_unread"        // the client's metadata document cannot be read
	TooMany             MessageKey = "too_many"             // 429
	TooManyCodes        MessageKey = "too_many_codes"       // 429: wrong codes of devices
	TooManyClients      MessageKey = "too_many_clients"     // 429: clients that registered themselves
	Unavailable         MessageKey = "unavailable"          // 503
	Internal            MessageKey = "internal"             // 500
	NotFound            MessageKey = "not_found"            // 404
	Method              MessageKey = "method"               // 405
	UpstreamFailed      MessageKey = "upstream_failed"      // the provider that signs in users failed
	Rejected            MessageKey = "rejected"             // the provider did not let the user in
	CookiesOff          MessageKey = "cookies_off"          // the provider rejected the login
	TooLarge            MessageKey = "too_large"            // 413
)

// MessageKeys lists all keys.
func MessageKeys() []MessageKey {
	return []MessageKey{
		UnknownClient, BadRedirectURI, BadRequest, InteractionExpired, InteractionUnknown, InteractionAnswered,
		UserSwitched, CrossSite, ClientChanged, ClientDisabled, ClientUnread, TooMany, TooManyCodes, TooManyClients, Unavailable, Internal, NotFound, Method,
		UpstreamFailed, Rejected, CookiesOff, TooLarge,
	}
}

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
