package doctor

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/show"
	"github.com/mintage/mintage/internal/store"
)

// This file checks the registrations of clients.

const (
	secretNotice = 30 * 24 * time.Hour
	wideWindow   = 2 * time.Minute // the default of confidential clients
	wideAtPublic = time.Minute     // and of public ones
	// shownOfKind limits the lines with the same advice.
	shownOfKind = 20
)

// bounded limits the lines with the same advice, for deployments with many clients.
func (f *findings) bounded(more string) {
	kinds := map[string]int{}
	hidden := 0
	*f = slices.DeleteFunc(*f, func(x Finding) bool {
		kinds[x.Advice]++
		if x.Advice != "" && kinds[x.Advice] > shownOfKind {
			hidden++
			return true
		}
		return false
	})
	if hidden > 0 {
		f.warn(more, "%d more like these", hidden)
	}
}

// clientName names a client in a line.
func clientName(c store.Client) string { return fmt.Sprintf("client %s (%s)", c.ID, c.Name) }

func (p *Deployment) enabled() (list []store.Client) {
	for _, c := range p.Changes.Clients {
		if c.State == store.ClientEnabled && !c.SelfRegistered() {
			list = append(list, c)
		}
	}
	slices.SortFunc(list, func(a, b store.Client) int { return strings.Compare(a.ID, b.ID) })
	return list
}

func checkClients(_ context.Context, p *Deployment) (f findings) {
	list, present := p.enabled(), map[string]bool{}
	for _, c := range list {
		present[c.ID] = true
	}
	for _, c := range list {
		name := clientName(c)
		// A public client needs PKCE whatever its registration says (RFC 9700 section 2.1.1).
		if !c.Public() && !c.RequiresPKCE() && c.MayUse(store.GrantAuthorizationCode) && len(c.RedirectURIs) > 0 {
			f.note("%s does not need PKCE at the authorization endpoint", name)
		}
		for _, uri := range c.RedirectURIs {
			if plainRedirect(uri) {
				f.warn("have the client system use https, and update the registration: mintage client update --help", "%s has the redirect URI %s: codes travel in clear", name, uri)
			}
		}
		if c.Auth == store.AuthFederated && c.Assertion.Issuer == p.Config.IssuerID() {
			f.fault("mintage client update ID --assertion-issuer ISSUER", "%s trusts this server's own tokens, which authenticate no client", name)
		}
		if c.Auth == store.AuthFederated && client.AnyOwner(c.Assertion.Subject) {
			f.fault("mintage client update ID --assertion-subject SUBJECT", "%s trusts workloads of any owner at %s: its subject is %s", name, c.Assertion.Issuer, c.Assertion.Subject)
		}
		window, most := p.Config.RetryWindow.Std(), wideWindow
		if c.Public() {
			window, most = p.Config.RetryWindowPublic.Std(), wideAtPublic
		}
		window = c.RetryWindow.Or(window)
		f.judgeAPIs(p, c, window)
		f.judgeServiceScope(p, c)
		f.judgeDevice(p, c)
		f.judgeExchange(p, c, present)
		if window > most {
			f.warn("mintage client update ID --retry-window DURATION", "%s has a retry window of %s: that long, a thief who has its credentials can share a grant unseen", name, window)
		}
		if c.NoRotation && !c.FAPI() {
			f.warn("register the client anew, without --no-rotation", "%s has refresh rotation off: a stolen refresh token is not noticed", name)
		}
	}
	f.judgeSelfRegistration(p)
	f.judgeProfile(p)
	f.bounded("see: mintage client list")
	return f.unless("%s, none of them weak", show.Count(len(list), "enabled client", "enabled clients"))
}

// judgeSelfRegistration reports how clients may register themselves, and for what.
func (f *findings) judgeSelfRegistration(p *Deployment) {
	open := 0
	for _, api := range p.Changes.APIs {
		if api.Open && !api.Deleted {
			open++
		}
	}
	settings := p.Config.ClientMetadata
	for _, way := range []struct {
		on        bool
		what, off string
	}{
		{len(p.Config.DocumentsAdmitted()) > 0, "describe themselves by documents (" + strings.Join(settings.Documents, ", ") + ")", "client_metadata.documents: off"},
		{settings.Registration && settings.RegistrationTokenFile == "", "register themselves, without an initial access token", "client_metadata.registration: false"},
		{settings.Registration && settings.RegistrationTokenFile != "", "register themselves, with the initial access token", "client_metadata.registration: false"},
	} {
		switch {
		case way.on && open == 0:
			f.warn("mintage api update ID --self-registered-clients, or "+way.off, "clients may %s, and no API is open to them: all that they ask for is refused", way.what)
		case way.on:
			f.note("clients may %s, for %s", way.what, show.Count(open, "API", "APIs"))
		}
	}
}

// judgeDevice reports clients with the device grant if users cannot sign in, and
// confidential ones: their devices must authenticate at /device_authorization, too, which
// golang.org/x/oauth2 does not do by itself.
func (f *findings) judgeDevice(p *Deployment, c store.Client) {
	switch {
	case !c.MayUse(store.GrantDeviceCode):
	case p.Config.Login.Mode == "off":
		f.warn("set login.mode", "%s is registered for the device grant, and users cannot sign in: login.mode is off", clientName(c))
	case !c.Public():
		f.note("%s is confidential and registered for the device grant: its devices must authenticate at /device_authorization, too; with golang.org/x/oauth2, by DeviceAuth(ctx, oauth2.SetAuthURLParam(\"client_secret\", secret))", clientName(c))
		if c.Auth == store.AuthBasic {
			f.warn("mintage client update ID --auth-method either", "%s must authenticate by Basic, which golang.org/x/oauth2 does not at /device_authorization", clientName(c))
		}
	}
}

