package oauth_test

import (
	"strings"
	"testing"

	"github.com/mintage/mintage/internal/oauth"
)

func TestAddressesOfClients(t *testing.T) {
	t.Parallel()
	long := "https://a.example/" + strings.Repeat("x", 255-len("https://a.example/"))
	for _, good := range []string{
		"https://claude.ai/oauth/claude-code-client-metadata", "https://vscode.dev/oauth/client-metadata.json", "https://a.example/", "https://a.example:8443/c",
		"https://a.example/a/b%20c", "https://xn--e1afmkfd.example/c", "https://a.example/..c/c..", "https://127.0.0.1:9443/c", long,
	} {
		if err := oauth.CheckClientAddress(good); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for _, bad := range []string{
		"", "client", "http://a.example/c", "HTTPS://a.example/c", "Https://a.example/c", "https:a.example/c", "https:///c", "https://a.example", "https://:443/c",
		"https://a.example?c", "https://a.example/c?", "https://a.example/c?d=e", "https://a.example/c#", "https://a.example/c#d",
		"https://u@a.example/c", "https://u:p@a.example/c", "https://@a.example/c", "https://a.example%40b.example/c",
		"https://a.example/./c", "https://a.example/../c", "https://a.example/c/.", "https://a.example/c/..", "https://a.example/%2e/c", "https://a.example/%2E%2e/c", "https://a.example/.%2e/c",
		"https://a.example/a b", "https://a.example/é", "https://é.example/c", "https://a.example\\c", "https://a.example/%zz", "https://a.example/c\n", "https://a.example/<c>",
		long + "x",
	} {
		if oauth.CheckClientAddress(bad) == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

func TestRedirectURIsThatClientsGiveThemselves(t *testing.T) {
	t.Parallel()
	for _, good := range []string{
		"https://client.example/cb", "http://127.0.0.1/cb", "http://127.0.0.1:3000/callback", "http://[::1]/cb", "http://localhost/callback", "http://localhost:3118/callback",
		"com.example.app:/cb", "cursor://anysphere.cursor-mcp/oauth/callback", "vscode://vscode.github-authentication/did-authenticate", "zed://oauth",
	} {
		if err := oauth.CheckOwnRedirectURI(good); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for _, bad := range []string{
		"", "/cb", "cb", "http://client.example/cb", "http://127.0.0.2/cb", "http://localhost.example/cb", "https://client.example/cb#f", "https://u@client.example/cb", "https:///cb",
		"httpx://a/cb", "http+unix://a/cb", "HTTP://client.example/cb", "javascript:alert(1)", "JavaScript:alert(1)", "data:text/html,x", "file:///etc/passwd", "blob:https://a.example/1",
		"about:blank", "ms-msdt:/id", "ms-officecmd:x", "search:query=x", "search-ms:query=x&crumb=location:%5C%5Cevil.example", "shell:startup", "smb://evil.example/a", "ldap://evil.example/a", "jnlp://evil.example/a", "vbscript:x", "view-source:https://a.example", "web+app:x", "cursor://a/cb#f", "cursor://a/<cb>", "cursor://a/\ncb", "cursor://u@a/cb",
		"cursor://" + strings.Repeat("a", 2000),
	} {
		if oauth.CheckOwnRedirectURI(bad) == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
	// The rules for redirect URIs that an operator registers are unchanged.
	if err := oauth.CheckRedirectURI("cursor://a/cb", true); err == nil || !strings.Contains(err.Error(), `scheme "cursor" is not allowed`) {
		t.Error(err)
	}
}

func TestWhereARedirectURILeads(t *testing.T) {
	t.Parallel()
	for uri, want := range map[string][2]bool{
		"https://client.example/cb": {true, false}, "http://127.0.0.1/cb": {false, true}, "http://[::1]:1/cb": {false, true},
		"http://localhost:3000/cb": {false, true}, "cursor://localhost/cb": {false, false}, "http://client.example/cb": {false, false},
	} {
		if got := [2]bool{oauth.IsRemote(uri), oauth.IsLoopback(uri)}; got != want {
			t.Errorf("%s: remote, loopback %v, want %v", uri, got, want)
		}
	}
}
