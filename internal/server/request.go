package server

import (
	"context"
	"errors"
	"io"
	"mime"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/overload"
	"github.com/mintage/mintage/internal/store"
)

// Origin returns the address and the id of the request, for the records of changes.
func (r *Request) Origin() grant.Origin { return grant.Origin{Address: r.Address, RequestID: r.ID} }

// admit makes the checks that do not need the body: method, transport, length, failed
// authentications of the address.
func (r *Request) admit() error {
	if methods := r.Route.Methods; methods != nil && !slices.Contains(methods, r.Method) {
		switch get := slices.Contains(methods, http.MethodGet); {
		case get && slices.Contains(methods, http.MethodPost):
			return oauth.ErrNotGetOrPost
		case get:
			return oauth.ErrNotGet
		}
		return oauth.ErrMethod
	}
	if err := r.Secure(); err != nil {
		return err
	}
	if r.ContentLength > oauth.MaxForm {
		return oauth.ErrTooLarge
	}
	if !r.Route.Public && r.server.Throttle.AddressBlocked(r.Counted) {
		return oauth.ErrTooManyRequests
	}
	return nil
}

// Secure refuses a request that did not come over TLS.
func (r *Request) Secure() error {
	r.server.noticeProxy(r.Request)
	if !r.server.secure(r.Request) {
		return oauth.ErrHTTPS
	}
	return nil
}

// noticeProxy warns, once, of a proxy on this machine that is not declared: its clients
// share one address, and nothing shows whether they came over TLS.
func (s *Server) noticeProxy(r *http.Request) {
	if !s.PlainHTTP || len(s.TrustedProxies) > 0 {
		return
	}
	peer := PeerOf(r)
	if !s.maybeUndeclaredProxy(peer) {
		return
	}
	for _, name := range []string{"X-Forwarded-For", "X-Forwarded-Proto", "Forwarded"} {
		if r.Header[name] != nil {
			s.undeclared.Do(func() {
				s.log.Warn("requests come through a proxy that is not declared: name its address in trusted_proxies",
					"address", peer.String(), "header", name)
			})
			return
		}
	}
}

// Early sheds the request, before its body is read, if Enter would shed it.
func (r *Request) Early() error { return r.server.Queue.Early() }

// Begin runs the first phases of a token, device or pushed request: it checks the rate
// limit of the address and the length of the queue, and then reads the form. Parameters
// may also be in the query if queryAllowed.
func (r *Request) Begin(queryAllowed bool) (oauth.Params, error) {
	if err := r.server.Throttle.RequestOfAddress(r.Counted); err != nil {
		return nil, err
	}
	if err := r.Early(); err != nil {
		return nil, err
	}
	return r.Form(queryAllowed)
}

// CountClient counts the request against the limit of its authenticated client.
// Anybody can use the name of a public client, so it has a limit for each address.
func (r *Request) CountClient(c *store.Client) error {
	if c.Public() {
		return r.server.Throttle.RequestOfClientFrom(r.Counted, r.limited(c.ID))
	}
	return r.server.Throttle.RequestOfClient(r.limited(c.ID))
}

// limited returns the key of a client in the Throttle. It contains the realm, because
// another realm may have a client of the same id.
func (r *Request) limited(clientID string) string { return store.InRealm(r.server.Realm, clientID) }

// Enter takes a slot for the work on the request, until its answer is known. Call
// it after reading the body, so that a slow sender holds no slot.
func (r *Request) Enter(c overload.Class) error {
	if r.Route.Page || c == overload.Own {
		r.network = overload.Party(r.Counted)
	}
	if err := r.server.Queue.Enter(r.Context(), c, r.network); err != nil {
		return err
	}
	r.slot, r.class = true, c
	if r.whole || r.Body == http.NoBody {
		hold(r.Request)
	}
	return nil
}

// EnterFor is Enter for the client that a request names; clients that registered
// themselves have a class of their own. The name is not verified yet: a caller that uses
// another client's name fails to authenticate later.
func (r *Request) EnterFor(c overload.Class, p oauth.Params) error {
	if cred, err := r.credentials(p); err == nil && client.IsSelfRegisteredID(cred.ClientID) {
		if named, ok := r.server.directory.Latest().Registered(r.server.Realm, cred.ClientID); !ok || named.SelfRegistered() {
			c = overload.Own
		}
	}
	return r.Enter(c)
}

// Served records that an operator's client is authentic (Queue.Operator): by its
// credentials or, if it is public, by the grant for which it received tokens.
func (r *Request) Served(c *store.Client) {
	if !c.SelfRegistered() {
		r.server.Queue.Operator()
	}
}

// credentials parses the credentials of a request, once.
func (r *Request) credentials(p oauth.Params) (oauth.Credentials, error) {
	if r.parsed {
		return r.cred, nil
	}
	cred, err := oauth.ParseCredentials(r.Header["Authorization"], p)
	if err == nil && cred.Unnamed {
		cred.ClientID, err = client.Named(cred.Assertion)
	}
	if err == nil {
		r.cred, r.parsed = cred, true
	}
	return cred, err
}

