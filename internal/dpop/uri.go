package dpop

import (
	"cmp"
	"net/url"
	"strings"
)

// sameURI reports whether the htu of a proof is the address of a request, without query
// and fragment, after normalization (RFC 9449 section 4.3, RFC 3986 sections 6.2.2 and
// 6.2.3).
func sameURI(htu, address string) bool {
	if htu == address {
		return htu != ""
	}
	a, okA := normalize(htu)
	b, okB := normalize(address)
	return okA && okB && a == b
}

// normalize returns the canonical form of an absolute https or http address.
func normalize(uri string) (string, bool) {
	u, err := url.Parse(uri)
	if err != nil || u.Hostname() == "" || u.User != nil {
		return "", false
	}
	scheme, host := strings.ToLower(u.Scheme), strings.ToLower(u.Host)
	switch scheme {
	case "https":
		host = strings.TrimSuffix(host, ":443")
	case "http":
		host = strings.TrimSuffix(host, ":80")
	default:
		return "", false
	}
	path := cmp.Or(withoutDots(unreserved(u.EscapedPath())), "/")
	return scheme + "://" + strings.TrimSuffix(host, ":") + path, true
}

// unreserved decodes percent-encoded unreserved characters, and writes the other
// percent-encodings in upper case (RFC 3986 sections 6.2.2.1 and 6.2.2.2).
func unreserved(path string) string {
	var b strings.Builder
	for i := 0; i < len(path); i++ {
		if path[i] != '%' || i+2 >= len(path) {
			b.WriteByte(path[i])
			continue
		}
		triplet := strings.ToUpper(path[i : i+3])
		if one, err := url.PathUnescape(triplet); err == nil && len(one) == 1 && isUnreserved(one[0]) {
			triplet = one
		}
		b.WriteString(triplet)
		i += 2
	}
	return b.String()
}

func isUnreserved(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("-._~", c) >= 0
}

// withoutDots removes dot segments (RFC 3986 section 5.2.4).
func withoutDots(path string) string {
	if !strings.Contains(path, "/.") {
		return path
	}
	var kept []string
	segments := strings.Split(path, "/")
	for i, s := range segments {
		last := i == len(segments)-1
		switch {
		case s == "..":
			kept = kept[:max(1, len(kept)-1)]
		case s != ".":
			kept = append(kept, s)
			continue
		}
		if last {
			kept = append(kept, "")
		}
	}
	return strings.Join(kept, "/")
}
