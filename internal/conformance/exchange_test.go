package conformance_test

import (
	"bufio"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/grant"
)

// An answer is a response, byte for byte.
type answer struct {
	status int
	header map[string][]string
	body   string

	tokens
	Error       string `json:"error"`
	Description string `json:"error_description"`
	State       string `json:"state"`
}

type tokens struct {
	AccessToken  string      `json:"access_token"`
	TokenType    string      `json:"token_type"`
	ExpiresIn    json.Number `json:"expires_in"`
	RefreshToken string      `json:"refresh_token"`
	Scope        string      `json:"scope"`
	IDToken      string      `json:"id_token"`
}

func (a answer) String() string {
	if a.status == http.StatusOK {
		return "200 with tokens"
	}
	return fmt.Sprintf("%d %s", a.status, a.body)
}

// A request is a token request in parts that tests can corrupt. It is sent exactly as it
// stands, without normalization.
type request struct {
	method, target, proto string
	header                []string // complete lines
	form                  url.Values
	body                  *string // replaces form unless nil
}

func newRequest(form url.Values) *request {
	return &request{
		method: http.MethodPost, target: endpoint, proto: "HTTP/1.1",
		header: []string{"Host: 127.0.0.1", "Content-Type: application/x-www-form-urlencoded"},
		form:   maps.Clone(form),
	}
}

// text returns the bytes of the request.
func (r *request) text() string {
	body := r.form.Encode()
	if r.body != nil {
		body = *r.body
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s %s\r\n", r.method, r.target, r.proto)
	framed := false
	for _, line := range r.header {
		b.WriteString(line + "\r\n")
		name, _, _ := strings.Cut(strings.ToLower(line), ":")
		framed = framed || name == "content-length" || name == "transfer-encoding"
	}
	if !framed {
		fmt.Fprintf(&b, "Content-Length: %d\r\n", len(body))
	}
	b.WriteString("\r\n" + body)
	return b.String()
}

// set replaces or adds a header line; an empty value removes it.
func (r *request) set(name, value string) {
	r.header = slices.DeleteFunc(r.header, func(line string) bool {
		return strings.EqualFold(strings.SplitN(line, ":", 2)[0], name)
	})
	if value != "" {
		r.header = append(r.header, name+": "+value)
	}
}

// basic moves the client's credentials from the form to the Authorization header.
func (r *request) basic(id, secret string) {
	r.form.Del("client_id")
	r.form.Del("client_secret")
	r.set("Authorization", basicHeader(url.QueryEscape(id), url.QueryEscape(secret)))
}

func basicHeader(id, secret string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(id+":"+secret))
}

// send sends the request over a new connection from a new address, and reads the
// response.
func (d *deployment) send(r *request) answer {
	d.t.Helper()
	return d.sendFrom(local(), r)
}

func (d *deployment) sendFrom(from *net.TCPAddr, r *request) answer {
	d.t.Helper()
	conn := d.dial(from)
	defer conn.Close()
	a, err := converse(conn, r.text(), r.method)
	if err != nil {
		d.t.Fatalf("%s %s: %v", r.method, r.target, err)
	}
	return a
}

// post sends a form with net/http, over a persistent connection.
func (d *deployment) post(form url.Values) answer {
	d.t.Helper()
	if d.kept == nil {
		d.kept = d.httpClient()
	}
	a, err := d.postVia(d.kept, form)
	if err != nil {
		d.t.Fatal(err)
	}
	return a
}

// converse writes text and reads one response.
func converse(conn net.Conn, text, method string) (answer, error) {
	conn.SetDeadline(time.Now().Add(30 * time.Second))
	if _, err := io.WriteString(conn, text); err != nil {
		return answer{}, err
	}
	return readAnswer(bufio.NewReader(conn), method)
}