// Form reads the request's parameters, also from the query if queryAllowed, and
// checks its realm. A client that sends all in the query sends no body and no type.
func (r *Request) Form(queryAllowed bool) (oauth.Params, error) {
	var body string
	var err error
	if !queryAllowed || r.ContentLength != 0 || r.Header["Content-Type"] != nil {
		if body, err = r.FormBody(); err != nil {
			return nil, err
		}
	}
	r.form = body
	p, realm, err := oauth.ParseParams(body, r.URL.RawQuery, queryAllowed)
	if state := p["state"]; IsVisible(state) && (oauth.Params{"state": state}).CheckLengths() == nil {
		r.state = state
	}
	if err != nil {
		return nil, err
	}
	if r.Route.realm == "" || realm != "" {
		if !r.IsRealm(realm) {
			return nil, oauth.ErrRealm
		}
	}
	return p, p.CheckLengths()
}

// Posted returns the undecoded form that Form has read.
func (r *Request) Posted() string { return r.form }

// Query parses the parameters of a request that has no form. The parameter realm is
// optional, and must not name another realm.
func (r *Request) Query(raw string) (oauth.Params, error) {
	p, _, err := oauth.ParseParams(raw, "", false)
	if err != nil {
		return nil, err
	}
	if realm := p["realm"]; realm != "" && !r.IsRealm(realm) {
		return nil, oauth.ErrRealm
	}
	return p, nil
}

// IsRealm reports whether a parameter names the realm: "/api", "%2Fapi" and
// "api" do.
func (r *Request) IsRealm(name string) bool {
	return "/"+strings.TrimPrefix(name, "/") == r.server.Realm
}

// Client authenticates the request's client and returns the name that it used,
// also on failure. Failures count against the client from this address, so that
// another caller cannot lock the client out, and against the address.
func (r *Request) Client(ctx context.Context, p oauth.Params) (c *store.Client, id string, err error) {
	if r.onlyAsserts(p) {
		return r.assertingClient(ctx, p)
	}
	throttle := r.server.Throttle
	cred, err := r.credentials(p)
	if err == nil {
		if throttle.ClientBlocked(r.Counted, r.limited(cred.ClientID)) {
			return nil, cred.ClientID, oauth.ErrTooManyRequests
		}
		if r.Asserts {
			cred.Grant = oauth.Secret(p["assertion"])
		}
		if r.class == overload.Own { // fetching its keys may wait for a slow host
			ctx = r.server.Queue.Aside(ctx, r.network, cred.ClientID, &r.slot)
		}
		if c, err = r.server.Clients.Authenticate(ctx, cred, r.Counted); err == nil {
			if !c.Public() {
				r.Served(c)
			}
			return c, cred.ClientID, nil
		}
	}
	if errors.Is(err, client.ErrClient) || errors.Is(err, oauth.ErrClient) {
		throttle.Failed(r.Counted, r.limited(cred.ClientID))
	}
	return nil, cred.ClientID, err
}

// ClientOrNew is Client, but returns nil without authentication for a self-registered
// client to which no user has agreed yet. Authentication would protect nothing: the
// client could send a browser here with the same request.
func (r *Request) ClientOrNew(ctx context.Context, p oauth.Params) (c *store.Client, id string, err error) {
	cred, err := r.credentials(p)
	if err != nil || !client.IsSelfRegisteredID(cred.ClientID) {
		return r.Client(ctx, p)
	}
	directory := r.server.directory
	view, err := directory.View()
	if err != nil {
		return nil, cred.ClientID, store.Unavailable(err)
	}
	if _, listed := view.Registered(r.server.Realm, cred.ClientID); listed || !directory.Admits(r.server.Realm, cred.ClientID) {
		return r.Client(ctx, p)
	}
	if c, err = directory.Record(ctx, r.server.Realm, cred.ClientID); err != nil || c == nil {
		return nil, cred.ClientID, err
	}
	return r.Client(ctx, p)
}

// DeviceClient is Client for the device grant. A client that registers itself has no
// record until its user has agreed: until then, its id is enough.
func (r *Request) DeviceClient(ctx context.Context, p oauth.Params) (c *store.Client, id string, err error) {
	if cred, err := r.credentials(p); err == nil && client.IsSelfRegisteredID(cred.ClientID) {
		if c, err = r.server.directory.Unrecorded(ctx, r.server.Realm, cred.ClientID); c != nil || err != nil {
			return c, cred.ClientID, err
		}
	}
	return r.Client(ctx, p)
}

// onlyAsserts reports whether the request has no client credentials, so that the
// assertion that is its grant must also authenticate the client.
func (r *Request) onlyAsserts(p oauth.Params) bool {
	return r.Asserts && len(r.Header["Authorization"]) == 0 && p["client_secret"] == "" && p["client_assertion"] == ""
}

