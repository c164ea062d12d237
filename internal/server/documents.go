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

// A document is the same for everybody, and may be kept for a while.
type document struct {
	media  string
	body   []byte
	maxAge time.Duration
	tag    string // entityTag of body; "" to have it made
}

// published serves a document to whoever asks, unchanged by anything in the
// request but a realm that does not exist.
func (s *Server) published(load func(context.Context, *http.Request) (document, error)) handlerFunc {
	return func(ctx context.Context, r *http.Request, x *exchange) (answer, error) {
		if err := s.admit(r, x); err != nil {
			return answer{}, err
		}
		if _, err := s.query(r.URL.RawQuery); err != nil {
			return answer{}, err
		}
		d, err := load(ctx, r)
		if err != nil {
			return answer{}, err
		}
		etag := d.tag
		if etag == "" {
			etag = entityTag(d.body)
		}
		h := http.Header{
			"Cache-Control": {"public, max-age=" + strconv.FormatInt(int64(d.maxAge/time.Second), 10)},
			"Content-Type":  {d.media},
			"Etag":          {etag},
			"Pragma":        nil,
		}
		if matches(r.Header["If-None-Match"], etag) {
			h["Content-Type"] = nil
			return answer{status: http.StatusNotModified, header: h}, nil
		}
		h["Content-Length"] = []string{strconv.Itoa(len(d.body))}
		return answer{body: d.body, header: h}, nil
	}
}

// entityTag is equal on every node that sends the same bytes.
func entityTag(body []byte) string {
	sum := sha256.Sum256(body)
	return `"` + base64.RawURLEncoding.EncodeToString(sum[:16]) + `"`
}

// matches compares weakly, as RFC 9110 section 13.1.2 has it: a proxy that
// compresses weakens a tag. Ours hold no comma.
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
