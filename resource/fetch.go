package resource

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// requestTimeout is the timeout of each request to the authorization server.
const requestTimeout = 5 * time.Second

// newClient returns the HTTP client for all requests. It follows no redirects, which could
// send tokens to an address that is not configured, or fetch keys from it.
func newClient(given *http.Client) *http.Client {
	c := &http.Client{}
	if given != nil {
		*c = *given
	} else if t, ok := http.DefaultTransport.(*http.Transport); ok {
		// With the default of two idle connections, a busy API opens a
		// connection for almost every introspection.
		own := t.Clone()
		own.MaxIdleConnsPerHost, own.MaxConnsPerHost = 100, 100
		c.Transport = own
	}
	c.Jar = nil
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return c
}

// fetch sends a request and reads at most limit bytes of the response.
func fetch(ctx context.Context, c *http.Client, r *http.Request, limit int64) (*http.Response, []byte, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	resp, err := c.Do(r.WithContext(ctx))
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, limit+1))
	if err != nil {
		return nil, nil, fmt.Errorf("%s %s: %w", r.Method, r.URL, err)
	}
	if int64(len(body)) > limit {
		return nil, nil, fmt.Errorf("%s %s: more than %d bytes", r.Method, r.URL, limit)
	}
	return resp, body, nil
}

// get fetches a public document.
func get(ctx context.Context, c *http.Client, address string, limit int64, header http.Header) (*http.Response, []byte, error) {
	r, err := http.NewRequest(http.MethodGet, address, nil)
	if err != nil {
		return nil, nil, err
	}
	r.Header = header
	resp, body, err := fetch(ctx, c, r, limit)
	if err == nil && resp.StatusCode != http.StatusOK && (resp.StatusCode != http.StatusNotModified || header.Get("If-None-Match") == "") {
		err = fmt.Errorf("GET %s: status %d", address, resp.StatusCode)
	}
	return resp, body, err
}

// freshness returns how long a response may be cached (RFC 9111 section 4.2): max-age
// minus Age, within least and most. Without max-age, it uses the argument otherwise.
func freshness(h http.Header, otherwise, least, most time.Duration) time.Duration {
	fresh := otherwise
	for directive := range strings.SplitSeq(strings.ToLower(strings.Join(h.Values("Cache-Control"), ",")), ",") {
		directive = strings.TrimSpace(directive)
		if directive == "no-store" || directive == "no-cache" {
			return least
		}
		if text, ok := strings.CutPrefix(directive, "max-age="); ok {
			fresh = seconds(strings.Trim(text, `"`))
		}
	}
	return min(max(fresh-seconds(h.Get("Age")), least), most)
}

// seconds parses a number of seconds: 0 if it is none, and 68 years if it overflows
// (RFC 9111 section 1.2.2).
func seconds(text string) time.Duration {
	n, _ := strconv.ParseUint(text, 10, 31)
	return time.Duration(n) * time.Second
}