// assertingClient authenticates the client by the assertion that is the request's grant:
// it returns the client of the trust whose issuer has signed the assertion.
func (r *Request) assertingClient(ctx context.Context, p oauth.Params) (c *store.Client, id string, err error) {
	id = p["client_id"]
	a, err := r.server.Clients.Assertion(ctx, id, false, oauth.Secret(p["assertion"]))
	if errors.Is(err, oauth.ErrClient) {
		r.server.Throttle.Failed(r.Counted, r.limited(id))
	}
	if err != nil {
		return nil, id, err
	}
	view, err := r.server.directory.View()
	if err != nil {
		return nil, id, store.Unavailable(err)
	}
	switch c, ok := view.Client(r.server.Realm, a.Trust.ClientID); {
	case !ok:
		return nil, a.Trust.ClientID, client.ClientInactive
	case c.FAPI():
		return nil, c.ID, client.WrongMethod // FAPI: the client must authenticate itself
	default:
		return c, c.ID, nil
	}
}

// Charge counts so many kilobytes, of a login or registration that begins, against the
// limit of the address. It returns false if the address is over its limit.
func (r *Request) Charge(kilobytes int) bool { return r.server.Throttle.Begin(r.Counted, kilobytes) }

// AboutToken reads a request about the token in parameter token and authenticates
// its client, in the order of the token endpoint's checks. It ignores token_type_hint,
// because a token contains its type.
func (r *Request) AboutToken(ctx context.Context) (c *store.Client, p oauth.Params, rec Report, err error) {
	if err = r.Early(); err != nil {
		return nil, nil, rec, err
	}
	if p, err = r.Form(false); err != nil {
		return nil, nil, rec, err
	}
	if p["token"] == "" {
		return nil, nil, rec, oauth.ErrNoToken
	}
	h := r.Header["Authorization"]
	r.bearer = len(h) == 1 && isBearer(h[0])
	if err = r.EnterFor(r.Route.Class, p); err != nil {
		return nil, nil, rec, err
	}
	c, rec.ClientID, err = r.Client(ctx, p)
	return c, p, rec, err
}

// HasForm reports whether the request's body is declared to be a form.
func (r *Request) HasForm() bool { return isForm(r.Header["Content-Type"]) }

func isForm(contentType []string) bool {
	const form = "application/x-www-form-urlencoded"
	if len(contentType) != 1 {
		return false
	}
	if contentType[0] == form {
		return true
	}
	media, params, err := mime.ParseMediaType(contentType[0])
	charset, given := params["charset"]
	return err == nil && media == form && (!given || strings.EqualFold(charset, "utf-8"))
}

// FormBody returns the undecoded body of a form.
func (r *Request) FormBody() (string, error) {
	if !isForm(r.Header["Content-Type"]) {
		return "", oauth.ErrContentType
	}
	if len(r.Header["Content-Encoding"]) > 0 {
		return "", oauth.ErrContentEncoding
	}
	body, err := readBody(r.Request)
	r.whole = err == nil
	return body, err
}

// JSONBody returns the body of a request whose content is declared to be JSON, or
// oauth.ErrMetadataType. It charges the body to the address; see Charge.
func (r *Request) JSONBody() (string, error) {
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || media != "application/json" {
		return "", oauth.ErrMetadataType
	}
	body, err := readBody(r.Request)
	if err == nil && !r.Charge(1+len(body)>>10) {
		err = oauth.ErrTooManyRequests
	}
	return body, err
}

// usualForm is the size of a buffer that nearly every form fits. Buffers are reused, so
// that a request allocates only the returned text.
const usualForm = 4 << 10

var forms = sync.Pool{New: func() any { return new([usualForm]byte) }}

func returnForm(buffer *[usualForm]byte, used []byte) {
	clear(used) // it may hold a secret
	forms.Put(buffer)
}

// readBody reads at most oauth.MaxForm bytes. The caller has checked that a declared
// length is not greater.
func readBody(r *http.Request) (string, error) {
	defer stopReading(reading(r), r)
	var b []byte
	var err error
	if n := r.ContentLength; n > usualForm {
		b = make([]byte, n)
		_, err = io.ReadFull(r.Body, b)
	} else if n >= 0 {
		buffer := forms.Get().(*[usualForm]byte)
		b = buffer[:n]
		defer returnForm(buffer, b)
		_, err = io.ReadFull(r.Body, b)
	} else {
		b, err = io.ReadAll(io.LimitReader(r.Body, oauth.MaxForm+1))
	}
	var stalled net.Error
	switch {
	case len(b) > oauth.MaxForm:
		return "", oauth.ErrTooLarge
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF), errors.As(err, &stalled) && stalled.Timeout():
		return "", oauth.ErrIncompleteBody
	case err != nil:
		return "", oauth.ErrMalformedBody
	}
	return string(b), nil
}

// IsVisible reports whether s holds only characters that a state may have (RFC 6749
// appendix A.5).
func IsVisible(s string) bool {
	return !strings.ContainsFunc(s, func(c rune) bool { return c < 0x20 || c > 0x7e })
}

func isBearer(authorization string) bool {
	scheme, _, _ := strings.Cut(authorization, " ")
	return strings.EqualFold(scheme, "Bearer")
}
