package conformance_test

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/mintage/mintage/internal/conformance"
)

// laterAreas says for each area of deferred rows how to detect that the server already
// supports it: by metadata members that announce it, or by a request that only such a
// server accepts. An area with neither is work on the repository itself.
var laterAreas = map[string]struct {
	members []string
	served  func(d *deployment) bool
}{
	"operation": {},
}

// identifier matches a protocol's identifier, such as private_key_jwt.
var identifier = regexp.MustCompile(`^[a-z0-9]+(_[a-z0-9]+)+$`)

// absent matches a row's title that denies a feature.
var absent = regexp.MustCompile(`is not offered|does not exist`)

// If a row is deferred, or denies a feature, the metadata and routes must not contain it:
// the page would otherwise say less than the server does.
func TestNoLaterRowNamesWhatIsServed(t *testing.T) {
	d := start(t, registering)
	d.withAPIs()
	metadata := d.metadata()
	var words []string
	for name, value := range metadata {
		words = append(words, name)
		text, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		for _, word := range regexp.MustCompile(`"([^"]*)"`).FindAllStringSubmatch(string(text), -1) {
			words = append(words, word[1])
		}
	}
	for _, rt := range d.server.Routes() {
		words = append(words, rt.Name)
	}
	deferred := 0
	for _, r := range conformance.Rows {
		if r.Later == "" && !absent.MatchString(r.Title) {
			continue
		}
		deferred++
		for _, word := range words {
			if identifier.MatchString(word) && strings.Contains(r.Title+" "+r.Later, word) {
				t.Errorf("%s (%s; %s) is deferred or denied, and the server has %s", r.ID, r.Title, r.Later, word)
			}
		}
		if r.Later == "" {
			continue
		}
		area, known := laterAreas[r.Later]
		if !known {
			t.Errorf("%s: laterAreas does not say how the server would show %q", r.ID, r.Later)
		}
		for _, member := range area.members {
			if metadata[member] != nil {
				t.Errorf("%s (%s) waits for %s, and the metadata has %s", r.ID, r.Title, r.Later, member)
			}
		}
		if area.served != nil && area.served(d) {
			t.Errorf("%s (%s) waits for %s, which the server has", r.ID, r.Title, r.Later)
		}
	}
	if deferred == 0 {
		t.Error("no row is deferred: this test compares nothing")
	}
}
