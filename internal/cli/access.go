package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/store"
)

// This file is about access tokens in a client's registration: what those look
// like that it gets, and which it may ask about.

func registerTokens(f *pflag.FlagSet, r *issuer.Registration) {
	f.StringVar((*string)(&r.TokenFormat), "access-token-format", "", "opaque (default), or jwt: RFC 9068")
	f.StringVar((*string)(&r.SigningAlg), "signing-alg", "", "what signs its JWTs: ES256 (default), EdDSA or RS256")
	f.StringVar(&r.JWTType, "jwt-type", "", "typ of its JWT access tokens: at+jwt (default), or JWT for resource servers that know no other")
	f.StringSliceVar(&r.Audience, "audience", nil, "whom its access tokens are for; default: the issuer; repeatable")
	f.BoolVar(&r.Introspect, "introspect", false, "it is a resource server: it may ask about the access tokens of every client")
	f.StringSliceVar(&r.IntrospectAudience, "introspect-audience", nil, "only about those for this audience; repeatable")
}

// applyTokens puts into r what was asked for.
func applyTokens(cmd *cobra.Command, asked issuer.Registration, r *issuer.Registration) {
	given := cmd.Flags().Changed
	if given("access-token-format") {
		r.TokenFormat = asked.TokenFormat
	}
	if given("signing-alg") {
		r.SigningAlg = asked.SigningAlg
	}
	if given("jwt-type") {
		r.JWTType = asked.JWTType
	}
	if given("audience") {
		r.Audience = named(asked.Audience)
	}
	if given("introspect") {
		r.Introspect = asked.Introspect
	}
	if given("introspect-audience") {
		r.IntrospectAudience = named(asked.IntrospectAudience)
	}
}

// named is a list without what --audience "" gives, which empties it.
func named(list []string) (out []string) {
	for _, s := range list {
		if s != "" {
			out = append(out, s)
		}
	}
	return out
}

func tokensInWords(v clientView) string {
	if v.TokenFormat != string(store.TokenJWT) {
		return v.TokenFormat
	}
	return fmt.Sprintf("%s, %s, typ %s", v.TokenFormat, v.SigningAlg, v.JWTType)
}

// noteTokens adds what a change does to access tokens.
func noteTokens(note func(what, before, after string), old, c clientView) {
	note("access tokens", tokensInWords(old), tokensInWords(c))
	note("audience", strings.Join(old.Audience, " "), strings.Join(c.Audience, " "))
	note("introspects", fmt.Sprint(old.Introspect), fmt.Sprint(c.Introspect))
	note("introspects only for", strings.Join(old.Limits, " "), strings.Join(c.Limits, " "))
}
