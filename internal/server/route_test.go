package server

import (
	"net/http"
	"testing"
)

// Browsers get pages, and programs JSON, including Java programs with their default
// Accept header.
func TestAPageIsForBrowsers(t *testing.T) {
	for accept, want := range map[string]bool{
		"text/html": true,
		"text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8": true,
		"text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2":                                  false,
		"text/html, image/gif, image/jpeg, */*; q=0.2":                                          false,
		"*/*":              false,
		"application/json": false,
		"":                 false,
	} {
		if got := wantsPage(&http.Request{Header: http.Header{"Accept": {accept}}}); got != want {
			t.Errorf("%q: %t", accept, got)
		}
	}
}
