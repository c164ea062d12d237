package server

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/overload"
)

// maxForwarded bounds what a POST to the authorization endpoint may hold, in
// bytes: it goes on as a query, which headers must have room for.
const maxForwarded = 12 << 10

// authorize is the authorization endpoint (RFC 6749 section 4.1.1). Its phases:
// transport, parameters, the client and its redirect URI, what it asks for, the
// user. Nobody is redirected before the third is done.
func (s *Server) authorize(ctx context.Context, r *http.Request, x *exchange) (answer, error) {
	body := ""
	if r.Method == http.MethodPost {
		var err error
		if body, err = formBody(r); err != nil {
			return answer{}, err
		}
	}
	req, realm, err := oauth.ParseAuthorization(body, r.URL.RawQuery)
	x.clientID = req.ClientID
	s.language(r, x, req.UILocales)
	if err != nil {
		return answer{}, err
	}
	if realm != "" && !s.isRealm(realm) {
		return answer{}, oauth.ErrRealm
	}
	if r.Method == http.MethodPost {
		// Browsers send no cookies with a POST from the client's site. The same
		// request once more, as GET, has them.
		query := strings.Trim(r.URL.RawQuery+"&"+visible(body), "&")
		if len(query) > maxForwarded {
			return answer{}, oauth.ErrTooLarge
		}
		return seeOther(s.opt.PublicURL + r.URL.Path + "?" + query), nil
	}

	if err := s.enter(r, x, overload.Code); err != nil {
		return answer{}, err
	}
	st, err := s.opt.Front.Authorizer.Authorize(ctx, req, s.guest(r, x))
	if st.Client != nil {
		x.client = st.Client.Name
	}
	if err != nil {
		return answer{}, err
	}
	s.auditCode(x, st)
	s.stamp(x, st.Session)
	if st.URL != "" {
		return seeOther(st.URL), nil
	}
	return seeOther(s.interactionURL(st.Interaction.ID)), nil
}

// visible percent-encodes what an address cannot hold as it is.
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
