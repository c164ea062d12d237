package web_test

import (
	"strings"
	"testing"
)

// TestABrowserWithoutCookiesIsSentToNoApplication: the page cannot know where its user began.
func TestABrowserWithoutCookiesIsSentToNoApplication(t *testing.T) {
	r := newFixture(t)
	at := r.browser().get(connectionsURL).to()
	for name, b := range map[string]*browser{"no cookies": r.browser(), "another browser": r.signedIn("alice")} {
		if s := b.get(at); s.StatusCode < 400 || strings.Contains(s.body, "Go back to the application") || !strings.Contains(s.body, "Go back to where you began") {
			t.Errorf("%s: %d\n%s", name, s.StatusCode, s.body)
		}
	}
}
