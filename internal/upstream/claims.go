package upstream

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/mintage/mintage/internal/claims"
)

// known returns the standard claims about the user, as Config.Claims maps them, and the
// named claims as the provider sends them. It reads each from the ID token or, if absent
// there, from userinfo (OIDC Core section 5.3). It omits a value that is invalid for its
// standard claim.
func (p *Provider) known(ctx context.Context, m *metadata, token map[string]json.RawMessage, accessToken string, named []string) (standard, reported string, err error) {
	var more map[string]json.RawMessage
	value := func(theirs string) json.RawMessage {
		of, ok := token[theirs]
		if !ok && m.userInfo != "" && err == nil {
			if more == nil {
				more, err = p.userInfo(ctx, m, accessToken, token["sub"])
			}
			of = more[theirs]
		}
		return of
	}
	patch, raw := claims.Claims{}, map[string]json.RawMessage{}
	for name, theirs := range p.cfg.Claims {
		if formed, err := claims.Form(name, value(theirs)); err == nil && formed != nil {
			patch[name] = formed
		}
	}
	for _, name := range named {
		if of := value(name); of != nil {
			raw[name] = of
		}
	}
	if err != nil {
		return "", "", err
	}
	found, err := claims.Claims(nil).Merge(patch)
	if err != nil {
		return "", "", invalid("claims: %w; map fewer in login.upstream.claims", err)
	}
	if standard, err = object(found); err == nil {
		reported, err = object(raw)
	}
	return standard, reported, err
}

// object returns a JSON object, "" for one without members.
func object[M ~map[string]json.RawMessage](members M) (string, error) {
	if len(members) == 0 {
		return "", nil
	}
	text, err := json.Marshal(members)
	return string(text), err
}

// userInfo reads the provider's userinfo, which must be about the same user (OIDC Core
// section 5.3.2). It does not support signed responses.
func (p *Provider) userInfo(ctx context.Context, m *metadata, accessToken string, sub json.RawMessage) (answer map[string]json.RawMessage, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, m.userInfo, nil)
	if err != nil {
		return nil, invalid("userinfo: %s", short(err))
	}
	r.Header.Set("Authorization", "Bearer "+accessToken)
	r.Header.Set("Accept", "application/json")
	resp, err := p.client.Do(r)
	switch {
	case isFault(err):
		return nil, unavailable("userinfo: %w", err)
	case err != nil:
		return nil, invalid("userinfo: %s", short(err))
	}
	defer resp.Body.Close()
	var theirs, ours string
	if json.NewDecoder(resp.Body).Decode(&answer) != nil || json.Unmarshal(answer["sub"], &theirs) != nil || json.Unmarshal(sub, &ours) != nil {
		return nil, invalid("userinfo: no JSON object with a sub")
	}
	if theirs != ours {
		return nil, invalid("userinfo: sub differs from that of the ID token")
	}
	return answer, nil
}
