package resource_test

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// never is the floor of a grant that was revoked.
const never = 253402300799999

// A feed is the list of revocations of the test server.
type feed struct {
	grants, cutoffs map[string]any
	maxAge          int // seconds
	covers          int64
	change          map[string]any // of its claims
	typ             string
	by              *signer // instead of the server's key
	lag             time.Duration
	conditional     []string // the If-None-Match of each request
}

func newFeed() feed {
	return feed{grants: map[string]any{}, cutoffs: map[string]any{}, maxAge: 5, covers: 300_000, typ: "revocations+jwt"}
}

func blinded(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return base64.RawURLEncoding.EncodeToString(sum[:16])
}

func (f *feed) revoke(grant byte, floor int64) {
	f.grants[blinded("mintage/grant", strings.Repeat("\x00", 15)+string([]byte{grant}))] = floor
}

func (f *feed) cutOff(subject, client string, at time.Time) {
	f.cutoffs[blinded("mintage/cutoff", "/api", subject, client)] = at.UnixMilli()
}

// serve responds like the server: it issues the list anew each second, and the entity tag
// changes with the entries.
func (f *feed) serve(w http.ResponseWriter, r *http.Request, k signer, issuer string) {
	if f.by != nil {
		k = *f.by
	}
	now := time.Now().Add(-f.lag)
	etag := `"` + blinded(fmt.Sprint(f.grants, f.cutoffs)) + `"`
	f.conditional = append(f.conditional, r.Header.Get("If-None-Match"))
	w.Header().Set("Cache-Control", fmt.Sprintf("public, max-age=%d", f.maxAge))
	w.Header().Set("ETag", etag)
	w.Header().Set("Content-Type", "application/jwt")
	if r.Header.Get("If-None-Match") == etag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	claims := map[string]any{
		"iss": issuer, "iat": now.Unix(), "exp": now.Unix() + int64(2*f.maxAge+30), "covers_ms": f.covers,
		"grants": f.grants, "cutoffs": f.cutoffs,
	}
	header := k.header()
	header["typ"] = f.typ
	fmt.Fprint(w, k.compact(header, altered(claims, f.change)))
}
