//go:build e2e

package golden

import (
	"crypto/hmac"
	"crypto/sha1"
	"encoding/base32"
	"encoding/binary"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// forms match the values that the program generates. Each distinct value gets a name,
// such as <client-2>, which later input lines can use. The first group is the value,
// which is replaced here and in all later output.
var forms = []struct {
	kind string
	form *regexp.Regexp
}{
	{"code", regexp.MustCompile(`\b(mintage_ac_[A-Za-z0-9_-]{20,})`)},
	{"device-code", regexp.MustCompile(`\b(mintage_dc_[A-Za-z0-9_-]{20,})`)},
	{"user-code", regexp.MustCompile(`\b([BCDFGHJKLMNPQRSTVWXZ]{4}(?:-[BCDFGHJKLMNPQRSTVWXZ]{4}){1,2})\b`)},
	{"refresh", regexp.MustCompile(`\b(mintage_rt_[A-Za-z0-9_-]{20,})`)},
	{"access", regexp.MustCompile(`\b(mintage_[as]t_[A-Za-z0-9_-]{20,})`)},
	{"jwt", regexp.MustCompile(`\b(eyJ[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+)`)},
	{"pushed", regexp.MustCompile(`urn:ietf:params:oauth:request_uri:([A-Za-z0-9_-]{16,})`)},
	{"operator", regexp.MustCompile(`\b(mintage_op_[A-Za-z0-9]{43})\b`)},
	{"client", regexp.MustCompile(`\b(mintage_ci_[A-Za-z0-9_-]{20,})`)},
	{"secret", regexp.MustCompile(`"client_secret":"([A-Za-z0-9_-]{43})"`)},
	{"client", regexp.MustCompile(`client(?:_id)?["':=]*\s*"?([A-Za-z0-9]{24})\b`)},
	{"secret", regexp.MustCompile(`secret["':=]*\s*"?([A-Za-z0-9]{43})\b`)},
	{"secretid", regexp.MustCompile(`(?:"id": ?"|secret_id["':=]*\s*"?|"secret":"|secret )([A-Za-z0-9]{12})\b`)},
	{"secretid", regexp.MustCompile(`(?m)^([A-Za-z0-9]{12})  active`)},
	{"password", regexp.MustCompile(`password["':=]*\s*"?([A-Za-z0-9]{16})\b`)},
	{"totp", regexp.MustCompile(`\b([A-Z2-7]{32})\b`)},
	{"browser", regexp.MustCompile(`mintage_browser=([A-Za-z0-9_-]{43})\b`)},
	{"session", regexp.MustCompile(`Set-Cookie: __Host-mintage_session=([A-Za-z0-9_-]{20,})`)},
	{"known", regexp.MustCompile(`Set-Cookie: __Host-mintage_known=([A-Za-z0-9_-]{20,})`)},
	{"interaction", regexp.MustCompile(`(?:interaction\?id=|name="id" value=")([A-Za-z0-9_-]{40,})`)},
	{"verifier", regexp.MustCompile(`verifier=([A-Za-z0-9_-]{43})\b`)},
	{"ticket", regexp.MustCompile(`ticket=([A-Za-z0-9]{43})\b`)},
	{"etag", regexp.MustCompile(`(?i)etag: ("[A-Za-z0-9_-]{22}")`)},
	{"login", regexp.MustCompile(`\b([0-9a-f]{24})\b`)}, // a session, as shown to operators
	{"grant", regexp.MustCompile(`\b([0-9a-f]{32})\b`)},
	{"key", regexp.MustCompile(`(?:"kid": ?"|kid="|"id": "|key +|beside |kek\.|by |from |to |"fingerprint":"|is now |(?m:^))([0-9a-f]{8})\b`)},
	{"console", regexp.MustCompile(`https://(127\.0\.0\.1:\d+)/invitation/`)},
	{"console", regexp.MustCompile(`"console": ?"https://(127\.0\.0\.1:\d+)"`)},
	{"invitation", regexp.MustCompile(`/invitation/([A-Za-z0-9]{43})\b`)},
	{"style", regexp.MustCompile(`/style-([0-9a-f]{16})\.css`)},
	{"chain", regexp.MustCompile(`chain["':=]*\s*"?([0-9a-f]{16})\b`)},
}

// masks match values that no later step uses.
var masks = []struct {
	form *regexp.Regexp
	to   string
}{
	{regexp.MustCompile(`"(time|ts)":"[^"]*"`), `"$1":"<time>"`},
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d[:-]?\d\d[:-]?\d\d(\.\d+)?Z`), "<time>"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d`), "<time>"},
	{regexp.MustCompile(`\b[0-9]{8}T[0-9]{6}Z\b`), "<time>"},
	// Dates as the pages write them.
	{regexp.MustCompile(`\b\d{1,2} (January|February|March|April|May|June|July|August|September|October|November|December) \d{4}\b`), "<date>"},
	{regexp.MustCompile(`\d{4}年\d{1,2}月\d{1,2}日`), "<date>"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\d\b`), "<date>"},
	{regexp.MustCompile(`(?m)^(Date|Last-Modified|Expires): [A-Z].*`), "$1: <date>"},
	{regexp.MustCompile(`"(exp|iat|nbf|auth_time|updated_at|client_id_issued_at)": ?\d{10}\b`), `"$1":<instant>`},
	// Seconds may pass between issuing a token and introspecting it.
	{regexp.MustCompile(`"expires_in":(29[0-9]|300)\b`), `"expires_in":<300>`},
	// Ages and waiting times.
	{regexp.MustCompile(`\b[0-9.]+ ?(ms|µs|s|min) ago\b`), "<duration> ago"},
	{regexp.MustCompile(`\b1h0m[0-9]s old\b`), "<1h> old"},
	{regexp.MustCompile(`(again in|\(in) [0-9.]+ ?(ms|s|min)\b`), "$1 <duration>"},
	{regexp.MustCompile(`Retry-After: \d+`), "Retry-After: <seconds>"},
	// A running server writes a document for the audit log about once a second.
	{regexp.MustCompile(`\b\d+ documents,`), "<n> documents,"},
	{regexp.MustCompile(`"documents": ?\d+`), `"documents":<n>`},
	// One transcript holds for both engines.
	{regexp.MustCompile(`"store":"[^"]*"`), `"store":"<store>"`},
	{regexp.MustCompile(`\bfrom 127\.0\.0\.1:\d+`), "from <address>"},
	{regexp.MustCompile(`\b\d+ rows/s`), "<n> rows/s"},
	{regexp.MustCompile(`\bdur_ms=[0-9.]+`), "dur_ms=<n>"},
	{regexp.MustCompile(`X-Auth-Expires: \d+`), "X-Auth-Expires: <instant>"},
	{regexp.MustCompile(`"(jti|at_hash|sid)":"[A-Za-z0-9_-]+"`), `"$1":"<$1>"`},
	{regexp.MustCompile(`"mac":"[^"]*"`), `"mac":"<mac>"`},
	{regexp.MustCompile(`"seq":\d+`), `"seq":<n>`},
	{regexp.MustCompile(`"(dur_ms|pid|uptime_s|took_ms|bytes|size)": ?[0-9.]+`), `"$1":<n>`},
	{regexp.MustCompile(`\b[0-9a-f]{64}\b`), "<sha256>"},
	{regexp.MustCompile(`\b[0-9a-f]{16}\b`), "<request>"},
	{regexp.MustCompile(`\b[0-9.]+ (KiB|MiB|GiB|TiB)\b`), "<size>"},
	{regexp.MustCompile(`\b[0-9a-f]{8}\b`), "<key>"},
	// Parts of the published keys.
	{regexp.MustCompile(`(?s)(-----BEGIN PUBLIC KEY-----).*?(-----END PUBLIC KEY-----)`), "$1\n<key>\n$2"},
	{regexp.MustCompile(`"(x|y|n)": ?"[A-Za-z0-9_-]{43,}"`), `"$1":"<key>"`},
}

