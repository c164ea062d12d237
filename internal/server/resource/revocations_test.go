package resource_test

import (
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/store"
)

type revocationList struct {
	Issuer  string           `json:"iss"`
	Grants  map[string]int64 `json:"grants"`
	Cutoffs map[string]int64 `json:"cutoffs"`
}

// list fetches the revocation list, and verifies it as a third party would.
func (p *publicSide) list() (l revocationList, etag string) {
	p.t.Helper()
	body, header := p.get("/oauth2/revocations")
	signed, err := jose.ParseSigned(body, []jose.SignatureAlgorithm{jose.ES256})
	if err != nil {
		p.t.Fatal(err)
	}
	payload, err := signed.Verify(p.keySet())
	if err != nil {
		p.t.Fatal(err)
	}
	l = read[revocationList](p.t, string(payload))
	if typ := signed.Signatures[0].Protected.ExtraHeaders[jose.HeaderType]; typ != "revocations+jwt" || l.Issuer != issuerID {
		p.t.Errorf("type %v, iss %s", typ, l.Issuer)
	}
	return l, header.Get("Etag")
}

func (p *publicSide) login(subject string) issuer.Tokens {
	p.t.Helper()
	code, err := p.kit.Codes().Issue(p.t.Context(), issuer.Authorization{ClientID: "billing", RedirectURI: callback, Subject: subject})
	if err != nil {
		p.t.Fatal(err)
	}
	tokens, err := p.kit.Exchange(p.t.Context(), p.client, issuer.CodeRequest{Code: code.Code, RedirectURI: callback})
	if err != nil {
		p.t.Fatal(err)
	}
	return tokens
}

func TestListOfRevocationsTellsWithinASecond(t *testing.T) {
	p := newPublicSide(t)
	p.advance(15*time.Second - time.Duration(p.kit.At()%15_000)*time.Millisecond)
	tokens := p.login("alice")
	first, etag := p.list()
	if len(first.Grants)+len(first.Cutoffs) != 0 {
		t.Fatalf("%d grants, %d cutoffs at first", len(first.Grants), len(first.Cutoffs))
	}
	p.advance(time.Second)
	if _, same := p.list(); same != etag {
		t.Error("the ETag changed with nothing but the time")
	}

	form := url.Values{"token": {tokens.RefreshToken}, "client_id": {"billing"}, "client_secret": {string(p.secret)}}
	r := httptest.NewRequest("POST", "/oauth2/revoke", strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if resp := p.send(r); resp.StatusCode != 200 {
		t.Fatalf("revocation: %d", resp.StatusCode)
	}
	p.advance(time.Second)
	second, changed := p.list()
	if len(second.Grants) != 1 || len(second.Cutoffs) != 0 || changed == etag {
		t.Errorf("after a revocation: %d grants, %d cutoffs, ETag changed: %t", len(second.Grants), len(second.Cutoffs), changed != etag)
	}
	if resp := p.do("GET", "/oauth2/revocations", "If-None-Match: "+etag); resp.StatusCode != 200 {
		t.Errorf("a subscriber with the old list gets 304: %d", resp.StatusCode)
	}

	if err := p.kit.Engine.Commit(t.Context(), store.Change{Cutoffs: []store.Cutoff{{Realm: "/api", Subject: "bob", At: 1_700_000_100_000}}}); err != nil {
		t.Fatal(err)
	}
	p.advance(time.Second)
	third, again := p.list()
	if len(third.Grants) != 1 || len(third.Cutoffs) != 1 || again == changed {
		t.Errorf("after a cutoff: %d grants, %d cutoffs, ETag changed: %t", len(third.Grants), len(third.Cutoffs), again != changed)
	}
	p.advance(5*time.Minute + 30*time.Second)
	if last, _ := p.list(); len(last.Grants) != 0 {
		t.Error("what has expired is listed")
	}
}
