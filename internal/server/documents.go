package server

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Publication is a document that is the same for every caller and may be cached.
type Publication struct {
	Media  string
	Body   []byte
	MaxAge time.Duration
	Tag    string // EntityTag of Body; "": Published computes it
}

// Published serves a public document with conditional requests (RFC 9110 section 13).
// The query does not change the response, but a malformed query, or one that names
// another realm, is an error.
func Published(load func(context.Context, *Request) (Publication, error)) Handler {
	return func(ctx context.Context, r *Request) (a Answer, rec Report, err error) {
		if _, err = r.Query(r.URL.RawQuery); err != nil {
			return a, rec, err
		}
		d, err := load(ctx, r)
		if err != nil {
			return a, rec, err
		}
		etag := d.Tag
		if etag == "" {
			etag = EntityTag(d.Body)
		}
		h := http.Header{
			"Cache-Control": {"public, max-age=" + strconv.FormatInt(int64(d.MaxAge/time.Second), 10)},
			"Content-Type":  {d.Media},
			"Etag":          {etag},
			"Pragma":        nil,
		}
		if matches(r.Header["If-None-Match"], etag) {
			h["Content-Type"] = nil
			return Answer{Status: http.StatusNotModified, Header: h}, rec, nil
		}
		h["Content-Length"] = []string{strconv.Itoa(len(d.Body))}
		return Answer{Body: d.Body, Header: h}, rec, nil
	}
}

// EntityTag returns the entity tag of a body. Every node that sends the same bytes sends
// the same tag.
func EntityTag(body []byte) string {
	sum := sha256.Sum256(body)
	return `"` + base64.RawURLEncoding.EncodeToString(sum[:16]) + `"`
}

// matches compares entity tags weakly (RFC 9110 section 13.1.2), because a proxy that
// compresses weakens them. It can split the header at commas: EntityTag returns none.
func matches(ifNoneMatch []string, etag string) bool {
	for _, line := range ifNoneMatch {
		for tag := range strings.SplitSeq(line, ",") {
			tag = strings.TrimSpace(tag)
			if tag == "*" || strings.TrimPrefix(tag, "W/") == etag {
				return true
			}
		}
	}
	return false
}