// names replaces values that differ from run to run by names, and names by their values.
type names struct {
	name, value map[string]string
	count       map[string]int
	known       []string // values, longest first
}

func newNames() *names {
	return &names{name: map[string]string{}, value: map[string]string{}, count: map[string]int{}}
}

// set gives a value a name.
func (n *names) set(name, value string) {
	if value == "" || n.name[value] != "" {
		return
	}
	n.value[name] = value
	for _, v := range []string{value, url.QueryEscape(value), strings.ReplaceAll(url.QueryEscape(value), "+", "%20")} {
		if n.name[v] == "" {
			n.name[v] = name
			n.known = append(n.known, v)
		}
	}
	slices.SortStableFunc(n.known, func(a, b string) int { return len(b) - len(a) })
}

// hide replaces all varying values in a text, and names new ones.
func (n *names) hide(text string) string {
	n.learn(text)
	return n.replace(text)
}

// learn names the generated values in a text.
func (n *names) learn(text string) {
	for _, f := range forms {
		for _, match := range f.form.FindAllStringSubmatch(text, -1) {
			if n.name[match[1]] == "" {
				n.count[f.kind]++
				n.set(fmt.Sprintf("<%s-%d>", f.kind, n.count[f.kind]), match[1])
			}
		}
	}
}

// replace is hide without naming new values, for texts such as logs, whose order differs
// from run to run.
func (n *names) replace(text string) string {
	var pairs []string
	for _, v := range n.known {
		pairs = append(pairs, v, n.name[v])
	}
	text = strings.NewReplacer(pairs...).Replace(text)
	for _, f := range forms {
		text = f.form.ReplaceAllStringFunc(text, func(match string) string {
			return strings.Replace(match, f.form.FindStringSubmatch(match)[1], "<"+f.kind+">", 1)
		})
	}
	for _, m := range masks {
		text = m.form.ReplaceAllString(text, m.to)
	}
	return text
}

var placeholder = regexp.MustCompile(`<[a-z]+(-\d+)?>`)

// expand replaces the names in an input line by their values.
func (n *names) expand(t testing.TB, line string) string {
	t.Helper()
	return placeholder.ReplaceAllStringFunc(line, func(name string) string {
		if name == "<otp>" {
			return n.otp()
		}
		value, ok := n.value[name]
		if !ok {
			t.Errorf("%s: no output so far contains %s", line, name)
			return name
		}
		return value
	})
}

// otp returns the current code of the most recent second factor.
func (n *names) otp() string {
	key, _ := base32.StdEncoding.DecodeString(n.value[fmt.Sprintf("<totp-%d>", n.count["totp"])])
	m := hmac.New(sha1.New, key)
	binary.Write(m, binary.BigEndian, uint64(time.Now().Unix()/30))
	sum := m.Sum(nil)
	at := sum[len(sum)-1] & 15
	return fmt.Sprintf("%06d", binary.BigEndian.Uint32(sum[at:at+4])&0x7fffffff%1_000_000)
}
