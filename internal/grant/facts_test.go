package grant

import (
	"slices"
	"strings"
	"testing"
)

func TestFactsText(t *testing.T) {
	session := [16]byte{0: 1, 15: 0xfe}
	for _, f := range []Facts{
		{},
		{Claims: `{"tenant":"t1"}`},
		{Session: session},
		{ACR: 1},
		{AMR: 0xff},
		{Claims: `{"a":{"b":"{"}}`, Session: session, ACR: 2, AMR: 7},
		{ReportedACR: "https://refeds.org/profile/mfa"},
		{ReportedAMR: "pwd otp"},
		{InUserInfo: 1 << 31},
		{APIs: APIs{1}},
		{JKT: [32]byte{31: 1}},
		{Device: true},
		{SaysACR: true},
		{Trust: "t1"},
		{Acting: "\x00\x05agent"},
		{Session: session, APIs: APIs{1, 2, 0xffff, 4, 5, 0xfffe}, Claims: `{"tenant":"t1"}`},
		{Claims: `{"tenant":"t1"}`, Session: session, ReportedACR: strings.Repeat("a", 80), ReportedAMR: strings.Repeat("m", 64), InUserInfo: 1<<32 - 1, InIDToken: 1<<32 - 2, JKT: [32]byte{0: 0xff, 31: 1}, Device: true},
	} {
		text := f.Text()
		if back, err := ParseFacts(text); err != nil || back != f {
			t.Errorf("%+v is stored as %q and read as %+v, %v", f, text, back, err)
		}
		if f.more() != (text != f.Claims) {
			t.Errorf("%+v is stored as %q: facts that are claims alone keep the form of the version before", f, text)
		}
	}
}

// An issuer or a subject of 255 bytes fits, but two of this length exceed the size of a
// fact.
func TestActorsText(t *testing.T) {
	long := strings.Repeat("x", 254)
	for _, c := range []struct {
		actors []Actor
		ok     bool
	}{
		{nil, true}, {[]Actor{{}}, true}, {[]Actor{{"https://a", "b"}, {"", "c"}}, true}, {[]Actor{{Issuer: long[:253]}}, true}, {[]Actor{{Issuer: long}}, false}, {[]Actor{{Subject: long[1:] + "xxx"}}, false},
		{[]Actor{{Issuer: strings.Repeat("x", 256)}}, false}, {[]Actor{{Subject: strings.Repeat("x", 256)}}, false}, {make([]Actor, MaxActors), true}, {make([]Actor, MaxActors+1), false},
	} {
		text, ok := ActorsText(c.actors)
		if ok != c.ok || ok && !slices.Equal(Facts{Acting: text}.Actors(), c.actors) {
			t.Errorf("%d actors: %t, %+v", len(c.actors), ok, Facts{Acting: text}.Actors())
		}
	}
	if list := (Facts{Acting: "\x00\x05agen"}).Actors(); !slices.Equal(list, []Actor{{}}) {
		t.Errorf("a fact that is cut off: %+v", list)
	}
}

// A row of a later version is readable, so that a downgrade works.
func TestFactsOfALaterVersion(t *testing.T) {
	f := Facts{Session: [16]byte{1}, ACR: 1, AMR: 1}
	longer := f
	if err := longer.Read(append(f.Append(nil), 250, 1, 7, 251, 0)); err != nil || longer != f {
		t.Errorf("read %+v, %v", longer, err)
	}
}

func TestFactsRefused(t *testing.T) {
	for _, text := range []string{"AAAA", `AAAA{"tenant":"t1"}`, "not base64", strings.Repeat("A", 22), Facts{ACR: 1, ReportedACR: "a"}.Text()[:26], Facts{ACR: 1}.Text() + "AQ"} {
		if f, err := ParseFacts(text); err == nil {
			t.Errorf("%q is read as %+v", text, f)
		}
	}
}

// Reading the facts of a row without a session allocates nothing, and otherwise once.
func TestFactsAllocateNothing(t *testing.T) {
	for _, text := range []string{"", `{"tenant":"t1"}`, Facts{Session: [16]byte{1}}.Text()} {
		most := 0.0
		if text != "" && text[0] != '{' {
			most = 1
		}
		if n := testing.AllocsPerRun(100, func() { ParseFacts(text) }); n > most {
			t.Errorf("reading %q allocates %v times, want %v", text, n, most)
		}
	}
}
