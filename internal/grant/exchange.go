package grant

import (
	"cmp"
	"slices"

	"github.com/mintage/mintage/internal/oauth"
)

// An Actor acts for the subject of a token (RFC 8693 section 4.1): a client of the
// realm or, with an Issuer, a party that another issuer names.
type Actor struct {
	Issuer  string
	Subject string
}

// MaxActors limits the chain of actors of a token. A client that is in it twice counts
// twice.
const MaxActors = 4

// EveryClient stands in Exchange.From for the grants of every client.
const EveryClient = "*"

// An Exchange is the request of an authenticated client to exchange an active access
// token of a user for one of its own (RFC 8693 section 2.1), with the registration on
// which the decision depends.
type Exchange struct {
	ClientID string
	From     []string // clients whose grants it may use
	Serves   bool     // the subject token is for an API of the client
	Hides    bool     // it impersonates: the token is to have no actor

	GrantedTo string  // client of the grant
	Holder    string  // client that the subject token was issued to
	MayAct    string  // client that alone may act by tokens of the holder; "": all
	Actors    []Actor // of the subject token, the present one first

	Available oauth.Scope // of the API that is asked for
	Scope     oauth.Scope // asked for; "": all that is available
}

// Exchange returns the actors, the present one first, and the scope of the token that x
// requests, or why it is refused. It checks who may exchange the subject token before it
// checks what x requests.
func (x Exchange) Exchange() (actors []Actor, scope oauth.Scope, why Refusal) {
	if !x.Hides {
		actors = append([]Actor{{Subject: x.ClientID}}, x.Actors...)
	}
	switch {
	case !slices.Contains(x.From, EveryClient) && !slices.Contains(x.From, x.GrantedTo):
		return nil, "", NotExchanged
	case !x.Serves && x.Holder != x.ClientID:
		return nil, "", NotServed // the client may have found the token in a log
	case x.MayAct != "" && x.MayAct != x.ClientID && x.Holder != x.ClientID:
		return nil, "", MayNotAct // RFC 8693 section 4.4
	case x.Hides && len(x.Actors) > 0:
		return nil, "", HidesActor
	case len(actors) > MaxActors:
		return nil, "", ManyActors
	case x.Available == "":
		return nil, "", TargetUnknown
	case !x.Available.Covers(x.Scope):
		return nil, "", ScopeTooWide
	}
	return actors, cmp.Or(x.Scope, x.Available), Allowed
}
