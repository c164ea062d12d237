package web

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/mintage/mintage/internal/login"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/server"
)

// maxForwarded bounds the parameters of a POST to the authorization endpoint, in bytes:
// they become a query, which must fit into the headers of the next request.
const maxForwarded = 12 << 10

// authorize is the authorization endpoint (RFC 6749 section 4.1.1). Its phases: transport,
// parameters, the client and its redirect URI, the rest of the request, the user. It
// redirects nobody to a client before the third is done.
func (s *endpoints) authorize(ctx context.Context, r *http.Request, x *exchange) (server.Answer, error) {
	body, err := posted(r, x)
	if err != nil {
		return server.Answer{}, err
	}
	req, realm, err := oauth.ParseAuthorization(body, r.URL.RawQuery)
	x.ClientID = req.ClientID
	x.Locale = s.locale(x.Request, req.UILocales)
	if err != nil {
		return server.Answer{}, err
	}
	if realm != "" && !x.IsRealm(realm) {
		return server.Answer{}, oauth.ErrRealm
	}
	if r.Method == http.MethodPost {
		// Browsers send no SameSite=Lax cookies with a POST from the client's site. Redirect to
		// the same request as a GET, with which they do.
		query := strings.Trim(r.URL.RawQuery+"&"+visible(body), "&")
		if len(query) > maxForwarded {
			return server.Answer{}, oauth.ErrTooLarge
		}
		return seeOther(s.PublicURL + r.URL.Path + "?" + query), nil
	}

	if err := x.Enter(x.Route.Class); err != nil {
		return server.Answer{}, err
	}
	if req.Pushed != "" {
		if req, err = s.Authorizer.Pushed(ctx, req.ClientID, req.Pushed); err != nil {
			return server.Answer{}, err
		}
		x.Locale = s.locale(x.Request, req.UILocales)
	}
	st, err := s.Authorizer.Authorize(ctx, req, s.guest(r, x))
	if st.Client != nil {
		x.ClientName = login.ShownName(st.Client)
	}
	if err != nil {
		return server.Answer{}, err
	}
	events{s}.code(x, st)
	s.stamp(x, st.Session)
	if st.URL != "" {
		return s.respond(x.Locale, st.Client, req, st.URL)
	}
	return seeOther(s.interactionURL(st.Interaction.ID)), nil
}

// posted returns the form of a POST request, and "" for another method.
func posted(r *http.Request, x *exchange) (string, error) {
	if r.Method != http.MethodPost {
		return "", nil
	}
	return x.FormBody()
}

// visible percent-encodes the octets that a URL cannot contain.
func visible(form string) string {
	var b strings.Builder
	for i := range len(form) {
		if c := form[i]; c > ' ' && c < 0x7f {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}
