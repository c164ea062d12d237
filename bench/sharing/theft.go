package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/mintage/mintage/internal/grant"
)

// A theft is a thief's use of a stolen refresh token, beside an owner who refreshes
// when the access token expires, every five minutes.
type theft struct {
	name string
	// noticed returns the share of such thefts that end the grant within a week.
	noticed func(grant.Policy) float64
}

var thefts = []theft{
	{"the present token, used once, at any time", usedOnce},
	{"the present token, used whenever it expires", followed},
	{"the same, and the owner's machine is off for a weekend", weekend},
	{"a token of an hour ago", func(p grant.Policy) float64 { return found(p, time.Hour) }},
	{"a token of yesterday, out of a log or a backup", func(p grant.Policy) float64 { return found(p, day) }},
	{"a token of last week, off an old disk", func(p grant.Policy) float64 { return found(p, 7*day) }},
}

// usedOnce is a thief who uses the token once; it tries every second between two
// refreshes of the owner.
func usedOnce(p grant.Policy) float64 {
	noticed := 0
	lifetime := int(p.AccessLifetime / time.Second)
	for second := range lifetime {
		g, owner := login(p)
		thief := owner
		thief.refresh(&g, p, start.Add(time.Duration(second)*time.Second))
		if !owner.refresh(&g, p, owner.access) {
			noticed++
		}
	}
	return float64(noticed) / float64(lifetime)
}

// followed is a thief who reads expires_in, and refreshes a second after the owner.
func followed(p grant.Policy) float64 {
	g, owner := login(p)
	thief := owner
	for owner.access < start.Add(7*day) {
		now := owner.access
		if !owner.refresh(&g, p, now) || !thief.refresh(&g, p, now.Add(time.Second)) {
			return 1
		}
	}
	return 0
}

// weekend is a thief who continues for two days without the owner.
func weekend(p grant.Policy) float64 {
	g, owner := login(p)
	thief := owner
	for thief.access < start.Add(2*day) {
		if !thief.refresh(&g, p, thief.access) {
			return 1
		}
	}
	if !owner.refresh(&g, p, start.Add(2*day)) {
		return 1
	}
	return 0
}

// found is a thief who finds a token that was issued a while ago.
func found(p grant.Policy, age time.Duration) float64 {
	g, owner := login(p)
	thief := owner
	for owner.access < start.Add(age) {
		owner.refresh(&g, p, owner.access)
	}
	if !thief.refresh(&g, p, start.Add(age)) || !owner.refresh(&g, p, owner.access) {
		return 1
	}
	return 0
}

// theftTable returns the share of thefts that are noticed, which end the grant.
func theftTable() string {
	var b strings.Builder
	fmt.Fprint(&b, "| stolen |")
	for _, rule := range rules {
		fmt.Fprintf(&b, " %s |", rule.name)
	}
	fmt.Fprintf(&b, "\n|%s\n", strings.Repeat("---|", len(rules)+1))
	for _, t := range thefts {
		fmt.Fprintf(&b, "| %s |", t.name)
		for _, rule := range rules {
			fmt.Fprintf(&b, " %.0f %% |", 100*t.noticed(rule.policy()))
		}
		fmt.Fprintln(&b)
	}
	return b.String()
}
