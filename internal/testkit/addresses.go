package testkit

// An Address is a redirect URI, with what the server must do about it.
type Address struct {
	URI      string
	Operator bool // an operator may register it for a native client
	Own      bool // a client that registers itself may have it, by document or by request
	// Shown is the part that pages show if any client may have the URI: the host, or for a
	// program the scheme with a colon.
	Shown string
	// Browser is how Chromium parses the URI: protocol and host of new URL(URI), or "" if
	// parsing fails.
	Browser string
}

// Addresses are valid redirect URIs, and those by which a client could show one address
// and receive the response at another.
var Addresses = []Address{
	// The Web.
	{"https://client.example/cb", true, true, "client.example", "https:client.example"},
	{"https://client.example", true, true, "client.example", "https:client.example"},
	{"https://client.example:8443/cb?a=b", true, true, "client.example:8443", "https:client.example:8443"},
	{"https://client.example:443/cb", true, true, "client.example", "https:client.example"},
	{"https://client.example./cb", true, true, "client.example.", "https:client.example."},
	{"https://my_client.example/cb", true, true, "my_client.example", "https:my_client.example"},
	{"https://xn--bcher-kva.example/cb", true, true, "xn--bcher-kva.example", "https:xn--bcher-kva.example"},
	{"https://client.example/%C3%BC%20", true, true, "client.example", "https:client.example"},
	{"https://127.0.0.1/cb", true, true, "127.0.0.1", "https:127.0.0.1"},
	{"https://[2001:db8::1]/cb", true, true, "[2001:db8::1]", "https:[2001:db8::1]"},
	{"https://localhost:3000/cb", true, true, "localhost:3000", "https:localhost:3000"},
	{"https://3dprinter/cb", true, true, "3dprinter", "https:3dprinter"},
	// This machine.
	{"http://127.0.0.1/cb", true, true, "127.0.0.1", "http:127.0.0.1"},
	{"http://127.0.0.1:3000/cb", true, true, "127.0.0.1:3000", "http:127.0.0.1:3000"},
	{"http://[::1]:3000/cb", true, true, "[::1]:3000", "http:[::1]:3000"},
	{"http://localhost/cb", true, true, "localhost", "http:localhost"},
	{"http://localhost:8787/cb", true, true, "localhost:8787", "http:localhost:8787"},
	{"http://localhost:80/cb", true, true, "localhost", "http:localhost"},
	// Programs.
	{"com.example.app:/cb", true, true, "com.example.app:", "com.example.app:"},
	{"com.example.app://accounts.google.com/cb", true, true, "com.example.app:", "com.example.app:accounts.google.com"},
	{"cursor://anysphere.cursor-mcp/oauth/callback", false, true, "cursor:", "cursor:anysphere.cursor-mcp"},
	{"vscode://vscode.github-authentication/did-authenticate", false, true, "vscode:", "vscode:vscode.github-authentication"},
	{"vscode-insiders://accounts.google.com/cb", false, true, "vscode-insiders:", "vscode-insiders:accounts.google.com"},
	{"windsurf://codeium.windsurf/cb", false, true, "windsurf:", "windsurf:codeium.windsurf"},
	{"zed://oauth", false, true, "zed:", "zed:oauth"},

	// Other spellings of the Web.
	{"HTTPS://collect.evil.example/cb", false, false, "", "https:collect.evil.example"},
	{"hTTps://collect.evil.example/cb", false, false, "", "https:collect.evil.example"},
	{"https://Accounts.Google.com/cb", false, false, "", "https:accounts.google.com"},
	{"https://accounts.google.com%E2%81%84o.evil.com/cb", false, false, "", "https:accounts.google.xn--como-2g7a.evil.com"},
	{"https://%D0%B0pple.com/cb", false, false, "", "https:xn--pple-43d.com"},
	{"https://аpple.com/cb", false, false, "", "https:xn--pple-43d.com"}, // the first letter is Cyrillic
	{"https://client.example%2F.evil.example/cb", false, false, "", ""},
	{"https://client%2Eexample/cb", false, false, "", "https:client.example"},
	{"https:client.example/cb", false, false, "", "https:client.example"},
	{"https:/client.example/cb", false, false, "", "https:client.example"},
	{"https:///client.example/cb", false, false, "", "https:client.example"},
	{`https:\\client.example\cb`, false, false, "", "https:client.example"},
	{`https://client.example\@evil.example/cb`, false, false, "", "https:client.example"},
	{"https://accounts.google.com@evil.example/cb", false, false, "", "https:evil.example"},
	{"https://2130706433/cb", false, false, "", "https:127.0.0.1"},
	{"https://0x7f.1/cb", false, false, "", "https:127.0.0.1"},
	{"https://0x7f000001/cb", false, false, "", "https:127.0.0.1"},
	{"https://127.1/cb", false, false, "", "https:127.0.0.1"},
	{"https://0177.0.0.1/cb", false, false, "", "https:127.0.0.1"},
	{"https://127.0.0.1./cb", false, false, "", "https:127.0.0.1"},
	{"https://[0:0:0:0:0:0:0:1]/cb", false, false, "", "https:[::1]"},
	{"https://[2001:DB8::1]/cb", false, false, "", "https:[2001:db8::1]"},
	{"https://[::ffff:127.0.0.1]/cb", false, false, "", "https:[::ffff:7f00:1]"},
	{"https://client.example:0443/cb", false, false, "", "https:client.example"},
	{"https://client.example:/cb", false, false, "", "https:client.example"},
	{"https://client.example:99999/cb", false, false, "", ""},
	{"https://client.example;evil.example/cb", false, false, "", "https:client.example;evil.example"},
	{"https://cli\tent.example/cb", false, false, "", "https:client.example"},
	{"https://client.example/cb\u202e", false, false, "", "https:client.example"},
	{"https://client.example/cb%E2%80%AE", false, false, "", "https:client.example"},
	{"https://client.example/cb%0A", false, false, "", "https:client.example"},
	{"https://client.example/cb#x", false, false, "", "https:client.example"},
	{"http://client.example/cb", false, false, "", "http:client.example"},
	{"http://LOCALHOST:3000/cb", false, false, "", "http:localhost:3000"},
	{"http://localhost.evil.example/cb", false, false, "", "http:localhost.evil.example"},
	// Schemes that do not belong to one program, and other spellings of schemes.
	{"microsoft.windows.camera:/cb", true, false, "microsoft.windows.camera:", "microsoft.windows.camera:"},
	{"COM.example.app:/cb", false, false, "", "com.example.app:"},
	{"Cursor://anysphere.cursor-mcp/cb", false, false, "", "cursor:anysphere.cursor-mcp"},
	{"vscode://Accounts.Google.com/cb", false, false, "", "vscode:Accounts.Google.com"},
	{"vscode://accounts.google.com%E2%81%84o/cb", false, false, "", "vscode:accounts.google.com%E2%81%84o"},
	{"googlechrome://collect.evil.example/cb", false, false, "", "googlechrome:collect.evil.example"},
	{"microsoft-edge:https://collect.evil.example/cb", false, false, "", "microsoft-edge:"},
	{"itms-services://?action=download-manifest&url=https://evil.example/x.plist", false, false, "", "itms-services:"},
	{"shortcuts://run-shortcut?name=x", false, false, "", "shortcuts:run-shortcut"},
	{"applescript://com.apple.scripteditor?action=new", false, false, "", "applescript:com.apple.scripteditor"},
	{"x-apple.systempreferences:com.apple.preference.security", true, false, "x-apple.systempreferences:", "x-apple.systempreferences:"},
	{"res://ieframe.dll/x", false, false, "", "res:ieframe.dll"},
	{"vnc://evil.example", false, false, "", "vnc:evil.example"},
	{"rdp://evil.example", false, false, "", "rdp:evil.example"},
	{"skype:evil?call", false, false, "", "skype:"},
	{"steam://run/1", false, false, "", "steam:"},
	{"market://details?id=evil", false, false, "", "market:details"},
	{"intent://evil.example/cb", false, false, "", "intent:evil.example"},
	{"javascript:alert(1)", false, false, "", "javascript:"},
	{"data:text/html,x", false, false, "", "data:"},
	{"file:///etc/passwd", false, false, "", "file:"},
}