// judgeAPIs reports APIs of a client that are gone, and a retry window that the
// tokens of an API cut short.
func (f *findings) judgeAPIs(p *Deployment, c store.Client, window time.Duration) {
	for _, text := range c.APIs {
		allowed, err := store.ReadAllowedAPI(text)
		if err != nil {
			continue // registration refuses it
		}
		api := p.Changes.FindAPI(allowed.ID)
		if api == nil {
			f.warn("mintage client update ID --remove-api, with the API's id; or register it anew: mintage api create",
				"%s is allowed the API %s, which does not exist: asking for it is invalid_target", clientName(c), allowed.ID)
		} else if life := api.Lifetime(0); life != 0 && window > life-time.Minute {
			f.warn("mintage api update ID --access-token-lifetime DURATION",
				"%s has a retry window of %s, which ends after %s: tokens of the API %s live %s", clientName(c), window, max(0, life-time.Minute), api.ID, life)
		}
	}
}

// judgeExchange reports APIs and clients that a client's token exchange names, and that do
// not exist.
func (f *findings) judgeExchange(p *Deployment, c store.Client, present map[string]bool) {
	for _, text := range slices.Concat(c.ServesAPIs, c.ExchangeAPIs, c.ExchangeBeyond) {
		if a, err := store.ReadAllowedAPI(text); err == nil && p.Changes.FindAPI(a.ID) == nil {
			f.warn("mintage client update ID --remove-serves-api, --remove-exchange-api or --remove-exchange-beyond", "%s names the API %s for token exchange, which does not exist", clientName(c), a.ID)
		}
	}
	for _, id := range c.ExchangeFrom {
		if id != grant.EveryClient && !client.IsSelfRegisteredID(id) && !present[id] {
			f.warn("mintage client update ID --remove-exchange-from CLIENT", "%s may exchange tokens of the client %s, which does not exist or is disabled", clientName(c), id)
		}
	}
	if c.MayAct != "" && !present[c.MayAct] {
		f.warn("mintage client update ID --may-act CLIENT", "only %s may act by tokens of %s, and that client does not exist or is disabled: nobody may", c.MayAct, clientName(c))
	}
}

// judgeServiceScope reports scopes of APIs that a client has without the API: the tokens
// that the client gets for itself have its own audience, and the API refuses them.
func (f *findings) judgeServiceScope(p *Deployment, c store.Client) {
	if !c.MayUse(store.GrantClientCredentials) {
		return
	}
	for i := range p.Changes.APIs {
		api := &p.Changes.APIs[i]
		same := func(text string) bool {
			id, _, _ := strings.Cut(text, " ") // the scopes behind an allowed API
			return oauth.CanonicalTarget(id) == oauth.CanonicalTarget(api.ID)
		}
		scope := c.Scope.Common(api.Scope())
		if api.Deleted || scope == "" || slices.ContainsFunc(c.APIs, same) || slices.ContainsFunc(c.Audience, same) {
			continue
		}
		f.warn("mintage client update ID --add-api API", "%s has the scope %q of the API %s, and is not allowed the API: its own tokens (client_credentials) do not name it", clientName(c), scope, api.ID)
	}
}

// plainRedirect reports whether codes for a redirect URI leave the machine in
// clear.
func plainRedirect(uri string) bool {
	u, err := url.Parse(uri)
	return err == nil && u.Scheme == "http" && !config.IsLoopback(u.Hostname())
}

// checkSecrets reports secrets that have expired or are about to, and clients
// without a valid one. Which secrets are unused is in mintage client secret list.
func checkSecrets(_ context.Context, p *Deployment) (f findings) {
	secrets := 0
	for _, c := range p.enabled() {
		for _, s := range c.Secrets {
			secrets++
			f.judgeSecret(c, s, p.Now)
		}
		live := slices.ContainsFunc(c.Secrets, func(s store.Secret) bool { return !s.Expired(p.Now) })
		if !c.Public() && !c.Auth.Asserts() && !live {
			f.fault("mintage client secret add ID", "%s has no secret that is in force: it cannot authenticate", clientName(c))
		}
	}
	f.bounded("see: mintage client secret list ID")
	return f.unless("%s, none expiring within %s", show.Count(secrets, "secret", "secrets"), show.Roughly(secretNotice))
}

const (
	adviceRevoke  = "mintage client secret revoke CLIENT SECRET"
	adviceReplace = "mintage client secret add CLIENT, give it to the client, and revoke the old one when it is no longer used"
)

func (f *findings) judgeSecret(c store.Client, s store.Secret, now grant.Instant) {
	name := fmt.Sprintf("secret %s of %s", s.ID, clientName(c))
	used := "never used"
	if s.LastUsedAt != 0 {
		used = "last used " + show.Roughly(now.Since(s.LastUsedAt)) + " ago"
	}
	verdict := "safe to delete: " + used
	if why := client.SecretVerdict(c, s, now); why != "" {
		verdict = "not safe to delete: " + why
	}
	switch {
	case s.Expired(now):
		f.warn(adviceRevoke, "%s expired %s ago; %s", name, show.Roughly(now.Since(s.ExpiresAt)), verdict)
	case s.ExpiresAt != 0 && s.ExpiresAt.Since(now) < secretNotice:
		f.warn(adviceReplace, "%s expires in %s; %s", name, show.Roughly(s.ExpiresAt.Since(now)), verdict)
	}
}
