package node

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"time"

	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/deployment"
	"github.com/mintage/mintage/internal/directory"
	"github.com/mintage/mintage/internal/fetch"
	"github.com/mintage/mintage/internal/keyset"
	"github.com/mintage/mintage/internal/login"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
)

// documentClient returns the HTTP client for the documents and the key sets of clients that
// registered themselves. A --dev server whose listeners are all on loopback also fetches
// them from loopback, and trusts its own certificate and the authority that signed it.
func documentClient(cfg config.Config, dev bool) (*fetch.Client, error) {
	c := &fetch.Client{}
	if !dev || !cfg.OnLoopback() {
		return c, nil
	}
	c.Reachable = func(a netip.Addr) bool { return a.IsLoopback() || fetch.Global(a) }
	var err error
	if c.Roots, err = x509.SystemCertPool(); err != nil {
		return nil, err
	}
	for _, name := range []string{deployment.DevCAFile(cfg), cfg.TLS.Cert} {
		pem, err := os.ReadFile(name)
		if err != nil && !errors.Is(err, os.ErrNotExist) { // the server has no authority of its own
			return nil, err
		}
		c.Roots.AppendCertsFromPEM(pem)
	}
	return c, nil
}

// openDocuments creates the caches of clients' documents and key sets.
func (n *node) openDocuments(c *fetch.Client, schemes []string) {
	n.documents = fetch.NewCache(c.Get, func(address string, body []byte) (client.Document, error) {
		return client.ReadDocument(address, body, schemes...)
	}, time.Now)
	n.documents.Done = func(address string, err error) {
		n.metrics.Fetched(fetchOutcome(err))
		if err != nil {
			n.log.Warn("cannot read the document of a client", "client_id", address, "error", err)
		}
	}
	n.keys = keyset.NewCache(time.Now, c, func(address string, err error) {
		n.metrics.Fetched(fetchOutcome(err))
		if err != nil {
			n.log.Warn("cannot read the keys of a client", "jwks_uri", address, "error", err)
		}
	})
}

func fetchOutcome(err error) string {
	switch {
	case err == nil:
		return "ok"
	case errors.Is(err, fetch.ErrAddress):
		return "forbidden"
	case errors.Is(err, fetch.ErrUnreachable):
		return "unreachable"
	}
	return "unusable"
}

// documentsOf returns the clients that cfg lets describe themselves by a document.
func (n *realm) documentsOf(cfg config.Config) *client.Documents {
	return &client.Documents{
		Realm: n.name, Admitted: cfg.DocumentsAdmitted(), Any: config.DocumentsAny, Now: time.Now,
		Fetch: func(ctx context.Context, address string, from netip.Prefix) (client.Document, error) {
			return n.documents.Get(ctx, address, from, nil)
		},
	}
}

// registrationsOf returns the clients that cfg lets register themselves, or nil.
func registrationsOf(cfg config.Config, d *directory.Directory) (r *client.Registrations, err error) {
	if !cfg.ClientMetadata.Registration {
		return nil, nil
	}
	r = &client.Registrations{Realm: cfg.Realm, Directory: d, Now: time.Now, Schemes: cfg.ClientMetadata.Schemes}
	if file := cfg.ClientMetadata.RegistrationTokenFile; file != "" {
		if r.Token, err = deployment.ReadRegistrationToken(file); err != nil {
			return nil, &config.Fault{Name: "client_metadata.registration_token_file", Err: err}
		}
	}
	return r, nil
}

// admits reports whether an id can be that of a client that registered itself.
func (a *handlers) admits(id string) bool {
	return a.registrations.Admits(id) || a.documents.Admits(id)
}

// selfRegistered returns the client that makes a request, if it registered itself.
func (a *handlers) selfRegistered(ctx context.Context, r oauth.AuthorizationRequest, from netip.Prefix) (*store.Client, error) {
	if !a.admits(r.ClientID) {
		return nil, oauth.ErrUnknownClient
	}
	view, err := a.directory.View()
	if err != nil {
		return nil, store.Unavailable(err)
	}
	var c *store.Client
	if a.registrations.Admits(r.ClientID) {
		c, err = a.registrations.Client(r.ClientID, r.RedirectURI)
	} else {
		c, err = a.documents.Client(ctx, r.ClientID, r.RedirectURI, from)
	}
	switch {
	case errors.Is(err, oauth.ErrRedirectMismatch), errors.Is(err, oauth.ErrUnknownClient):
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("%w: %w", login.ErrDescription, err)
	case r.Device && !c.MayUse(store.GrantDeviceCode):
		return nil, oauth.ErrClientGrantType
	}
	view.Offer(c)
	return c, nil
}
