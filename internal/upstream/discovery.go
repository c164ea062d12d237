package upstream

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"sync/atomic"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
)

// Discovered caches the metadata of the provider that was discovered last. The zero
// value is ready to use.
type Discovered struct{ last atomic.Pointer[metadata] }

// of returns the metadata that were discovered for a configuration, or nil.
func (d *Discovered) of(c Config) *metadata {
	if m := d.last.Load(); m != nil && m.issuer == c.Issuer && m.public == (c.ClientSecret == "") {
		return m
	}
	return nil
}

// metadata is the provider's metadata document (OIDC Discovery section 3).
type metadata struct {
	issuer      string
	public      bool // the client has no secret, which decides the endpoint's AuthStyle
	endpoint    oauth2.Endpoint
	algorithms  []string
	namesItself bool // RFC 9207: its responses contain iss
	keys        oidc.KeySet
	userInfo    string // "" if absent, or unsafe (checkAddress)
	endSession  string // "" likewise
	readAt      time.Time
}

// keepFor is how long metadata and keys are cached, and thus how long a withdrawn key
// stays valid here. An unknown key is fetched within a minute (see keySet).
const keepFor = time.Hour

// asymmetric lists the accepted signature algorithms of ID tokens. It excludes "none" and
// the HS family, with which every holder of the client's secret could sign.
var asymmetric = []string{
	oidc.RS256, oidc.RS384, oidc.RS512, oidc.PS256, oidc.PS384, oidc.PS512,
	oidc.ES256, oidc.ES384, oidc.ES512, oidc.EdDSA,
}

// metadata returns the cached metadata, or fetches it once for all waiting callers. It
// returns expired metadata while it fetches newer.
func (p *Provider) metadata(ctx context.Context) (*metadata, error) {
	m := p.cfg.Discovered.of(p.cfg)
	if p.fresh(m) {
		return m, nil
	}
	fetched := p.searching.DoChan("", func() (any, error) {
		// Another fetch may have ended since m was read.
		if now := p.cfg.Discovered.of(p.cfg); p.fresh(now) {
			return now, nil
		}
		// The end of ctx must not cancel the fetch, because others wait for it too. The
		// transport limits its time.
		next, err := p.read(context.WithoutCancel(ctx))
		if err == nil {
			p.cfg.Discovered.last.Store(next)
		}
		return next, err
	})
	if m != nil {
		return m, nil
	}
	select {
	case <-ctx.Done():
		return nil, unavailable("discovery: %w", ctx.Err())
	case r := <-fetched:
		return r.Val.(*metadata), r.Err
	}
}

func (p *Provider) fresh(m *metadata) bool { return m != nil && p.cfg.Now().Sub(m.readAt) < keepFor }

func (p *Provider) read(ctx context.Context) (*metadata, error) {
	ctx = p.context(ctx)
	found, err := oidc.NewProvider(ctx, p.cfg.Issuer)
	if isFault(err) {
		return nil, unavailable("discovery: %w", err)
	}
	if err != nil {
		return nil, invalid("discovery: %s", short(err))
	}
	var more struct {
		KeySet     string   `json:"jwks_uri"`
		Algorithms []string `json:"id_token_signing_alg_values_supported"`
		Methods    []string `json:"token_endpoint_auth_methods_supported"`
		UserInfo   string   `json:"userinfo_endpoint"`
		EndSession string   `json:"end_session_endpoint"`
		Iss        bool     `json:"authorization_response_iss_parameter_supported"`
	}
	if err := found.Claims(&more); err != nil {
		return nil, invalid("discovery: %s", short(err))
	}
	m := &metadata{issuer: p.cfg.Issuer, public: p.cfg.ClientSecret == "", endpoint: found.Endpoint(), namesItself: more.Iss, keys: p.keySet(more.KeySet), readAt: p.cfg.Now()}
	for name, address := range map[string]string{
		"authorization_endpoint": m.endpoint.AuthURL, "token_endpoint": m.endpoint.TokenURL, "jwks_uri": more.KeySet,
	} {
		if err := p.checkAddress(address); err != nil {
			return nil, invalid("discovery: %s: %w", name, err)
		}
	}
	if p.checkAddress(more.UserInfo) == nil {
		m.userInfo = more.UserInfo
	}
	if p.checkAddress(more.EndSession) == nil {
		m.endSession = more.EndSession
	}
	m.algorithms = []string{oidc.RS256} // every provider has it (OIDC Discovery section 3)
	if len(more.Algorithms) > 0 {
		m.algorithms = slices.DeleteFunc(slices.Clone(asymmetric), func(a string) bool { return !slices.Contains(more.Algorithms, a) })
	}
	if len(m.algorithms) == 0 {
		return nil, invalid("discovery: the provider signs ID tokens only with algorithms that are not accepted here; let it use one of %q", asymmetric)
	}
	if m.endpoint.AuthStyle, err = p.authStyle(more.Methods); err != nil {
		return nil, err
	}
	return m, nil
}

// checkAddress rejects an address without https, which would expose the code, the secret
// or the keys. It accepts http if the issuer uses http.
func (p *Provider) checkAddress(address string) error {
	u, err := url.Parse(address)
	issuer, _ := url.Parse(p.cfg.Issuer)
	switch {
	case address == "":
		return fmt.Errorf("missing")
	case err != nil || u.Host == "" || u.Fragment != "" || u.User != nil:
		return fmt.Errorf("not an absolute URL")
	case u.Scheme == "https", u.Scheme == "http" && issuer != nil && issuer.Scheme == "http":
		return nil
	}
	return fmt.Errorf("not https")
}

// authStyle returns how the client authenticates at the token endpoint. Package oauth2
// must not find that out by trial: its second request would present the code again.
func (p *Provider) authStyle(methods []string) (oauth2.AuthStyle, error) {
	switch {
	case p.cfg.ClientSecret == "":
		return oauth2.AuthStyleInParams, nil // client_id alone
	case len(methods) == 0, slices.Contains(methods, "client_secret_basic"):
		return oauth2.AuthStyleInHeader, nil // the default (OIDC Discovery section 3)
	case slices.Contains(methods, "client_secret_post"):
		return oauth2.AuthStyleInParams, nil
	}
	return 0, invalid("discovery: the provider takes a client's secret neither by client_secret_basic nor by client_secret_post")
}

// short bounds the text of an error, which may repeat a long response of the provider, for
// the log.
func short(err error) string {
	const most = 300
	text := err.Error()
	if len(text) > most {
		text = text[:most] + "..."
	}
	return text
}
