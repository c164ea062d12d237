package client

import (
	"cmp"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/mintage/mintage/internal/keyset"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
)

// Limits of a trust.
const (
	maxTrustSubjects = 20
	maxTrustDomains  = 20
	maxTenant        = 100
)

// CheckTrust checks the settings of a trust by themselves, and completes them. Old is the
// trust as it was, or the zero trust. Own is the issuer of this server.
func CheckTrust(t *store.Trust, old store.Trust, own string) error {
	words := func(field string, most int, texts ...string) error {
		for _, text := range texts {
			if text == "" || len(text) > most || strings.ContainsFunc(text, func(c rune) bool { return c <= ' ' || c > '~' }) {
				return invalid(field, "%q is not 1 to %d printable ASCII characters without spaces", text, most)
			}
		}
		return nil
	}
	if err := oneOf(t.Kind, store.TrustKinds...); err != nil {
		return invalid("kind", "%s", err)
	}
	if err := words("issuer", maxAudience, t.Issuer); err != nil {
		return err
	}
	switch u, err := url.Parse(t.Issuer); {
	case strings.TrimSuffix(t.Issuer, "/") == strings.TrimSuffix(own, "/"):
		return invalid("issuer", "it is this server, whose tokens are no assertions for itself: see token exchange, and client_credentials")
	case (t.Kind == store.TrustIDJAG || len(t.Keys) == 0 && t.KeysURI == "") && (!isKeysURI(t.Issuer) || err == nil && u.RawQuery != "" || strings.Contains(t.Issuer, "|")):
		return invalid("issuer", "%q is not an https address without credentials, query and fragment: the iss of its tokens, character by character", t.Issuer)
	}
	if err := checkTrustedKeys(t, old); err != nil {
		return err
	}
	if t.Audience != "" {
		if err := words("audience", maxAudience, t.Audience); err != nil {
			return err
		}
	}
	longest := maxFederated
	if t.Kind == store.TrustIDJAG {
		longest = maxTrusted
	}
	switch {
	case t.Lifetime != nil && (t.Lifetime.Duration() < time.Minute || t.Lifetime.Duration() > longest):
		return invalid("max_lifetime", "%s is not between 1m and %s", t.Lifetime.Duration(), longest)
	case t.Kind == store.TrustIDJAG && t.Audience != "":
		return invalid("audience", "it is for workloads: the audience of an ID-JAG is the issuer of this server")
	case !oauth.IsText(t.Tenant, maxTenant) || strings.Contains(t.Tenant, "|"):
		return invalid("tenant", "%q is not UTF-8 text of at most %d bytes without |", t.Tenant, maxTenant)
	case len(t.Subjects) > maxTrustSubjects:
		return invalid("subjects", "at most %d", maxTrustSubjects)
	}
	if err := words("subjects", maxAudience, t.Subjects...); err != nil {
		return err
	}
	if t.Kind == store.TrustWorkload {
		return checkWorkload(t, old)
	}
	return checkUsers(t)
}

// checkWorkload checks that the subjects name an owner: anyone can have a workload at some
// platforms.
func checkWorkload(t *store.Trust, old store.Trust) error {
	if t.SubjectFrom != "" || len(t.Domains) > 0 {
		return invalid("subject_from", "it is for id-jag: a workload is the client")
	}
	for _, pattern := range t.Subjects {
		switch {
		case strings.Trim(pattern, "*:/.-_@") == "":
			return invalid("subjects", "%q matches any subject: name the workload, such as system:serviceaccount:shop:orders", pattern)
		case AnyOwner(pattern) && !slices.Contains(old.Subjects, pattern):
			return invalid("subjects", "%q matches workloads of any owner: write out who owns the workload, such as repo:acme/shop:ref:refs/heads/main", pattern)
		}
	}
	if len(t.Subjects) == 0 {
		return invalid("subjects", "missing: name the workload, such as system:serviceaccount:shop:orders")
	}
	return nil
}

// checkUsers checks how subjects of users are made.
func checkUsers(t *store.Trust) error {
	t.SubjectFrom = cmp.Or(t.SubjectFrom, store.SubjectSub)
	if err := oneOf(t.SubjectFrom, store.SubjectsFrom...); err != nil {
		return invalid("subject_from", "%s", err)
	}
	if (t.SubjectFrom == store.SubjectEmail) != (len(t.Domains) > 0) || len(t.Domains) > maxTrustDomains {
		return invalid("email_domains", "a trust whose subject_from is email has 1 to %d, any other none", maxTrustDomains)
	}
	for i, domain := range t.Domains {
		if t.Domains[i] = strings.ToLower(domain); strings.ContainsAny(domain, "@*/ ") || !strings.Contains(domain, ".") || len(domain) > maxAudience {
			return invalid("email_domains", "%q is not a domain, such as example.com", domain)
		}
	}
	return nil
}

// checkTrustedKeys checks where the issuer's keys are, and reduces a key set by keepKeys.
func checkTrustedKeys(t *store.Trust, old store.Trust) error {
	if _, err := keyset.Roots(t.KeysCA); err != nil || len(t.KeysCA) > maxRegisteredKeySet {
		return invalid("jwks_ca", "not a file of at most %d bytes with certificates in PEM", maxRegisteredKeySet)
	}
	switch {
	case len(t.Keys) > 0 && t.KeysURI+t.KeysCA != "":
		return invalid("jwks", "give --jwks, or --jwks-uri, or neither: then the issuer's metadata name its keys; --jwks-ca is for addresses")
	case t.KeysURI != "" && !isKeysURI(t.KeysURI):
		return invalid("jwks_uri", "%q is not an https address without credentials and fragment", t.KeysURI)
	case len(t.Keys) == 0:
		return nil
	}
	return keepKeys(&t.Keys, old.Keys, "")
}
