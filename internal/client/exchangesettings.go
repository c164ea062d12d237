package client

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
)

// maxExchangeFrom limits the clients that a registration names.
const maxExchangeFrom = 50

// exchangeSettings are the settings of clients that exchange tokens of users (RFC 8693),
// and of clients whose tokens are exchanged.
var exchangeSettings = []Setting{
	{
		Name: "exchanges from", Change: "exchange from", Member: "exchange_from", Optional: true, Each: true, Flag: "exchange-from", Group: "Token exchange",
		Schema: "{type: array, items: {type: string}, description: 'Clients whose users'' tokens it may exchange (RFC 8693); * for all.'}",
		Help:   "id of a client whose users' tokens it may exchange for its own (RFC 8693); *: of every client; repeatable",
		Update: "id of a client whose users' tokens it may exchange, instead of all that there were; \"\": of none; repeatable",
		Field:  func(r *Registration) any { return &r.ExchangeFrom },
		check: func(r *Registration) error {
			switch {
			case len(r.ExchangeFrom) == 0:
				if len(r.ServesAPIs)+len(r.ExchangeAPIs)+len(r.ExchangeBeyond) > 0 || r.ExchangeMode != "" {
					return fmt.Errorf("missing: name a client, or empty --serves-api, --exchange-api, --exchange-beyond and --exchange-mode, too")
				}
				return nil
			case r.Auth == store.AuthNone:
				return fmt.Errorf("a public client cannot: anybody could exchange in its name")
			case len(r.ExchangeFrom) > maxExchangeFrom:
				return fmt.Errorf("at most %d", maxExchangeFrom)
			case len(r.ExchangeAPIs) == 0:
				return fmt.Errorf("it needs --exchange-api, which names what the tokens are to be for")
			}
			for _, id := range r.ExchangeFrom {
				if id == "" || len(id) > 255 || id == grant.EveryClient && len(r.ExchangeFrom) > 1 {
					return fmt.Errorf("%q is not the id of a client, or not the only one", id)
				}
			}
			return nil
		},
	},
	{
		Name: "serves apis", Change: "serves api", Member: "serves_apis", Optional: true, Each: true, Flag: "serves-api", Group: "Token exchange",
		Schema: "{type: array, items: {type: string}, description: 'APIs that it serves: it may exchange tokens for them.'}",
		Help:   "API that it serves: it may exchange the tokens that such requests bring; repeatable; those that were issued to it, it may exchange in any case",
		Update: "API that it serves, instead of all that there were; \"\": none; repeatable",
		Field:  func(r *Registration) any { return &r.ServesAPIs },
		check:  func(r *Registration) error { return checkAudience(r.ServesAPIs) },
	},
	{
		Name: "exchange apis", Change: "exchange api", Member: "exchange_apis", Optional: true, Each: true, APIs: true, Flag: "exchange-api", Group: "Token exchange",
		Schema: "{type: array, items: {type: string}, description: 'APIs for which it may ask in exchange, as in apis.'}",
		Help:   "id of an API for which it may ask in exchange; with scopes behind the id, each after a space, only with those; never more than the user has agreed to; repeatable",
		Update: "API for which it may ask in exchange, instead of all that there were; \"\": none; repeatable",
		Field:  func(r *Registration) any { return &r.ExchangeAPIs },
		check:  func(r *Registration) error { return checkAPIs(r.ExchangeAPIs) },
	},
	{
		Name: "exchange mode", Member: "exchange_mode", Optional: true, Flag: "exchange-mode", Group: "Token exchange",
		Schema: "{type: string, enum: [delegate, impersonate], default: delegate}",
		Help:   "delegate (default): tokens that it gets name it as the actor (act); impersonate: they do not, unless it sends an actor_token",
		Field:  func(r *Registration) any { return (*string)(&r.ExchangeMode) },
		check: func(r *Registration) error {
			return oneOf(cmp.Or(r.ExchangeMode, store.Delegate), store.Delegate, store.Impersonate)
		},
	},
	{
		Name: "exchange beyond", Member: "exchange_beyond", Optional: true, Each: true, APIs: true, Flag: "exchange-beyond", Group: "Token exchange",
		Schema: "{type: array, items: {type: string}, description: 'APIs, and behind each the scopes that it may have beyond what users have agreed to.'}",
		Help:   "id of an API and, each after a space, scopes that it may have beyond what the user has agreed to; the consent page of the first client names them, and they hold for grants from then on; repeatable",
		Update: "API and scopes that it may have beyond what the user has agreed to, instead of all that there were; \"\": none; repeatable",
		Field:  func(r *Registration) any { return &r.ExchangeBeyond },
		check: func(r *Registration) error {
			for _, text := range r.ExchangeBeyond {
				beyond, err := store.ReadAllowedAPI(text)
				if err == nil && beyond.Scope == "" {
					return fmt.Errorf("%q names no scopes: each is named, because users are asked about it", text)
				}
				if !slices.ContainsFunc(r.ExchangeAPIs, func(text string) bool {
					may, err := store.ReadAllowedAPI(text)
					return err == nil && oauth.CanonicalTarget(may.ID) == oauth.CanonicalTarget(beyond.ID) && (may.Scope == "" || may.Scope.Covers(beyond.Scope))
				}) {
					return fmt.Errorf("%q is not among what --exchange-api allows", text)
				}
			}
			return checkAPIs(r.ExchangeBeyond)
		},
	},
	{
		Name: "may act", Member: "may_act", Optional: true, Flag: "may-act", Group: "Token exchange",
		Schema: "{type: string, description: 'The client that alone may exchange its users'' tokens.'}",
		Help:   "id of the client that alone may exchange its users' tokens, which name it (may_act); default: each that may by its own registration",
		Update: "id of the client that alone may exchange its users' tokens; \"\": each that may by its own registration",
		Field:  func(r *Registration) any { return &r.MayAct },
		check: func(r *Registration) error {
			if r.MayAct != "" {
				return checkAudience([]string{r.MayAct})
			}
			return nil
		},
	},
	{
		Name: "id-jags", Change: "id-jag", Member: "id_jags", Optional: true, Each: true, Flag: "id-jag", Group: "Token exchange",
		Schema: "{type: array, items: {type: string}, description: 'Authorization servers for which it may get identity assertions (ID-JAG), each with client=, resource=, scope=, alg= and public behind the issuer.'}",
		Help:   "issuer of an authorization server for which it may get identity assertions (ID-JAG) of its users and, each after a space, client= with its id there, resource=, scope=, alg= (default RS256), and public for a public client; repeatable",
		Update: "issuer, and what its identity assertions for it may contain, instead of all that there were; \"\": none; repeatable",
		Field:  func(r *Registration) any { return &r.IDJAGs },
		check:  checkIDJAGs,
	},
}

// maxIDJAGs limits the servers for which a client may get identity assertions, and
// maxIDJAG the text about one.
const (
	maxIDJAGs = 20
	maxIDJAG  = 1000
)

func checkIDJAGs(r *Registration) error {
	if len(r.IDJAGs) > maxIDJAGs {
		return fmt.Errorf("at most %d", maxIDJAGs)
	}
	seen := map[string]bool{}
	for _, text := range r.IDJAGs {
		p, err := store.ReadIDJAG(text)
		switch of := oauth.CanonicalTarget(p.Audience); {
		case err != nil:
			return err
		case !oauth.IsText(text, maxIDJAG):
			return fmt.Errorf("at most %d characters each", maxIDJAG)
		case seen[of]:
			return fmt.Errorf("%q is listed twice", p.Audience)
		case p.Public != (r.Auth == store.AuthNone):
			return fmt.Errorf("the word public is for a public client, which needs it: anyone with a user's id_token could get an assertion as this client")
		default:
			seen[of] = true
		}
	}
	return nil
}
