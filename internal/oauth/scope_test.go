package oauth_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/mintage/mintage/internal/oauth"
)

func TestParseScope(t *testing.T) {
	var sixtyFour []string
	for i := range 64 {
		sixtyFour = append(sixtyFour, fmt.Sprintf("%c%c", 'a'+i/26, 'a'+i%26))
	}
	for _, tt := range []struct {
		in   string
		want oauth.Scope
		ok   bool
	}{
		{"", "", true},
		{"   ", "", true},
		{"read", "read", true},
		{"read write", "read write", true},
		{"  read   write ", "read write", true},
		{"write read write read", "write read", true},
		{"Read read", "Read read", true},
		{"!#$%&'()*+,-./:;<=>?@[]^_`{|}~", "!#$%&'()*+,-./:;<=>?@[]^_`{|}~", true},
		{strings.Join(sixtyFour, " "), oauth.Scope(strings.Join(sixtyFour, " ")), true},
		{strings.Repeat("a ", 500), "a", true},
		{strings.Repeat("x", 256), oauth.Scope(strings.Repeat("x", 256)), true},
		{strings.Join(append(sixtyFour, "one"), " "), "", false},
		{strings.Repeat("x", 257), "", false},
		{`a"b`, "", false},
		{`a\b`, "", false},
		{"a\tb", "", false},
		{"a\nb", "", false},
		{"a\x7f", "", false},
		{"a\x00", "", false},
		{"ü", "", false},
		{"a\u00a0b", "", false},
	} {
		got, err := oauth.ParseScope(tt.in)
		if (err == nil) != tt.ok || got != tt.want {
			t.Errorf("ParseScope(%.40q) = %q, %v", tt.in, got, err)
		}
	}
}

func TestScopeSets(t *testing.T) {
	const s oauth.Scope = "read write admin"
	for _, tt := range []struct {
		sub    oauth.Scope
		bits   uint64
		covers bool
	}{
		{"", 0, true}, {"read", 1, true}, {"write", 2, true}, {"admin read", 5, true}, {"read write admin", 7, true},
		{"admin write read", 7, true}, {"mail", 0, false}, {"read mail", 0, false}, {"rea", 0, false}, {"read writ", 0, false},
		{"read  write", 0, false}, {`"`, 0, false},
	} {
		bits, ok := s.Bits(tt.sub)
		if bits != tt.bits || ok != tt.covers || s.Covers(tt.sub) != tt.covers {
			t.Errorf("Bits(%q) = %b, %t; Covers = %t", tt.sub, bits, ok, s.Covers(tt.sub))
		}
	}
	for bits, want := range map[uint64]oauth.Scope{0: "", 1: "read", 2: "write", 5: "read admin", 7: s, 8: "", 9: "read", 1 << 63: ""} {
		if got := s.Pick(bits); got != want {
			t.Errorf("Pick(%b) = %q, want %q", bits, got, want)
		}
	}
	for _, tt := range []struct{ other, want oauth.Scope }{
		{s, s}, {"", ""}, {"mail", ""}, {"admin read", "read admin"}, {"mail write", "write"}, {"admin write read mail", s},
	} {
		if got := s.Common(tt.other); got != tt.want {
			t.Errorf("Common(%q) = %q, want %q", tt.other, got, tt.want)
		}
	}
	if oauth.Scope("").All() != 0 || s.All() != 7 || oauth.Scope("").Tokens() != nil || !slices.Equal(s.Tokens(), []string{"read", "write", "admin"}) {
		t.Errorf("All %b, Tokens %q", s.All(), s.Tokens())
	}
}

// The access token's bitmap has a bit for each of MaxScopes.
func TestScopeOf64TokensFillsTheBitmap(t *testing.T) {
	var list []string
	for i := range oauth.MaxScopes {
		list = append(list, fmt.Sprint(i))
	}
	s := oauth.Scope(strings.Join(list, " "))
	if s.All() != ^uint64(0) || s.Pick(^uint64(0)) != s {
		t.Errorf("All is %b", s.All())
	}
	for i, tok := range list {
		bits, ok := s.Bits(oauth.Scope(tok))
		if !ok || bits != 1<<i || s.Pick(bits) != oauth.Scope(tok) {
			t.Errorf("token %d: bits %b", i, bits)
		}
	}
}