// readAnswer reads a response with all headers, some of which net/http's client would
// remove.
func readAnswer(r *bufio.Reader, method string) (a answer, err error) {
	tp := textproto.NewReader(r)
	line, err := tp.ReadLine()
	if err != nil {
		return a, err
	}
	_, rest, _ := strings.Cut(line, " ")
	number, _, _ := strings.Cut(rest, " ")
	if a.status, err = strconv.Atoi(number); err != nil {
		return a, fmt.Errorf("status line %q", line)
	}
	header, err := tp.ReadMIMEHeader()
	if err != nil {
		return a, err
	}
	a.header = header
	body := io.Reader(r)
	if n := header.Get("Content-Length"); n != "" {
		size, err := strconv.ParseInt(n, 10, 64)
		if err != nil {
			return a, err
		}
		body = io.LimitReader(r, size)
	}
	if method == http.MethodHead || a.status == http.StatusNoContent {
		body = strings.NewReader("")
	}
	text, err := io.ReadAll(body)
	if err != nil {
		return a, err
	}
	a.body = string(text)
	if strings.HasPrefix(header.Get("Content-Type"), "application/json") && a.body != "" {
		err = json.Unmarshal(text, &a)
	}
	return a, err
}

// httpClient returns a client with persistent connections, for many concurrent requests.
func (d *deployment) httpClient() *http.Client {
	d.t.Helper()
	dialer := &net.Dialer{LocalAddr: local(), Timeout: 10 * time.Second}
	tr := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: d.roots}, DialContext: dialer.DialContext,
		MaxConnsPerHost: 64, MaxIdleConnsPerHost: 64,
	}
	d.ended(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: 30 * time.Second, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}
}

// postVia sends a form with an http.Client, from any goroutine.
func (d *deployment) postVia(c *http.Client, form url.Values) (a answer, err error) {
	scheme := "https://"
	if d.plain {
		scheme = "http://"
	}
	resp, err := c.Post(scheme+d.address+endpoint, "application/x-www-form-urlencoded", strings.NewReader(form.Encode()))
	if err != nil {
		return a, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return a, err
	}
	a.status, a.header, a.body = resp.StatusCode, resp.Header, string(text)
	return a, json.Unmarshal(text, &a)
}

// redeem returns the form that redeems a code for the client.
func (c oauthClient) redeem(code string) url.Values {
	return c.identify(url.Values{"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {c.RedirectURIs[0]}})
}

// refresh returns the form that refreshes for the client.
func (c oauthClient) refresh(token string) url.Values {
	return c.identify(url.Values{"grant_type": {"refresh_token"}, "refresh_token": {token}})
}

func (c oauthClient) identify(form url.Values) url.Values {
	form.Set("client_id", c.ID)
	if c.secret != "" {
		form.Set("client_secret", c.secret)
	}
	return form
}

// with returns a copy of form with changed parameters; an empty value removes one.
func with(form url.Values, pairs ...string) url.Values {
	form = maps.Clone(form)
	for i := 0; i < len(pairs); i += 2 {
		form.Del(pairs[i])
		if pairs[i+1] != "" {
			form.Set(pairs[i], pairs[i+1])
		}
	}
	return form
}

// tokens redeems a new code.
func (d *deployment) tokens(c oauthClient) (tokens, grant.ID) {
	d.t.Helper()
	code := d.code(c)
	return d.mustIssue(d.post(c.redeem(code.Code))), code.GrantID
}

// mustIssue fails the test unless the answer is a success.
func (d *deployment) mustIssue(a answer) tokens {
	d.t.Helper()
	if a.status != http.StatusOK || a.AccessToken == "" || a.RefreshToken == "" {
		d.t.Fatalf("got %v, want tokens", a)
	}
	return a.tokens
}

// want fails the test unless the answer is an error of the given kind.
func want(t *testing.T, a answer, status int, code string) {
	t.Helper()
	if a.status != status || a.Error != code {
		t.Errorf("got %v, want %d %s", a, status, code)
	}
}

// dead requires that a grant has ended: its refresh token is refused and its row says
// why.
func (d *deployment) dead(c oauthClient, refreshToken string, id grant.ID, why grant.Reason) {
	d.t.Helper()
	want(d.t, d.post(c.refresh(refreshToken)), http.StatusBadRequest, "invalid_grant")
	if g := d.row(id); g.State != grant.Revoked || g.Reason != why {
		d.t.Errorf("grant is %v (%v), want revoked (%v)", g.State, g.Reason, why)
	}
}

// alive requires that a refresh token works, and returns the new tokens.
func (d *deployment) alive(c oauthClient, refreshToken string) tokens {
	d.t.Helper()
	return d.mustIssue(d.post(c.refresh(refreshToken)))
}
